import type { ObjectInfo, Storage } from "./storage.ts";

/** So many objects S3 lists in one answer. */
const oneAnswer = 1000;

/**
 * The same store, which is listed below `root` once: what was there when that was first asked for is told from then on.
 * Where one answer does not show all of it, each listing asks the store, so that those of several folders can go on
 * side by side.
 */
export function listedOnce(storage: Storage, root: string): Storage {
  let few: Promise<ObjectInfo[] | undefined> | undefined;
  return {
    ...storage,
    async *list(prefix) {
      if (prefix.startsWith(root)) few ??= listFew(storage, root);
      const known = prefix.startsWith(root) ? await few : undefined;
      if (!known) return void (yield* storage.list(prefix));
      for (const info of known) if (info.key.startsWith(prefix)) yield info;
    },
  };
}

/** All objects below a prefix; undefined where one answer does not show them. */
async function listFew(storage: Storage, prefix: string): Promise<ObjectInfo[] | undefined> {
  const infos: ObjectInfo[] = [];
  for await (const info of storage.list(prefix)) if (infos.push(info) === oneAnswer) return undefined;
  return infos;
}
