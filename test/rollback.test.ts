import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { Checked, type Commit } from "../schemas/snapshot.ts";
import { exitCodeOf, exitCodes } from "../scripts/cli.ts";
import { collect } from "../snapshots/collect.ts";
import { CommitLostError, newestCommit } from "../snapshots/commits.ts";
import { layout } from "../snapshots/layout.ts";
import { readManifest } from "../snapshots/objects.ts";
import { publicNames } from "../snapshots/publish/projection.ts";
import { PublishingOnHoldError } from "../snapshots/publish/publish.ts";
import { RollbackError, rollback } from "../snapshots/publish/rollback.ts";
import { seal, sha256, unseal } from "../snapshots/seal.ts";
import { directoryStorage } from "../snapshots/storage/directory.ts";
import { type Storage, StorageError } from "../snapshots/storage/storage.ts";
import { verify } from "../snapshots/verify/verify.ts";
import { snapshotCommand } from "./helpers/archive-command.ts";
import { type ArchiveProxy, startArchiveProxy } from "./helpers/archive-proxy.ts";
import { inArchiveOrder, recordsAfter, recordsOf } from "./helpers/archive-records.ts";
import { withDuckDb } from "./helpers/archive-sql.ts";
import { changedStorage, countingStorage } from "./helpers/archive-storage.ts";
import { testFolder } from "./helpers/archive-store.ts";
import { loadSample, publishCounted, writeTables } from "./helpers/editable-sources.ts";
import { publishRecords } from "./helpers/proxy-archive.ts";

const folder = testFolder();
let stores = 0;
let proxy: ArchiveProxy | undefined;

afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
});

const later = new Date("2026-03-02T00:00:00.000Z");

/** The content of a commit: its markets and the bri of its protocols. */
const contents = {
  A: [recordsOf(0, 120), 600],
  B: [recordsOf(0, 150), 650],
  C: [recordsOf(20, 180), 700],
  D: [recordsOf(10, 200), 600],
} as const;
type Content = keyof typeof contents;

function publishContent(storage: Storage, name: Content, resume = false) {
  const [markets, bri] = contents[name];
  return publishRecords(storage, markets, bri, { resume });
}

/** A store whose commits, from 1, have these contents. */
async function storeOf(...names: readonly Content[]): Promise<Storage & { name: string }> {
  stores += 1;
  const name = `store-${stores}`;
  const storage = directoryStorage(join(folder, name));
  for (const content of names) await publishContent(storage, content);
  return { ...changedStorage(storage, {}), name };
}

const rollBack = (storage: Storage, target: string | number) =>
  rollback(storage, String(target), () => later);
const snapshotOf = async (storage: Storage) => (await newestCommit(storage))!.snapshotId;

/** The store is whole, and everything in it that names a newest commit names this one. */
async function expectShown(storage: Storage, commit: number): Promise<void> {
  const newest = await newestCommit(storage);
  expect(newest?.commit).toBe(commit);
  expect(JSON.parse(String(await storage.get(layout.head)))).toMatchObject({ commit });
  for (const [key, ref] of publicNames(await readManifest(storage, newest!.manifest))) {
    expect(sha256((await storage.get(key))!), key).toBe(ref.hash);
  }
  expect((await verify(storage, () => {})).faults).toEqual([]);
}

describe("a rollback", () => {
  test.for([
    ["a commit number", () => "1"],
    ["8 digits of a snapshot id", ({ snapshotId }: Commit) => snapshotId.slice(0, 8)],
    ["a whole snapshot id", ({ snapshotId }: Commit) => snapshotId],
  ] as const)("to %s makes a new commit with that snapshot, and all names follow", async ([, target]) => {
    const storage = await storeOf("A");
    const first = (await newestCommit(storage))!;
    await publishContent(storage, "B");
    await publishContent(storage, "C");
    const last = (await newestCommit(storage))!;
    const commit = await rollBack(storage, target(first));
    const { snapshotId, manifest, counts, size } = first;
    const same = { snapshotId, manifest, counts, size };
    expect(commit).toMatchObject({ ...same, commit: 4, hold: true, withdrawn: [[2, 3]] });
    expect(commit).toMatchObject({ previous: last.digest, publishedAt: later.toISOString() });
    await expectShown(storage, 4);
  });

  test("twice in a row withdraws the first one too", async () => {
    const storage = await storeOf("A", "B", "C");
    expect(await rollBack(storage, 2)).toMatchObject({ commit: 4, withdrawn: [[3, 3]] });
    await expectShown(storage, 4);
    const again = await rollBack(storage, 1);
    expect(again).toMatchObject({ commit: 5, hold: true });
    expect(again.withdrawn).toEqual([
      [3, 3],
      [2, 4],
    ]);
    await expectShown(storage, 5);
    expect((await publishContent(storage, "D", true)).commit).toBe(6);
    expect((await newestCommit(storage))?.withdrawn).toEqual(again.withdrawn);
    await expectShown(storage, 6);
  });

  test("can be taken back by another one", async () => {
    const storage = await storeOf("A", "B");
    const taken = await snapshotOf(storage);
    await rollBack(storage, 1);
    expect(await rollBack(storage, taken)).toMatchObject({ commit: 4, snapshotId: taken, hold: true });
    await expectShown(storage, 4);
  });

  test.for([
    ["9", "there is no commit 9"],
    ["0", "neither a commit number"],
    ["abcdef0", "neither a commit number nor 8 or more digits"],
    ["ABCDEF01", "neither a commit number"],
    ["-1", "neither a commit number"],
    ["1.0", "neither a commit number"],
    ["0000000000000000", "no commit has a snapshot"],
    ["current", "neither a commit number"],
  ])("to %s is refused", async ([target, reason]) => {
    const storage = countingStorage(await storeOf("A", "B"));
    const error = await rollBack(storage, target!).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RollbackError);
    expect(String(error)).toContain(reason);
    expect(storage.written()).toEqual([]);
  });

  test("to the current snapshot is refused, by number and by id", async () => {
    const storage = await storeOf("A", "B");
    const current = await snapshotOf(storage);
    for (const target of ["2", current, current.slice(0, 10)]) {
      await expect(rollBack(storage, target)).rejects.toThrow(/commit 2 already has snapshot/);
    }
    await expect(rollBack(await storeOf(), "1")).rejects.toThrow(/nothing has been published/);
  });

  test("to an id that several snapshots begin with is refused", async () => {
    const storage = await storeOf("A", "B", "C");
    const shared = (await newestCommit(storage))!.snapshotId.slice(0, 8);
    // The log as it would be if two ids began alike.
    const alike = changedStorage(storage, {
      get: async (key, options) =>
        key === layout.commit(1) ? likeCommit(storage, shared) : storage.get(key, options),
    });
    await expect(rollBack(alike, shared)).rejects.toThrow(/begins several snapshot ids/);
    await expect(rollBack(storage, shared)).rejects.toThrow(/already has/);
  });

  test("to a snapshot that was collected is refused, and leaves the store as it was", async () => {
    const storage = await storeOf("A", "B", "C");
    const options = {
      keepHours: 0,
      keepCommits: 1,
      now: new Date("2100-01-01T00:00:00.000Z"),
      dryRun: false,
    };
    expect((await collect(storage, options)).deleted.keys.length).toBeGreaterThan(0);
    const counting = countingStorage(storage);
    await expect(rollBack(counting, 1)).rejects.toThrow(/commit 1 is not whole/);
    expect(counting.written()).toEqual([]);
    await expectShown(storage, 3);
  });

  test("to a snapshot that lost any one object is refused", async () => {
    const storage = await storeOf("A", "B");
    const manifest = await readManifest(storage, (await newestCommit(storage))!.manifest);
    await publishContent(storage, "C");
    const segment = manifest.segments[0]!;
    for (const key of [layout.segment(segment.hash), layout.publicObject(manifest.scores.list.hash)]) {
      const bytes = await storage.get(key);
      await storage.delete(key);
      await expect(rollBack(storage, 2)).rejects.toThrow(/commit 2 is not whole/);
      await storage.put(key, bytes!);
    }
    expect(await rollBack(storage, 2)).toMatchObject({ commit: 4 });
  });

  test("that loses the race to a publisher changes nothing", async () => {
    const storage = await storeOf("A", "B");
    const rival = changedStorage(storage, {
      async putIfAbsent(key, body) {
        if (key === layout.commit(3)) await publishContent(storage, "C");
        return storage.putIfAbsent(key, body);
      },
    });
    const error = await rollBack(rival, 1).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CommitLostError);
    expect(exitCodeOf(error)).toBe(exitCodes.lost);
    expect((await newestCommit(storage))?.hold).toBe(false);
    await expectShown(storage, 3);
    expect(await rollBack(storage, 1)).toMatchObject({ commit: 4, withdrawn: [[2, 3]] });
  });

  test("that stops before its public names are there is made good by the next run, whatever came before", async () => {
    const storage = await storeOf("A", "B", "C");
    await rollBack(storage, 1);
    // Back to what the last publish run showed, but the names stay those of A.
    const stopping = changedStorage(storage, {
      put: async (key, body) => {
        if (key.startsWith(layout.stableScores)) throw new StorageError(`cannot write ${key}`);
        return storage.put(key, body);
      },
    });
    await expect(rollBack(stopping, 3)).rejects.toThrow(StorageError);
    expect((await newestCommit(storage))?.commit).toBe(5);
    // The same scores as commit 3, other markets.
    await publishRecords(storage, recordsOf(0, 190), contents.C[1], { resume: true });
    await expectShown(storage, 6);
  });
});

describe("a rollback that stops at any one write", () => {
  test.for(["before", "after"] as const)(
    "%s it took effect is finished by the same command",
    async (when) => {
      const counting = countingStorage(await storeOf("A", "B"));
      await rollBack(counting, 1);
      const writes = counting.written();
      expect(writes).toEqual(expect.arrayContaining([layout.commit(3), layout.head, layout.stableScoreList]));
      for (const failing of writes) {
        const storage = await storeOf("A", "B");
        const fail = async <T>(key: string, write: () => Promise<T>): Promise<T> => {
          if (key !== failing) return write();
          if (when === "after") await write();
          throw new StorageError(`cannot write ${key}`);
        };
        const stopping = changedStorage(storage, {
          put: (key, body) => fail(key, () => storage.put(key, body)),
          putIfAbsent: (key, body) => fail(key, () => storage.putIfAbsent(key, body)),
        });
        const stopped = await rollBack(stopping, 1).catch((error: unknown) => error);
        // Whether a commit was stored can be asked afterwards.
        const noticed = when === "after" && failing === layout.commit(3);
        expect(stopped instanceof Error, failing).toBe(!noticed);
        expect(await rollBack(storage, 1), failing).toMatchObject({
          commit: 3,
          hold: true,
          withdrawn: [[2, 2]],
        });
        await expectShown(storage, 3);
      }
    },
  );
});

/** Commit 1's bytes with a snapshot id that begins like another's. */
async function likeCommit(storage: Storage, beginning: string): Promise<Buffer> {
  const { digest: _, ...commit } = JSON.parse(String(await storage.get(layout.commit(1))));
  return seal({ ...commit, snapshotId: beginning + commit.snapshotId.slice(beginning.length) });
}

describe("publishing after a rollback", () => {
  test("is on hold until it is resumed", async () => {
    const storage = await storeOf("A", "B");
    await rollBack(storage, 1);
    for (const name of ["A", "B", "C"] as const) {
      const counting = countingStorage(storage);
      const error = await publishContent(counting, name).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(PublishingOnHoldError);
      expect(String(error)).toContain("go on with --resume");
      expect(counting.written()).toEqual([]);
    }
    expect(await publishContent(storage, "C", true)).toMatchObject({ outcome: "published", commit: 4 });
    expect((await newestCommit(storage))?.hold).toBe(false);
    expect(await publishContent(storage, "D")).toMatchObject({ outcome: "published", commit: 5 });
    await expectShown(storage, 5);
  });

  test.for(["A", "B"] as const)("is resumed with the content of %s, which was there before", async (name) => {
    const storage = await storeOf("A", "B");
    await rollBack(storage, 1);
    const report = await publishContent(storage, name, true);
    expect(report).toMatchObject({
      outcome: "published",
      commit: 4,
      uploaded: { objects: expect.any(Number) },
    });
    expect(await newestCommit(storage)).toMatchObject({ hold: false, withdrawn: [[2, 2]] });
    expect(await publishContent(storage, name)).toMatchObject({ outcome: "unchanged", commit: 4 });
    await expectShown(storage, 4);
  });
});

describe("walks over a rollback", () => {
  test("go on in the snapshot rolled back to, and are 410 with a place to resume in withdrawn ones", async () => {
    const storage = await storeOf("A");
    proxy = await startArchiveProxy(storage);
    const cursors: { cursor: string; last: { resolvedAt: string; id: string } }[] = [];
    const begin = async () => {
      await proxy!.refresh();
      const { nextCursor, markets } = await proxy!.page({ pageSize: 25 });
      cursors.push({ cursor: nextCursor!, last: markets.at(-1)! });
    };
    await begin();
    for (const name of ["B", "C"] as const) {
      await publishContent(storage, name);
      await begin();
    }
    const [inA, inB, inC] = cursors as [(typeof cursors)[0], (typeof cursors)[0], (typeof cursors)[0]];
    const totals = async () =>
      Promise.all(cursors.map(async ({ cursor }) => (await proxy!.get({ cursor })).status));
    await rollBack(storage, 1);
    // Until the proxy looks, nothing has happened.
    expect(await totals()).toEqual([200, 200, 200]);
    await proxy.refresh();
    expect(await totals()).toEqual([200, 410, 410]);
    expect((await proxy.page({ cursor: inA.cursor })).total).toBe(120);
    for (const { cursor, last } of [inB, inC]) {
      const problem = await proxy.problem({ cursor });
      expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED" });
      const expected = recordsAfter(inArchiveOrder(contents.A[0]), last).slice(0, 25);
      const { markets } = await proxy.page({ cursor: problem.resumeCursor! });
      expect(markets.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
    }
    await begin();
    await publishContent(storage, "D", true);
    await proxy.refresh();
    // The rollback's own walk goes on; what it withdrew stays withdrawn.
    expect(await totals()).toEqual([200, 410, 410, 200]);
  });
});

describe("checked.json", () => {
  const checkedIn = async (storage: Storage) =>
    unseal(layout.checked, (await storage.get(layout.checked))!, Checked);
  const at = (day: number) => new Date(Date.UTC(2026, 3, day));

  test("is renewed by every run that succeeds, not by others nor by a rollback, and the status shows it", async () => {
    const storage = await storeOf();
    const run = (name: Content, day: number, resume = false) => {
      const [markets, bri] = contents[name];
      return publishRecords(storage, markets, bri, { resume, now: () => at(day) });
    };
    await run("A", 1);
    proxy = await startArchiveProxy(storage);
    const expectChecked = async (day: number, commit: number, outcome: string) => {
      const checkedAt = at(day).toISOString();
      expect(await checkedIn(storage)).toMatchObject({ checkedAt, commit, outcome });
      await proxy!.refresh();
      const answer = await fetch(new URL("/api/v1/status", proxy!.address));
      const newest = await newestCommit(storage);
      expect(await answer.json()).toMatchObject({
        checkedAt,
        commit: newest?.commit,
        snapshotId: newest?.snapshotId,
        publishedAt: newest?.publishedAt,
      });
    };
    await expectChecked(1, 1, "published");
    await run("A", 2);
    await expectChecked(2, 1, "unchanged");
    await run("B", 3);
    await expectChecked(3, 2, "published");
    await rollBack(storage, 1);
    await expectChecked(3, 2, "published");
    await expect(run("B", 4)).rejects.toThrow(PublishingOnHoldError);
    await expectChecked(3, 2, "published");
    await run("B", 5, true);
    await expectChecked(5, 4, "published");
  });
});

describe("npm run snapshot -- rollback", () => {
  test("rolls back, shows it in the list, holds publishing, and says how to go on", async () => {
    const { name } = await storeOf("A", "B", "C");
    const run = (args: string) => snapshotCommand([...args.split(" "), "--store", name], { from: folder });
    const done = await run("rollback 1");
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(/^Commit 4 has snapshot [0-9a-f]{64} again\. Publishing is on hold until/);
    const list = (await run("list")).stdout.trimEnd().split("\n");
    const states = list.map((line) => line.split("  ").slice(6).join(""));
    expect(list.map((line) => line.split("  ")[0])).toEqual(["4", "3", "2", "1"]);
    expect(states).toEqual(["rollback", "withdrawn", "withdrawn", ""]);
    const again = await run("rollback 2 --json");
    expect(JSON.parse(again.stdout)).toMatchObject({ commit: 5, hold: true });
    expect((await run("list")).stdout).toMatch(/^4 {2}.* rollback, withdrawn$/m);
    expect(await run("rollback 77")).toMatchObject({ code: 2, stdout: "" });
    expect(await run("rollback")).toMatchObject({ code: 2, stdout: "" });
    expect((await run("verify")).code).toBe(0);
  });

  test("holds publish with exit code 3, which says how to go on", async () => {
    const place = join(folder, "command");
    const storage = directoryStorage(join(place, "store"));
    await withDuckDb(folder, async (sql) => {
      await loadSample(sql, place, { markets: 60, protocols: 3 });
      const sources = join(place, "sources");
      await publishCounted(await writeTables(sql, sources), storage, folder);
      await sql.run("UPDATE markets SET question = 'Really?' WHERE id = (SELECT min(id) FROM markets)");
      await publishCounted(await writeTables(sql, sources), storage, folder);
    });
    const run = (args: string) => snapshotCommand([...args.split(" "), "--store", "store"], { from: place });
    expect((await run("rollback 1")).code).toBe(0);
    const held = await run("publish --sources sources --json");
    expect(held).toMatchObject({ code: 3, stdout: "" });
    expect(held.stderr).toContain("commit 3 is a rollback and holds publishing; go on with --resume");
    expect((await run("publish --sources sources --dry-run")).code).toBe(3);
    const resumed = await run("publish --sources sources --resume --json");
    expect(JSON.parse(resumed.stdout)).toMatchObject({ outcome: "published", commit: 4 });
    await expectShown(storage, 4);
  });
});
