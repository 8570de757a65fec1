import type { ObjectInfo, Storage } from "./storage.ts";

/** S3 lists no more objects in one answer. */
const oneAnswer = 1000;

/**
 * Lists what is below `root` only once, and answers later listings from memory. Where that needs more than one answer,
 * each listing asks the store as before, so that those of several folders can run side by side.
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

/** Undefined where one answer does not show all of them. */
async function listFew(storage: Storage, prefix: string): Promise<ObjectInfo[] | undefined> {
  const infos: ObjectInfo[] = [];
  for await (const info of storage.list(prefix)) if (infos.push(info) === oneAnswer) return undefined;
  return infos;
}
