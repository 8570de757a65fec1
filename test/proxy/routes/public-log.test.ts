import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CommitLog } from "../../../snapshots/read/catalog/commit-log.ts";
import { PublicLog } from "../../../snapshots/read/catalog/public-log.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readAnyLog } from "../../../snapshots/trust/log/log-reader.ts";
import { signCheckpoint } from "../../../snapshots/trust/notes/checkpoint.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, until } from "../../helpers/http/proxy-client.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";

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
