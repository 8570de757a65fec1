import { RefusalList, type SourceRefusal } from "../contract/refusals.ts";

/** The rule that a file breaks when its content is no longer the listed one. */
export const changedRule = "changed while it was read";
const addedRule = "appeared while the others were read";

/** Whether files are refused for nothing but that they have changed meanwhile. */
export function namesOnlyChanges({ refusals }: SourceRefusal): boolean {
  return refusals.every(({ rule }) => rule === changedRule || rule === addedRule);
}

/**
 * Compares two listings of files, given as fingerprints by name. Throws SourceRefusal naming the files that were
 * changed, removed or added in between.
 */
export function refuseDifferences(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): void {
  const refusals = new RefusalList();
  for (const [file, fingerprint] of before) {
    if (after.get(file) !== fingerprint) refusals.add({ file, rule: changedRule });
  }
  for (const file of after.keys()) {
    if (!before.has(file)) refusals.add({ file, rule: addedRule });
  }
  refusals.throwIfAny();
}
