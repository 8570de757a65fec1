import { beforeAll, describe, expect, test } from "vitest";
import type { Storage } from "../../snapshots/store/storage.ts";
import {
  Crash,
  expectAllGood,
  expectWhole,
  type OldAndNew,
  oldAndNew,
  publishNew,
  steppedStorage,
} from "../helpers/store/faulty-store.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

let snapshots: OldAndNew;

beforeAll(async () => {
  snapshots = await oldAndNew();
});

/** The storage of a process that ends before or after its n-th operation. */
function crashingAt(storage: Storage, n: number, when: "before" | "after"): Storage {
  return steppedStorage(storage, {
    before: (now) => {
      if (when === "before" ? now >= n : now > n) throw new Crash();
    },
    after: (now) => {
      if (when === "after" && now >= n) throw new Crash();
    },
  });
}

describe.for(["before", "after"] as const)("a publisher that ends %s an operation", (when) => {
  test.for([
    ["over an older snapshot", true],
    ["over an empty store", false],
  ] as const)("%s leaves one whole snapshot, and the next run makes all good", async ([, existing]) => {
    const before = existing ? snapshots.old : undefined;
    const seen: (string | undefined)[] = [];
    // The moment after an operation differs from the one before the next only where several are under way, and a first
    // publish from a later one in that there is nothing to keep.
    const step = when === "before" ? (existing ? 2 : 3) : existing ? 4 : 7;
    for (let n = 0, ended = false; !ended; n += step) {
      const storage = memoryStorage(new Map(existing ? snapshots.store : []));
      const outcome = await publishNew(crashingAt(storage, n, when)).catch((error: unknown) => error);
      // Where it ends on its way to read the commit back, the publisher says that nothing is known of it.
      ended = ![outcome, (outcome as Error).cause].some((error) => error instanceof Crash);
      if (ended) expect(outcome).toMatchObject({ outcome: "published" });
      seen.push(await expectWhole(storage, before, snapshots.new));
      const { commit } = await publishNew(storage);
      expect(commit).toBe(existing ? 2 : 1);
      await expectAllGood(storage, snapshots.new);
    }
    // The change comes at one of the operations, and stays.
    const change = seen.indexOf(snapshots.new);
    expect(change * step).toBeGreaterThan(10);
    expect((seen.length - change) * step).toBeGreaterThan(5);
    expect(new Set(seen.slice(0, change))).toEqual(new Set([before]));
    expect(new Set(seen.slice(change))).toEqual(new Set([snapshots.new]));
  });
});
