import { expect, test } from "vitest";
import { SingleFlight } from "../../../../snapshots/read/budgets.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { CommitLog } from "../../../../snapshots/read/catalog/commit-log.ts";
import type { Snapshot } from "../../../../snapshots/read/catalog/snapshots.ts";
import { newestCommit } from "../../../../snapshots/store/log/commits.ts";
import { StorageError } from "../../../../snapshots/store/storage.ts";
import { append } from "../../../helpers/store/appended-commits.ts";
import { memoryStorage } from "../../../helpers/store/storages.ts";

const names = Array.from({ length: 2000 }, (_, n) => String(n));

/** How many of many entries a cache still has, those that came last. */
async function kept(read: (name: string, make: () => Promise<never>) => Promise<unknown>, entry: unknown) {
  let made = 0;
  const make = async () => {
    made += 1;
    return entry as never;
  };
  for (const name of names) await read(name, make);
  expect(made).toBe(names.length);
  for (const name of names.toReversed()) {
    await read(name, make);
    if (made > names.length) return names.length - 1 - Number(name);
  }
  return names.length;
}

const catalogOf = (cacheBytes: number) => new Catalog(memoryStorage(new Map()), { cacheBytes });

test("the caches of a catalog share its bytes: half for objects, an eighth for what follows from them", async () => {
  const { objects, derived } = catalogOf(1_280_000);
  expect(await kept((name, make) => objects.part(name, make), Buffer.alloc(1000))).toBe(640);
  expect(objects.counts()).toEqual({ bytes: 640_000, hits: 640, misses: 2001 });
  // Beside each, what its entry takes.
  const piece = (bytes: number) => ({ bytes: Buffer.allocUnsafeSlow(bytes).subarray(0, 1) });
  expect(await kept((name, make) => derived.pieces.get(name, make), piece(800))).toBe(120);
  expect(await kept((name, make) => derived.pieces.get(name, make), piece(801))).toBe(119);
  expect(await kept((name, make) => derived.ids.get(name, make), "id")).toBe(100);
  expect(await kept((name, make) => derived.hashes.get(name, make), Buffer.alloc(300))).toBe(40);
});

test.each<[string, entries: number, { cursor?: string; ordinals?: number; parts?: Buffer[] }]>([
  ["nothing", 480, {}],
  ["ordinals and a cursor", 299, { cursor: "x", ordinals: 75 }],
  ["ordinals and a part", 299, { ordinals: 50, parts: [Buffer.allocUnsafeSlow(1)] }],
  ["parts of one buffer", 300, { parts: Array(2).fill(Buffer.allocUnsafeSlow(200)) }],
])("three eighths are for pages; of those with %s there are %i", (_, entries, page) => {
  const { answers } = catalogOf(1_280_000);
  const { cursor = null, ordinals = 0, parts = [] } = page;
  const snapshot = {} as Snapshot;
  for (const name of names)
    answers.set(name, {
      snapshot,
      etag: name,
      numbers: { count: 0, total: 0, page: 1, pageSize: 1, nextCursor: cursor },
      ordinals: Array<number>(ordinals).fill(0),
      spliced: { parts, rawBytes: 0, crc: 0 },
    });
  const found = names.flatMap((name) => answers.get(name) ?? []);
  expect(found.map(({ etag }) => etag)).toEqual(names.slice(-entries));
  answers.clear();
  expect(answers.get(names.at(-1)!)).toBeUndefined();
});

test("an entry that is being made reaches those who wait for it, though others took its place", async () => {
  const { objects } = catalogOf(2000);
  const made = Promise.withResolvers<Buffer>();
  const waiting = objects.part("slow", () => made.promise);
  for (const name of ["a", "b"]) await objects.part(name, async () => Buffer.alloc(1000));
  made.resolve(Buffer.from("slow"));
  expect(String(await waiting)).toBe("slow");
});

test("a look into the store serves for its time or until there is another commit, unless it failed", async () => {
  const storage = memoryStorage(new Map());
  let [looks, now, failing] = [0, 1_000_000, false];
  const log = new CommitLog(storage, { now: () => now });
  const takeUp = async () => {
    await append(storage);
    await log.takeUp((await newestCommit(storage))!);
  };
  await takeUp();
  const look = async () => {
    looks += 1;
    if (failing) throw new StorageError("no");
    return looks;
  };
  const found = log.recent(look);
  const after = (milliseconds: number) => {
    now += milliseconds;
    return found();
  };
  expect([await after(0), await after(4999), await after(1)]).toEqual([1, 1, 2]);
  // The clock is set back.
  expect([await after(-4999), await after(-1)]).toEqual([2, 3]);
  await takeUp();
  expect(await after(0)).toBe(4);
  failing = true;
  await expect(after(5000)).rejects.toThrow(StorageError);
  failing = false;
  expect([await after(0), await after(0)]).toEqual([6, 6]);
});

test("work under way is shared by name, and done again once it ended", async () => {
  const flight = new SingleFlight<number>();
  let works = 0;
  const run = (name: string) => flight.run(name, async () => (works += 1));
  expect(await Promise.all([run("a"), run("a"), run("b")])).toEqual([1, 1, 2]);
  expect(await run("a")).toBe(3);
});
