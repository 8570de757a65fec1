import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { CommitLog } from "../../../snapshots/read/catalog/commit-log.ts";
import { PublicLog } from "../../../snapshots/read/catalog/public-log.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { readAnyLog } from "../../../snapshots/trust/log/log-reader.ts";
import { type NotedCheckpoint, signCheckpoint } from "../../../snapshots/trust/notes/checkpoint.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, until } from "../../helpers/http/proxy-client.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { changedStorage, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";

const address = (name: string) => `/api/v1/log/${name}`;

describe("the log over HTTP", () => {
  let proxy: TestProxy;
  beforeAll(async () => {
    proxy = await startTestProxy();
  });
  afterAll(() => proxy.stop());

  test("has every tile of the store, immutable, free, and whatever the key", async () => {
    let tiles = 0;
    for await (const { key } of proxy.storage.list(layout.logTiles)) {
      tiles += 1;
      const asks = [{}, { authorization: "Bearer nonsense" }, { "accept-encoding": "gzip" }];
      for (const headers of asks as Record<string, string>[]) {
        const answer = await proxy.get(address(key.slice(layout.log.length)), { headers });
        expect([answer.status, answer.body], key).toEqual([200, await proxy.storage.get(key)]);
        expect(answer.headers).toMatchObject({
          "cache-control": "public, max-age=31536000, immutable",
          "content-type": "application/octet-stream",
          etag: expect.stringMatching(/^"[0-9a-f]{64}"$/),
        });
        expect(Object.keys(answer.headers).filter((name) => name.startsWith("x-ratelimit"))).toEqual([]);
      }
    }
    expect(tiles).toBe(2);
    const etag = (await proxy.get(address("tile/0/000.p/1"))).headers.etag!;
    const again = await proxy.get(address("tile/0/000.p/1"), { headers: { "if-none-match": etag } });
    expect(again.status).toBe(304);
  });

  test("has the checkpoints of the store for five seconds", async () => {
    const key = testKey();
    const [before] = await Promise.all([proxy.get(address("checkpoint")), proxy.get("/api/v1/checkpoint")]);
    expect(outcome(before)).toBe("404 NOT_FOUND");
    const note = signCheckpoint({ key }, { size: 1, head: Buffer.alloc(32, 1) });
    for (const name of ["checkpoint", "checkpoints/1"])
      await proxy.storage.put(layout.logFile(name), Buffer.from(note));
    for (const path of [address("checkpoint"), address("checkpoints/1"), "/api/v1/checkpoint"]) {
      await until("the checkpoint", async () => (await proxy.get(path)).status === 200);
      const answer = await proxy.get(path);
      expect(answer.text).toBe(note);
      expect(answer.headers).toMatchObject({
        "cache-control": "public, max-age=5",
        "content-type": "text/plain; charset=utf-8",
      });
    }
  });

  test.each([
    ...[
      "",
      "checkpoint/",
      "checkpoints",
      "checkpoints/",
      "checkpoints/0",
      "checkpoints/01",
      "checkpoints/1e3",
    ],
    ...["tile", "tile/", "tile/0", "tile/0/", "tile/0/0", "tile/0/1000", "tile/0/x000/000", "tile/64/000"],
    ...[
      "tile/0/000.p/0",
      "tile/0/000.p/01",
      "tile/0/000.p/256",
      "tile/0/000.p",
      "tile/0/000.p/1/",
      "tile/-1/000",
    ],
    ...[
      "tile/entries",
      "tile/entries/000.p",
      "tile/../checkpoint",
      "tile//0/000.p/1",
      "%63heckpoint",
      "checkpoint%00",
    ],
    `tile/0/${"x000/".repeat(40)}000`,
    `checkpoints/${"1".repeat(400)}`,
    ...["checkpoints/2", "tile/0/000", "tile/0/000.p/2", "tile/1/000.p/1", "tile/entries/001.p/1"],
  ])("does not have %s", async (name) => {
    expect(outcome(await proxy.get(address(name)))).toBe("404 NOT_FOUND");
  });

  test("takes no parameters", async () => {
    expect(outcome(await proxy.get(address("checkpoint?size=1")))).toBe("400 INVALID_PARAMETER");
  });
});

test("asks the store once for each file that a log of this size can have, and for no other", async () => {
  const storage = countingStorage(memoryStorage(new Map()));
  for (let n = 0; n < 3; n += 1) await append(storage);
  const log = new CommitLog(storage);
  const files = new PublicLog(storage, log, readAnyLog(storage));
  await log.takeUp((await newestCommit(storage))!);
  await storage.put(layout.logTile("0/000.p/3"), Buffer.alloc(96, 7));
  storage.calls.length = 0;
  const possible = ["tile/0/000.p/3", "tile/0/000.p/2", "checkpoints/3"];
  const impossible = ["tile/0/000.p/4", "tile/0/000", "checkpoints/4"];
  for (let n = 0; n < 2; n += 1) {
    const found = await Promise.all([...possible, ...impossible].map((name) => files.file(name)));
    expect(found.map((bytes) => bytes?.length)).toEqual([96, ...Array(5)]);
  }
  expect(storage.calls.map(({ key }) => key).sort()).toEqual(possible.map(layout.logFile).sort());
});

describe("the files of the log", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** The log of a store, with the checkpoint that its reader tells, and a function that takes up the next commit. */
  async function logOver(storage: Storage, checkpoint: () => Promise<NotedCheckpoint | undefined>) {
    const log = new CommitLog(storage);
    const files = new PublicLog(storage, log, { checkpoint });
    const grow = async () => {
      await append(storage);
      await log.takeUp((await newestCommit(storage))!);
    };
    return { files, grow };
  }
  const none = async () => undefined;
  const checkpointOf = (size: number): NotedCheckpoint => ({
    ...{ origin: "x", size, head: Buffer.alloc(32), note: `${size}` },
  });

  test("are looked for again after a second where they were missing or may change", async () => {
    // The cache holds the clock of the process, and by a timer what it last read of it.
    let now = performance.now();
    vi.spyOn(performance, "now").mockImplementation(() => now);
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const pass = (milliseconds: number) => {
      now += milliseconds;
      vi.advanceTimersByTime(milliseconds);
    };
    const storage = countingStorage(memoryStorage(new Map()));
    const { files, grow } = await logOver(storage, none);
    await grow();
    const [tile, missing, checkpoint] = ["tile/0/000.p/1", "tile/entries/000.p/1", "checkpoints/1"] as const;
    for (const name of [tile, checkpoint]) await storage.put(layout.logFile(name), Buffer.from(name));
    const looked = async (milliseconds: number) => {
      pass(milliseconds);
      storage.calls.length = 0;
      for (const name of [tile, missing, checkpoint]) await files.file(name);
      return storage.calls.map(({ key }) => key);
    };
    expect(await looked(0)).toEqual([tile, missing, checkpoint].map(layout.logFile));
    expect(await looked(900)).toEqual([]);
    expect(await looked(200)).toEqual([missing, checkpoint].map(layout.logFile));
    await storage.put(layout.logFile(missing), Buffer.from("there"));
    pass(1100);
    expect(String(await files.file(missing))).toBe("there");
    // A tile never changes, unless the log was replaced.
    await storage.put(layout.logFile(tile), Buffer.from("replaced"));
    expect([await files.tile(0, 0, 1), await files.storedTile(0, 0, 1)].map(String)).toEqual([
      tile,
      "replaced",
    ]);
  });

  test("are none of a log without commits, and the checkpoint is there with the first", async () => {
    const storage = countingStorage(memoryStorage(new Map()));
    let signed: NotedCheckpoint | undefined;
    const { files, grow } = await logOver(storage, async () => signed);
    expect([await files.file("tile/0/000.p/1"), await files.file("checkpoint")]).toEqual([
      undefined,
      undefined,
    ]);
    expect(storage.calls).toEqual([]);
    signed = checkpointOf(1);
    await grow();
    expect(String(await files.file("checkpoint"))).toBe(signed.note);
  });

  test("reach those who wait for them, though others took their place", async () => {
    const opened = Promise.withResolvers<void>();
    const [slow, one, other] = ["tile/0/000.p/2", "tile/entries/000.p/1", "tile/entries/000.p/2"] as const;
    const bytes = { [layout.logFile(slow)]: Buffer.from("slow") };
    for (const name of [one, other]) bytes[layout.logFile(name)] = Buffer.alloc(5 * 2 ** 20);
    const content = memoryStorage(new Map(Object.entries(bytes)));
    const storage = changedStorage(content, {
      async get(key, options) {
        if (key === layout.logFile(slow)) await opened.promise;
        return content.get(key, options);
      },
    });
    let size = 0;
    const { files, grow } = await logOver(storage, async () => {
      size += 1;
      const found = checkpointOf(size);
      if (size === 1) await opened.promise;
      return found;
    });
    for (let n = 0; n < 2; n += 1) await grow();
    const waiting = [files.file(slow), files.file("checkpoint")];
    for (const name of [one, other]) expect((await files.file(name))?.length).toBe(5 * 2 ** 20);
    await grow();
    expect(String(await files.file("checkpoint"))).toBe("2");
    opened.resolve();
    expect((await Promise.all(waiting)).map(String)).toEqual(["slow", "1"]);
  });
});
