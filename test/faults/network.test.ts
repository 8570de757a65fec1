import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { exitCodeOf, exitCodes } from "../../scripts/cli.ts";
import { createS3Client, type S3Limits, s3Storage } from "../../snapshots/store/backends/s3.ts";
import { CorruptObjectError } from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { parseS3Location, type Storage, StorageError } from "../../snapshots/store/storage.ts";
import {
  expectAllGood,
  expectWhole,
  type OldAndNew,
  oldAndNew,
  publishNew,
  seenBy,
} from "../helpers/store/faulty-store.ts";
import { type SmallFault, startSmallS3 } from "../helpers/store/small-s3.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

// By the clock of these tests, of which a second passes at every turn of this process's loop: what nothing answers is
// given up at once, and a machine that stands still, or is slow, makes nothing late.
const long = 1_000_000;
/** Where nothing hangs, nothing is given up. */
const patient: S3Limits = { connectSeconds: long, attemptSeconds: long, operationSeconds: long, attempts: 3 };
/** Where something does, over the server in this process: it answers within a few turns. */
const hasty: S3Limits = { ...patient, attemptSeconds: 200, attempts: 2 };

/** A request, and what it is for. */
interface Asked {
  method: string;
  key: string;
  identity: string;
}
const isCommit = ({ method, key }: Asked) => method === "PUT" && key === layout.commit(2);

// Over a server in this process: the trials are many, and a real one's disk would make them wait.
describe("a publish over S3", () => {
  let snapshots: OldAndNew;
  /** The requests of a publish in which nothing fails. */
  let usual: Asked[];

  /** A publish in a store of its own that has the old snapshot, on a server that fails as planned. */
  async function trial(plan: (asked: Asked) => SmallFault | undefined, limits = patient) {
    const store = memoryStorage(new Map(snapshots.store));
    const server = await startSmallS3(store);
    const requests: Asked[] = [];
    server.fault = (method, key, _, listed) => {
      const asked = { method, key, identity: `${method} ${key} ${listed}` };
      requests.push(asked);
      return plan(asked);
    };
    const client = createS3Client(server.environment, limits);
    const storage = s3Storage(parseS3Location("s3://bucket")!, client, limits);
    const outcome: unknown = await publishNew(storage).catch((error) => error);
    client.destroy();
    await server.stop();
    return { outcome, requests, store };
  }

  /**
   * The first request of each kind that a publish makes, as each trial takes its time. Objects differ in their names
   * only, and so do public names, and the folders of objects that are listed.
   */
  function oneOfEachKind(requests: readonly Asked[]): Asked[] {
    const names = /[^/ ]*[0-9a-f]{64}[^/ ]*|(?<=\/scores\/)[^/ ]+|(?<=GET {2}private\/)\w+\/$/g;
    const kindOf = ({ identity }: Asked) => identity.replace(names, "");
    return [...new Map(requests.toReversed().map((asked) => [kindOf(asked), asked])).values()];
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
    const { requests, outcome } = await trial(() => undefined);
    expect(outcome).toMatchObject({ outcome: "published", commit: 2, snapshotId: snapshots.new });
    usual = requests;
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
  const faults = [
    ["unavailable", { status: 503, code: "SlowDown" }],
    ["reset", "reset"],
    ["hang", "hang"],
    ["lost", "lost"],
  ] as const satisfies [string, SmallFault][];

  test.for([...faults, ["cut", "cut"] as const])(
    "succeeds when every request meets, the first time: %s",
    async ([name, fault]) => {
      const limits = fault === "hang" ? hasty : patient;
      // Where each costs its waits, one of each kind meets it, in some trials.
      const slow = name === "hang" || name === "unavailable";
      const aims = (slow ? oneOfEachKind(usual) : usual).map(({ identity }) => identity);
      const shares = slow
        ? Array.from({ length: lanes }, (_, part) => aims.filter((_, n) => n % lanes === part))
        : [aims];
      await each(shares, lanes, async (share) => {
        const unmet = new Set(share);
        const { outcome, store } = await trial(
          ({ identity }) => (unmet.delete(identity) ? fault : undefined),
          limits,
        );
        expect(outcome).toMatchObject({ outcome: "published", commit: 2 });
        expect([...unmet]).toEqual([]);
        await expectAllGood(store, snapshots.new);
      });
    },
  );

  test.for(faults.map(([name, fault], place) => [name, fault, place] as const))(
    "ends with exit code 5 when any one kind of request always meets: %s",
    async ([, fault, place]) => {
      // Each kind meets one of the four faults.
      const wanted = oneOfEachKind(usual).filter((_, n) => n % faults.length === place);
      await each(wanted, 12, async (aim) => {
        const { outcome, store, requests } = await trial(
          ({ identity }) => (identity === aim.identity ? fault : undefined),
          fault === "hang" ? hasty : patient,
        );
        const seen = await expectWhole(store, snapshots.old, snapshots.new);
        // The second try is told that the commit exists, and finds it to be its own.
        if (isCommit(aim) && fault === "lost") expect(outcome).toMatchObject({ outcome: "published" });
        else {
          expect(exitCodeOf(outcome), `${aim.identity}: ${outcome}`).toBe(exitCodes.unreachable);
          const committed = !isCommit(aim) && requests.some(isCommit);
          expect(seen, aim.identity).toBe(committed ? snapshots.new : snapshots.old);
        }
        await expectConverged(store);
      });
    },
  );

  test.for([
    ["was stored", "lost"],
    ["was not stored", "reset"],
  ] as const)("does not know the outcome when its commit %s and then nothing answers", async ([, fault]) => {
    let gone = false;
    const { outcome, requests, store } = await trial((asked) => {
      if (gone) return "reset";
      gone = isCommit(asked);
      return gone ? fault : undefined;
    });
    expect(outcome).toMatchObject({ code: "COMMIT_UNKNOWN" });
    expect(exitCodeOf(outcome)).toBe(exitCodes.unreachable);
    expect(String(outcome)).toContain("run again to find out");
    expect(requests.filter(({ method }) => method === "DELETE")).toEqual([]);
    expect(await expectWhole(store, snapshots.old, snapshots.new)).toBe(
      fault === "lost" ? snapshots.new : snapshots.old,
    );
    await expectConverged(store);
  });

  const conflict = { status: 409, code: "ConditionalRequestConflict" };
  test.for([
    [conflict, 6],
    [{ status: 501, code: "NotImplemented" }, 5],
  ] as const)(
    "shows the new snapshot when the first try of every public name meets, and a conditional one of the commit: %o",
    async ([fault, least]) => {
      const met = new Set<string>();
      const { outcome, store } = await trial((asked) => {
        const { method, key } = asked;
        const isName = method === "PUT" && key.startsWith(layout.stableScore.prefix);
        // No store that implements conditions says of a commit that it does not.
        if (met.has(key) || !(isName || (isCommit(asked) && fault === conflict))) return undefined;
        met.add(key);
        return fault;
      });
      expect(outcome).toMatchObject({ outcome: "published", commit: 2 });
      expect(met.size).toBeGreaterThanOrEqual(least);
      await expectAllGood(store, snapshots.new);
    },
  );

  test("gives up when it always does, with the old snapshot in place", async () => {
    const { outcome, requests, store } = await trial((asked) => (isCommit(asked) ? conflict : undefined));
    expect(exitCodeOf(outcome)).toBe(exitCodes.unreachable);
    expect(requests.filter(isCommit).length).toBeGreaterThan(3);
    expect(await expectWhole(store, snapshots.old)).toBe(snapshots.old);
    await expectConverged(store);
  });

  test("refuses a store that ignores conditions before anything else is written", async () => {
    const { outcome, requests, store } = await trial(({ method }) =>
      method === "PUT" ? "unconditional" : undefined,
    );
    expect(outcome).toBeInstanceOf(StorageError);
    expect(String(outcome)).toContain("ignores If-None-Match");
    const written = requests.filter(({ method }) => method !== "GET").map(({ key }) => key);
    expect(new Set(written)).toEqual(new Set([layout.probe]));
    await expectAllGood(store, snapshots.old);
  });

  test.for(["flipped", "shortened"] as const)(
    "does not commit when any object of the snapshot is %s in the store",
    async (fault) => {
      const isObject = ({ method, key }: Asked) =>
        method === "PUT" && /^(private|manifests|public\/objects)\//.test(key);
      // Each kind meets one of the two.
      const kinds = oneOfEachKind(usual.filter(isObject)).map(({ identity }) => identity);
      expect(kinds.length).toBeGreaterThan(6);
      const objects = kinds.filter((_, n) => (n % 2 === 0) === (fault === "flipped"));
      await each(objects, 12, async (aim) => {
        const { outcome, store } = await trial(({ identity }) => (identity === aim ? fault : undefined));
        expect(outcome, aim).toBeInstanceOf(CorruptObjectError);
        expect(String(outcome)).toContain("the store returns other bytes than were written");
        expect(await seenBy(store)).toBe(snapshots.old);
        await expectConverged(store);
      });
    },
  );
});
