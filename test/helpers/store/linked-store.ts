import { randomBytes } from "node:crypto";
import { link, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";

const made = new Map<string, Promise<string>>();

/**
 * A store in a new directory below `folder`, filled by `fill`. The content for a name is made once per folder, and each
 * store is a copy of it by hard link. A storage never changes a file in place, so no copy sees what happens to another.
 */
export async function linkedStore(
  folder: string,
  name: string,
  fill: (storage: Storage) => Promise<unknown>,
): Promise<Storage> {
  const template = join(folder, `made-${name}`);
  if (!made.has(template))
    made.set(
      template,
      Promise.resolve(fill(directoryStorage(template))).then(() => template),
    );
  const copy = join(folder, `store-${randomBytes(8).toString("hex")}`);
  await linkTree((await made.get(template))!, copy);
  return directoryStorage(copy);
}

async function linkTree(from: string, to: string): Promise<void> {
  const entries = await readdir(from, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const place = (path: string) => join(to, path.slice(from.length));
  for (const folder of new Set(files.map(({ parentPath }) => parentPath)))
    await mkdir(place(folder), { recursive: true });
  await Promise.all(
    files.map(({ parentPath, name }) => link(join(parentPath, name), place(join(parentPath, name)))),
  );
}
