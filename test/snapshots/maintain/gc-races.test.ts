import { expect, test } from "vitest";
import { type CollectOptions, collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishRecords } from "../../helpers/publish/records.ts";
import { expectShown } from "../../helpers/store/rollback-store.ts";
import { changedStorage } from "../../helpers/store/storages.ts";
import { content, hour, start, storeWith } from "../../helpers/store/timed-store.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const now = new Date(start + 100 * hour);
/** Collects all but the newest snapshot. */
const collectIn = (storage: Storage, options: Partial<CollectOptions> = {}) =>
  collectGarbage(storage, { keepHours: 48, keepCommits: 1, dryRun: false, now, ...options });

/** A collection deletes what it found unreachable, and somebody brings that back. The world holds it elsewhere too. */
test("a publish and a rollback to what a collection deletes are refused, and the publish succeeds after it", async () => {
  const { storage } = await storeWith(3);
  let refused: Promise<unknown[]> | undefined;
  const bringBack = () => [publishRecords(storage, content(0), 700), rollback(storage, "1", () => now)];
  const held = changedStorage(storage, {
    async delete(key) {
      refused ??= Promise.all(bringBack().map((work) => work.catch((error) => error)));
      await refused;
      await storage.delete(key);
    },
  });
  await collectIn(held);
  for (const error of (await refused)!)
    expect(error).toMatchObject({
      code: "COLLECTED_MEANWHILE",
      message: expect.stringContaining("a collection is deleting"),
    });
  await publishRecords(storage, content(0), 700);
  await expectShown(storage, 4);
});

test.for([
  ["publish", (storage: Storage) => publishRecords(storage, content(0), 700)],
  ["rollback", (storage: Storage) => rollback(storage, "1", () => now)],
] as const)(
  "what a %s brings back stays, where a collection has not told that it goes",
  async ([, bringBack]) => {
    const { storage: first } = await storeWith(3);
    const collecting = changedStorage(first, {
      async put(key, body) {
        if (key.startsWith(layout.collecting.prefix)) await bringBack(first);
        return first.put(key, body);
      },
    });
    await collectIn(collecting);
    await expectShown(first, 4);
    // And where the run had written all, and committed nothing yet.
    const { storage: second } = await storeWith(3);
    const committing = changedStorage(second, {
      async putIfAbsent(key, body) {
        if (key === layout.commit(4)) await collectIn(second);
        return second.putIfAbsent(key, body);
      },
    });
    await bringBack(committing);
    await expectShown(second, 4);
  },
);

test("a run whose commit another one followed, and whose snapshot was collected, shows the newest", async () => {
  const { storage, pass } = await storeWith(3);
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
  await expectShown(storage, 5);
});

// What names other objects must not stay without those that were put, and listed, before it.
test.for([
  { what: "record of a change", prefix: layout.changeRecord.prefix },
  { what: "manifest", prefix: layout.manifest.prefix },
])("the $what that a publisher puts while a collection lists goes with its parts", async ({ prefix }) => {
  const { storage, pass, collect, now: time } = await storeWith(1);
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
