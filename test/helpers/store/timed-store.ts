import { type CollectOptions, collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { inArchiveOrder, publishRecords, recordsOf } from "../publish/records.ts";
import { aroundCalls, memoryStorage } from "./storages.ts";

/** Milliseconds. */
export const hour = 3_600_000;
/** When the publishers of these tests say that it is. */
export const start = Date.parse("2026-03-01T00:00:00.000Z");

/** A store in memory with a clock that a test moves; objects have the time at which they were put. */
export function timedStore(
  objects = new Map<string, Buffer>(),
  modified = new Map<string, number>(),
  began = start,
) {
  let now = began;
  const memory = memoryStorage(objects);
  const storage = aroundCalls(memory, async (work, { operation, key }) => {
    const done = await work();
    if (operation === "put" || done === true) modified.set(key, now);
    return done;
  });
  storage.list = async function* (prefix) {
    for await (const info of memory.list(prefix))
      yield { ...info, modified: new Date(modified.get(info.key) ?? start) };
  };
  const run = (options: Partial<CollectOptions> = {}) =>
    collectGarbage(storage, {
      keepHours: 48,
      keepCommits: 24,
      keepChangesDays: 10_000,
      dryRun: false,
      now: new Date(now),
      ...options,
    });
  return {
    storage,
    collect: run,
    copy: () => timedStore(new Map(objects), new Map(modified), now),
    /** What its clock says. */
    now: () => new Date(now),
    pass: (hours: number) => {
      now += hours * hour;
    },
  };
}

/** The markets of a snapshot; those of another round differ in part. */
export const content = (round: number) =>
  inArchiveOrder([
    ...recordsOf(0, 160).filter((_, n) => n % 11 !== round),
    ...recordsOf(500 + round, 505 + round),
  ]);

const made = new Map<number, ReturnType<typeof newStoreWith>>();

/** A store with `count` snapshots of other content each, all of them superseded long ago except for the newest. */
export async function storeWith(count: number, contentOf = content) {
  if (contentOf !== content) return newStoreWith(count, contentOf);
  // The same store is made once for all tests of a file.
  if (!made.has(count)) made.set(count, newStoreWith(count, content));
  return (await made.get(count)!).copy();
}

async function newStoreWith(count: number, contentOf: typeof content) {
  const store = timedStore();
  for (let round = 0; round < count; round += 1) {
    await publishRecords(store.storage, contentOf(round), 700 + round);
  }
  store.pass(100);
  return store;
}
