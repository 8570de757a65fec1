import { beforeAll, describe, expect, test } from "vitest";
import { isFault } from "../../../schemas/errors.ts";
import { type CollectOptions, collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { inArchiveOrder, publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { seenBy, steppedStorage } from "../../helpers/store/faulty-store.ts";
import { changedStorage } from "../../helpers/store/storages.ts";
import { hour, start, storeWith } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const now = new Date(start + 100 * hour);
const content = (round: number) =>
  inArchiveOrder([
    ...recordsOf(0, 60).filter((_, n) => n % 11 !== round),
    ...recordsOf(100 + round, 104 + round),
  ]);
/** Three snapshots; only the newest is kept. */
let three: Awaited<ReturnType<typeof storeWith>>;

beforeAll(async () => {
  three = await storeWith(3, content);
});

/** Collects all but the newest snapshot. */
const collectIn = (storage: Storage, options: Partial<CollectOptions> = {}) =>
  collectGarbage(storage, { keepHours: 48, keepCommits: 1, dryRun: false, now, ...options });

/** What makes a snapshot current that no retained commit reaches. */
const comebacks = [
  { name: "a publish", bringBack: (storage: Storage) => publishRecords(storage, content(0), 700) },
  { name: "a rollback", bringBack: (storage: Storage) => rollback(storage, "1", () => now) },
];

/** Ends in order, or with a refusal that says why. */
async function outcomeOf(work: Promise<unknown>): Promise<"done" | "refused"> {
  try {
    await work;
    return "done";
  } catch (error) {
    expect(isFault(error, "COLLECTED_MEANWHILE", "ROLLBACK_REFUSED")).toBe(true);
    expect(String(error)).toMatch(/collect|incomplete/);
    return "refused";
  }
}

/** The store is whole, and shows what came back unless that was refused. */
async function expectNothingMissing(storage: Storage, outcome: "done" | "refused"): Promise<void> {
  expect(await faultsOf(storage)).toEqual([]);
  const newest = await newestCommit(storage);
  expect(newest?.entry.commit).toBe(outcome === "done" ? 4 : 3);
  expect(await seenBy(storage)).toBe(newest?.entry.snapshotId);
}

describe.for(comebacks)("$name that brings back what a collection found unreachable", ({ bringBack }) => {
  test("while that is held at one of its operations leaves the newest commit whole", async () => {
    const outcomes = new Set<string>();
    for (let n = 0, reached = true; reached; n += 3) {
      const { storage } = three.copy();
      let outcome: "done" | "refused" = "refused";
      reached = false;
      const held = steppedStorage(storage, {
        before: async (operation) => {
          if (operation !== n) return;
          reached = true;
          outcome = await outcomeOf(bringBack(storage));
        },
      });
      await collectIn(held);
      if (!reached) break;
      await expectNothingMissing(storage, outcome);
      outcomes.add(outcome);
    }
    expect(outcomes).toEqual(new Set(["done", "refused"]));
  });
});

test("a publish and a rollback to what a collection deletes are refused, and the publish succeeds after it", async () => {
  const { storage } = three.copy();
  let outcomes: Promise<string[]> | undefined;
  const bringBack = async () => [
    await outcomeOf(publishRecords(storage, content(0), 700)),
    await outcomeOf(rollback(storage, "1", () => now)),
  ];
  const held = changedStorage(storage, {
    async delete(key) {
      outcomes ??= bringBack();
      await outcomes;
      await storage.delete(key);
    },
  });
  await collectIn(held);
  expect(await outcomes).toEqual(["refused", "refused"]);
  await publishRecords(storage, content(0), 700);
  await expectNothingMissing(storage, "done");
});

test("a run whose commit another one followed, and whose snapshot was collected, shows the newest", async () => {
  const { storage, pass } = three.copy();
  let followed = false;
  const held = changedStorage(storage, {
    // Read after the commit, before the names.
    async get(key, options) {
      if (key === layout.siteFile("api.json") && !followed) {
        followed = true;
        await rollback(storage, "1", () => now);
        await collectIn(storage, { keepHours: 0, now: new Date(start + 1000 * hour) });
      }
      return storage.get(key, options);
    },
  });
  pass(1);
  await rollback(held, "2", () => now);
  expect(followed).toBe(true);
  expect(await faultsOf(storage)).toEqual([]);
  const newest = await newestCommit(storage);
  expect(newest?.entry.commit).toBe(5);
  expect(await seenBy(storage)).toBe(newest?.entry.snapshotId);
});

test("public names stay after a rollback to a snapshot that an older commit keeps too", async () => {
  const { storage, pass, collect } = await storeWith(2);
  await rollback(storage, "1", () => now);
  pass(100);
  await collect();
  expect(await storage.get(layout.stableScoreList)).toBeDefined();
  expect(await faultsOf(storage)).toEqual([]);
});

// What names other objects must not stay without those that were put, and listed, before it.
test.for([
  { what: "record of a change", prefix: layout.changeRecord.prefix },
  { what: "manifest", prefix: layout.manifest.prefix },
])("the $what that a publisher puts while a collection lists goes with its parts", async ({ prefix }) => {
  const { storage, pass, collect, now: time } = await storeWith(1, content);
  const [written, listed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const publisher = changedStorage(storage, {
    async put(key, body) {
      if (key.startsWith(prefix) && key.endsWith(".json")) {
        written.resolve();
        await listed.promise;
        pass(1);
      }
      if (key.startsWith(layout.manifest.prefix)) pass(1);
      return storage.put(key, body);
    },
  });
  const published = publishRecords(publisher, content(1), 701);
  await written.promise;
  const collecting = changedStorage(storage, {
    async *list(place) {
      // It has listed what may go, and reads the log.
      if (place === layout.commit.prefix) {
        listed.resolve();
        await published;
        if (prefix === layout.manifest.prefix && (await newestCommit(storage))?.entry.commit === 2) {
          pass(1);
          await publishRecords(storage, content(2), 702);
        }
      }
      yield* storage.list(place);
    },
  });
  const retention = { keepHours: 0, keepCommits: 1, keepChangesDays: 0 };
  await collectIn(collecting, { ...retention, now: new Date(time().getTime() + 3 * hour) });
  await collect({ keepChangesDays: 400 });
  expect(await faultsOf(storage)).toEqual([]);
});

test("a publish over a store that lists nothing of what was put says so, and not that a collection runs", async () => {
  const { storage } = await storeWith(1);
  const blind = changedStorage(storage, { async *list() {} });
  await expect(publishRecords(blind, content(1), 701)).rejects.toThrow(
    /^memory: (manifests|p\S+)\/\S+ was put, and the store does not list it: .* see that it may list$/,
  );
});
