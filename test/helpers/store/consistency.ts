import { headsFromPath, type TreeHead } from "../../../snapshots/format/tree.ts";

/** Whether `path` shows `before` to be the beginning of `after`. */
export function isConsistent(before: TreeHead, after: TreeHead, path: readonly Buffer[]): boolean {
  if (!(before.size >= 1 && before.size <= after.size)) return false;
  const [first, whole] = headsFromPath(before.size, after.size, path, before.head) ?? [];
  return first?.equals(before.head) === true && whole?.equals(after.head) === true;
}
