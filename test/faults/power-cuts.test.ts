import { existsSync, statSync } from "node:fs";
import files, { readdir, readFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exitCodeOf, exitCodes } from "../../scripts/cli.ts";
import { issueKey, readKeys, revokeKey } from "../../snapshots/keys/keys.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import {
  Crash,
  expectWhole,
  oldAndNew,
  publishNew,
  publishOld,
  seenBy,
  steppedStorage,
} from "../helpers/store/faulty-store.ts";
import { changedStorage, listed, memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

/** Told of every file and folder that was synced. */
const hooks = { synced: async (_folder: string): Promise<void> => {} };

const { open } = files;
beforeAll(() => {
  files.open = async (path, ...more) => {
    const file = await open(path, ...more);
    const sync = file.sync.bind(file);
    file.sync = async () => {
      await sync();
      await hooks.synced(String(path));
    };
    return file;
  };
  syncBuiltinESMExports();
});
afterAll(() => {
  files.open = open;
  syncBuiltinESMExports();
});

const folder = testFolder();
/** What every folder held when it was synced last: bytes of files, and null for folders. */
const synced = new Map<string, Map<string, Buffer | null>>();
/** What a power cut would leave of a store: names that were synced, in folders whose own names were. */
function left(root: string): Map<string, Buffer> {
  const objects = new Map<string, Buffer>();
  const add = (path: string, prefix: string) => {
    for (const [name, bytes] of synced.get(path) ?? []) {
      if (bytes) objects.set(prefix + name, bytes);
      else add(join(path, name), `${prefix}${name}/`);
    }
  };
  const name = root.slice(dirname(root).length + 1);
  if (synced.get(dirname(root))?.has(name)) add(root, "");
  return objects;
}

async function take(path: string): Promise<void> {
  const entries = new Map<string, Buffer | null>();
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.name.startsWith(".tmp-")) continue;
    entries.set(entry.name, entry.isDirectory() ? null : await readFile(join(path, entry.name)));
  }
  synced.set(path, entries);
}

test("a power cut takes nothing back that was reported, and leaves a whole snapshot whenever it comes", async () => {
  const { old, new: next } = await oldAndNew();
  const root = join(folder, "power", "store");
  const afterCut = () => memoryStorage(left(root));
  const seen = new Set<string | undefined>();
  await take(folder);
  hooks.synced = async (path) => {
    if (!statSync(path).isDirectory()) return;
    await take(path);
    seen.add(await expectWhole(afterCut(), undefined, old, next));
  };
  const storage = directoryStorage(root);
  await publishOld(storage);
  expect(await seenBy(afterCut())).toBe(old);
  // A run that is killed before it has synced its commit reports none; the next one, with nothing new, does.
  const { synced: note } = hooks;
  let killed = false;
  hooks.synced = async (path) => {
    killed ||= path === join(root, "commits") && existsSync(join(root, layout.commit(2)));
    if (killed) throw new Crash();
    await note(path);
  };
  const before = () => {
    if (killed) throw new Crash();
  };
  const unknown = await publishNew(steppedStorage(storage, before)).catch((error) => error);
  expect(unknown).toMatchObject({
    code: "COMMIT_UNKNOWN",
    message: expect.stringMatching(/run again to find out$/),
  });
  expect(exitCodeOf(unknown)).toBe(exitCodes.unreachable);
  expect(await seenBy(afterCut())).toBe(old);
  hooks.synced = note;
  expect(await publishNew(directoryStorage(root))).toMatchObject({ outcome: "unchanged" });
  expect(await seenBy(afterCut())).toBe(next);
  await rollback(storage, "1", () => new Date());
  expect(await seenBy(afterCut())).toBe(old);
  const { record } = await issueKey(storage, { plan: "aegis", owner: "partner" }, new Date());
  expect((await readKeys(afterCut())).records).toEqual([record]);
  await revokeKey(storage, record.id, new Date());
  expect((await readKeys(afterCut())).records).toEqual((await readKeys(storage)).records);
  // Now some of what went from other folders has reached the disk, and of the manifests only what was synced.
  const torn = async () => {
    const objects = new Map([...left(root)].filter(([key]) => key.startsWith(layout.manifest.prefix)));
    for (const { key } of await listed(storage)) {
      // The collection deletes several at a time.
      const bytes = key.startsWith(layout.manifest.prefix) ? undefined : await storage.get(key);
      if (bytes) objects.set(key, bytes);
    }
    return memoryStorage(objects);
  };
  const watched = changedStorage(storage, {
    async delete(key) {
      await storage.delete(key);
      if (!key.startsWith(layout.manifest.prefix)) await expectWhole(await torn(), old);
    },
  });
  const soon = new Date(Date.now() + 3_600_000);
  const { deleted } = await collectGarbage(watched, {
    keepHours: 0,
    keepCommits: 1,
    now: soon,
    dryRun: false,
  });
  expect(deleted.keys.length).toBeGreaterThan(5);
  expect(seen).toEqual(new Set([undefined, old, next]));
});
