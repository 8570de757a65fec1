import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { exitCodeOf, exitCodes } from "../../scripts/cli.ts";
import { createS3Client, type S3Limits, s3Storage } from "../../snapshots/store/backends/s3.ts";
import { CorruptObjectError } from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { parseS3Location, type Storage, StorageError } from "../../snapshots/store/storage.ts";
import { type FaultPlan, type S3Fault, type S3Operation, startFaultyS3 } from "../helpers/store/faulty-s3.ts";
import {
  expectAllGood,
  expectWhole,
  type OldAndNew,
  oldAndNew,
  publishNew,
  seenBy,
} from "../helpers/store/faulty-store.ts";
import { startSmallS3 } from "../helpers/store/small-s3.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

// By the clock of these tests, of which a second passes at every turn of this process's loop: what nothing answers is
// given up at once, and a machine that stands still, or is slow, makes nothing late.
const long = 1_000_000;
/** Where nothing hangs, nothing is given up. */
const patient: S3Limits = { connectSeconds: long, attemptSeconds: long, operationSeconds: long, attempts: 3 };
/** Where something does, over the server in this process: it answers within a few turns. */
const hasty: S3Limits = { ...patient, attemptSeconds: 200, attempts: 2 };

/** What a request is for. */
const identity = ({ method, path, listed }: S3Operation) =>
  `${method} ${path.replace(/^[^/]+\/?/, "")} ${listed}`;
const isCommit = ({ method, path }: S3Operation) => method === "PUT" && path.endsWith(layout.commit(2));

// Over a server in this process: the trials are many, and a real one's disk would make them wait. process.test.ts has a
// real one.
describe("a publish over S3", () => {
  let snapshots: OldAndNew;
  /** The requests of a publish in which nothing fails. */
  let usual: S3Operation[];

  /** A publish in a store of its own that has the old snapshot, behind a server that fails as planned. */
  async function trial(plan: FaultPlan, limits = patient) {
    const store = memoryStorage(new Map(snapshots.store));
    const small = await startSmallS3(store);
    const server = await startFaultyS3(small.environment, patient);
    server.follow(plan);
    const client = createS3Client(server.environment, limits);
    const storage = s3Storage(parseS3Location("s3://bucket")!, client, limits);
    const outcome: unknown = await publishNew(storage).catch((error) => error);
    client.destroy();
    await server.stop();
    await small.stop();
    return { outcome, operations: server.operations, store };
  }

  /**
   * The first request of each kind that a publish makes, as each trial takes its time. Objects differ in their names
   * only, and so do public names, and the folders of objects that are listed.
   */
  function oneOfEachKind(operations: readonly S3Operation[]): S3Operation[] {
    const names = /[^/ ]*[0-9a-f]{64}[^/ ]*|(?<=\/scores\/)[^/ ]+|(?<=GET {2}private\/)\w+\/$/g;
    const kindOf = (operation: S3Operation) => identity(operation).replace(names, "");
    return [...new Map(operations.toReversed().map((operation) => [kindOf(operation), operation])).values()];
  }

  async function expectConverged(store: Storage): Promise<void> {
    expect(await publishNew(store)).toMatchObject({ commit: 2, snapshotId: snapshots.new });
    await expectAllGood(store, snapshots.new);
  }

  /** Runs a trial for every item, several at a time: most of the time they wait. */
  async function each<T>(
    items: readonly T[],
    lanes: number,
    work: (item: T) => Promise<void>,
  ): Promise<void> {
    const queue = items.values();
    const lane = async () => {
      for (const item of queue) await work(item);
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  }

  beforeAll(async () => {
    snapshots = await oldAndNew();
    const { operations, outcome } = await trial(() => undefined);
    expect(outcome).toMatchObject({ outcome: "published", commit: 2, snapshotId: snapshots.new });
    usual = operations;
    expect(usual.length).toBeGreaterThan(40);
  });

  let clock: NodeJS.Timeout;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    clock = setInterval(() => vi.advanceTimersByTime(1000), 1);
  });
  afterEach(() => {
    clearInterval(clock);
    vi.useRealTimers();
  });

  const lanes = 4;
  const faults = ["unavailable", "reset", "hang", "lost"] as const satisfies S3Fault[];

  test.for([...faults, "cut"] as const)(
    "succeeds when every request meets, the first time: %s",
    async (fault) => {
      const limits = fault === "hang" ? hasty : patient;
      // Where each costs its waits, one of each kind meets it, in some trials. Nothing of these faults comes from the
      // server.
      const slow = fault === "hang" || fault === "unavailable";
      const aims = (slow ? oneOfEachKind(usual) : usual).map(identity);
      const shares = slow
        ? Array.from({ length: lanes }, (_, part) => aims.filter((_, n) => n % lanes === part))
        : [aims];
      await each(shares, lanes, async (share) => {
        const unmet = new Set(share);
        const meets = (operation: S3Operation) => (unmet.delete(identity(operation)) ? fault : undefined);
        const { outcome, store } = await trial(meets, limits);
        expect(outcome).toMatchObject({ outcome: "published", commit: 2 });
        expect([...unmet]).toEqual([]);
        await expectAllGood(store, snapshots.new);
      });
    },
  );

  test.for(faults)("ends with exit code 5 when any one kind of request always meets: %s", async (fault) => {
    // Each kind meets one of the four faults.
    const wanted = oneOfEachKind(usual).filter((_, n) => n % faults.length === faults.indexOf(fault));
    await each(wanted, 12, async (aim) => {
      const { outcome, store, operations } = await trial(
        (operation) => (identity(operation) === identity(aim) ? fault : undefined),
        fault === "hang" ? hasty : patient,
      );
      const seen = await expectWhole(store, snapshots.old, snapshots.new);
      // The second try is told that the commit exists, and finds it to be its own.
      if (isCommit(aim) && fault === "lost") expect(outcome).toMatchObject({ outcome: "published" });
      else {
        expect(exitCodeOf(outcome), `${identity(aim)}: ${outcome}`).toBe(exitCodes.unreachable);
        const committed = !isCommit(aim) && operations.some(isCommit);
        expect(seen, identity(aim)).toBe(committed ? snapshots.new : snapshots.old);
      }
      await expectConverged(store);
    });
  });

  test.for([
    ["was stored", "lost"],
    ["was not stored", "reset"],
  ] as const)("does not know the outcome when its commit %s and then nothing answers", async ([, fault]) => {
    let gone = false;
    const { outcome, operations, store } = await trial((operation) => {
      if (gone) return "reset";
      gone = isCommit(operation);
      return gone ? fault : undefined;
    });
    expect(outcome).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(exitCodeOf(outcome)).toBe(exitCodes.unreachable);
    expect(String(outcome)).toContain("run again to find out");
    expect(operations.filter(({ method }) => method === "DELETE")).toEqual([]);
    expect(await expectWhole(store, snapshots.old, snapshots.new)).toBe(
      fault === "lost" ? snapshots.new : snapshots.old,
    );
    await expectConverged(store);
  });

  test.for([
    ["conflict", 6],
    ["unimplemented", 5],
  ] as const)(
    "shows the new snapshot when the first try of every public name meets, and a conditional one of the commit: %s",
    async ([fault, least]) => {
      const met = new Set<string>();
      const { outcome, store } = await trial((operation) => {
        const { method, path } = operation;
        const isName = method === "PUT" && path.includes(layout.stableScore.prefix);
        // No store that implements conditions says of a commit that it does not.
        if (met.has(path) || !(isName || (isCommit(operation) && fault === "conflict"))) return undefined;
        met.add(path);
        return fault;
      });
      expect(outcome).toMatchObject({ outcome: "published", commit: 2 });
      expect(met.size).toBeGreaterThanOrEqual(least);
      await expectAllGood(store, snapshots.new);
    },
  );

  test("gives up when it always does, with the old snapshot in place", async () => {
    const { outcome, operations, store } = await trial((operation) =>
      isCommit(operation) ? "conflict" : undefined,
    );
    expect(exitCodeOf(outcome)).toBe(exitCodes.unreachable);
    expect(operations.filter(isCommit).length).toBeGreaterThan(3);
    expect(await expectWhole(store, snapshots.old)).toBe(snapshots.old);
    await expectConverged(store);
  });

  test("refuses a store that ignores conditions before anything else is written", async () => {
    const { outcome, operations, store } = await trial(({ method }) =>
      method === "PUT" ? "unconditional" : undefined,
    );
    expect(outcome).toBeInstanceOf(StorageError);
    expect(String(outcome)).toContain("ignores If-None-Match");
    const written = operations.filter(({ method }) => method !== "GET").map(({ path }) => path);
    expect(new Set(written.map((path) => path.split("/").at(-1)))).toEqual(new Set([layout.probe]));
    await expectAllGood(store, snapshots.old);
  });

  test.for(["flipped", "shortened"] as const)(
    "does not commit when any object of the snapshot is %s in the store",
    async (fault) => {
      const isObject = ({ method, path }: S3Operation) =>
        method === "PUT" && /\/(private|manifests|public\/objects)\//.test(path);
      // Each kind meets one of the two.
      const kinds = oneOfEachKind(usual.filter(isObject)).map(identity);
      expect(kinds.length).toBeGreaterThan(6);
      const objects = kinds.filter((_, n) => (n % 2 === 0) === (fault === "flipped"));
      await each(objects, 12, async (aim) => {
        const { outcome, store } = await trial((operation) =>
          identity(operation) === aim ? fault : undefined,
        );
        expect(outcome, aim).toBeInstanceOf(CorruptObjectError);
        expect(String(outcome)).toContain("the store returns other bytes than were written");
        expect(await seenBy(store)).toBe(snapshots.old);
        await expectConverged(store);
      });
    },
  );
});
