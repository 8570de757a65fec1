import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { tilePath, tilesOf } from "../../../snapshots/format/log-tiles.ts";
import { headFromTiles, tileEncoder } from "../../../snapshots/format/tree.ts";
import { CommitLog } from "../../../snapshots/read/catalog/commit-log.ts";
import { openPublicLog } from "../../../snapshots/read/catalog/public-log.ts";
import { CorruptObjectError } from "../../../snapshots/store/errors.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { entriesUpTo } from "../../../snapshots/store/log/tiles.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { signCheckpoint } from "../../../snapshots/trust/notes/signed-note.ts";
import { outcome, until } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";

const address = (name: string) => `/api/v1/log/${name}`;

describe("the log over HTTP", () => {
  const proxy = serveTestProxy();

  test("has the checkpoints of the store that are of its commits", async () => {
    const key = testKey();
    const [before] = await Promise.all([proxy.get(address("checkpoint")), proxy.get("/api/v1/checkpoint")]);
    expect(outcome(before)).toBe("404 NOT_FOUND");
    const head = (await proxy.storage.get(layout.logTile("0/000.p/1")))!;
    const note = signCheckpoint({ key }, { size: 1, head });
    const foreign = signCheckpoint({ key }, { size: 1, head: Buffer.alloc(32, 1) });
    await proxy.storage.put(layout.logCheckpointOf(1), Buffer.from(foreign));
    expect(outcome(await proxy.get(address("checkpoints/1")))).toBe("404 NOT_FOUND");
    for (const name of ["checkpoint", "checkpoints/1"])
      await proxy.storage.put(layout.logFile(name), Buffer.from(note));
    for (const path of [address("checkpoint"), address("checkpoints/1"), "/api/v1/checkpoint"]) {
      await until("the checkpoint", async () => (await proxy.get(path)).status === 200);
      expect((await proxy.get(path)).text).toBe(note);
    }
  });
});

describe("the files of the log", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** The log of a store that nobody signed, and a function that takes up its newest commit. */
  async function logOver(storage: Storage) {
    const log = new CommitLog(storage);
    const files = openPublicLog(storage, log, { checkpoint: async () => undefined });
    const takeUp = async () => log.takeUp((await newestCommit(storage))!);
    await takeUp();
    return { files, takeUp };
  }
  const many = 258;
  /** A store of so many commits without a tile, and every tile that there was of a log of any of its sizes. */
  let grown: Map<string, Buffer>;
  const tiles = new Map<string, Buffer>();
  beforeAll(async () => {
    grown = new Map();
    const storage = memoryStorage(grown);
    for (let n = 0; n < many; n += 1) await append(storage);
    const encode = tileEncoder(await entriesUpTo(storage, (await newestCommit(storage))!));
    for (const size of [1, 2, 200, 255, 256, 257, many])
      for (const tile of tilesOf(size)) tiles.set(`tile/${tilePath(tile)}`, encode(tile)!);
  });

  test("are what the commits give, of every size that the log had, whatever the store has", async () => {
    const objects = new Map(grown);
    const storage = countingStorage(memoryStorage(objects));
    const { files } = await logOver(storage);
    for (const put of [undefined, Buffer.alloc(0), Buffer.alloc(64, 7)]) {
      for (const name of tiles.keys()) if (put) objects.set(layout.logFile(name), put);
      for (const [name, bytes] of tiles) expect([name, await files.file(name)]).toEqual([name, bytes]);
    }
    // Each commit was read for the log, and once more for its bundle.
    expect(storage.calls.filter(({ key }) => key.startsWith(layout.commit.prefix)).length).toBeLessThan(
      2 * many + 10,
    );
    for (const name of [`tile/0/001.p/${many - 255}`, "tile/0/001", "tile/1/000.p/2", "tile/entries/001.p/3"])
      expect(await files.file(name)).toBeUndefined();
  });

  test("are told by tiles where commits are gone, and not at all where neither tells", async () => {
    const objects = new Map(grown);
    for (const [name, bytes] of tiles) objects.set(layout.logFile(name), bytes);
    for (const number of [1, 2, 3]) objects.delete(layout.commit(number));
    const good = await logOver(memoryStorage(objects));
    for (const [name, bytes] of tiles) expect([name, await good.files.file(name)]).toEqual([name, bytes]);
    const badAre = async (bad: readonly string[]) => {
      const storage = countingStorage(memoryStorage(objects));
      const { files, takeUp } = await logOver(storage);
      const look = async () => {
        storage.calls.length = 0;
        for (const [name, bytes] of tiles)
          if (bad.includes(name)) await expect(files.file(name)).rejects.toBeInstanceOf(CorruptObjectError);
          else expect([name, await files.file(name)]).toEqual([name, bytes]);
        return storage.calls.length;
      };
      expect(await look()).toBeGreaterThan(0);
      // Until the log is looked at again, nobody makes the service read it.
      expect(await look()).toBe(0);
      await takeUp();
      expect(await look()).toBeGreaterThan(0);
    };
    // Without its bundle, nobody can tell what a commit that is gone said, and all else can be told.
    const bundles = [...tiles.keys()].filter((name) => /^tile\/entries\/000/.test(name));
    for (const name of bundles) objects.delete(layout.logFile(name));
    await badAre(bundles);
    objects.delete(layout.logFile("tile/0/000"));
    await badAre([...tiles.keys()]);
  });

  test("have the checkpoints of sizes that are of this log, and look for them again after a second", async () => {
    // The cache holds the clock of the process, and by a timer what it last read of it.
    let now = performance.now();
    vi.spyOn(performance, "now").mockImplementation(() => now);
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const pass = (milliseconds: number) => {
      now += milliseconds;
      vi.advanceTimersByTime(milliseconds);
    };
    const objects = new Map(grown);
    const storage = countingStorage(memoryStorage(objects));
    const { files } = await logOver(storage);
    const head = await headFromTiles(files.tile, 257);
    const put = (size: number, of: number, by = head) =>
      objects.set(
        layout.logCheckpointOf(size),
        Buffer.from(signCheckpoint({ key: testKey() }, { size: of, head: by })),
      );
    const has = async (size: number) => (await files.file(`checkpoints/${size}`)) !== undefined;
    put(257, 257);
    put(256, 257);
    put(255, 255);
    put(many + 1, many + 1);
    objects.set(layout.logCheckpointOf(254), Buffer.from("anybody's"));
    storage.calls.length = 0;
    for (const size of [257, 256, 255, 254, many + 1])
      expect([size, await has(size)]).toEqual([size, size === 257]);
    expect(storage.calls).toHaveLength(4);
    put(255, 255, await headFromTiles(files.tile, 255));
    pass(900);
    expect(await has(255)).toBe(false);
    pass(200);
    expect(await has(255)).toBe(true);
  });
});
