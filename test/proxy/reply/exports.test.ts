import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ExportList } from "../../../schemas/envelopes.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { askPieces } from "../../helpers/http/ndjson.ts";
import { startTestProxy } from "../../helpers/http/proxy.ts";
import { bearer, outcome, until } from "../../helpers/http/proxy-client.ts";
import { anotherOverS3 } from "../../helpers/http/proxy-served.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { linkedStore } from "../../helpers/store/linked-store.ts";
import { listed as listedIn } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const list = "/api/v1/markets/exports";
const unit = 256 * 1024;
const [rows, randomBytesEach] = [400, 4_000];

/** Markets that hardly shrink, so that a file has many chunks. */
const markets = Array.from({ length: rows }, (_, index) => ({
  ...market(index),
  question: randomBytes(randomBytesEach).toString("base64"),
}));

/** A store with two exports: of a small snapshot, and of a newer one with one file of many chunks. */
const exported = () =>
  linkedStore(folder, "exported", async (storage) => {
    await publishRecords(storage, markets.slice(0, 100), 600);
    await exportNewest(storage, folder);
    await publishRecords(storage, markets);
    await exportNewest(storage, folder);
  });

const proxyOn = ({ location }: Storage) => startTestProxy({ empty: true, snapshotStore: location });

async function served(storage: Storage) {
  const proxy = await proxyOn(storage);
  const key = await proxy.issue({ quota: 1_000_000 });
  const get = proxy.as(key);
  const { exports } = ExportList.parse((await get(list)).json());
  const file = exports[0]!.files[0]!;
  const bytes = (await storage.get(layout.exportFile(file.sha256)))!;
  const left = () => proxy.left(key);
  const tag = `"${file.sha256}"`;
  return { proxy, key, get, left, exports, file, bytes, tag, [Symbol.asyncDispose]: proxy.stop };
}

let all: Awaited<ReturnType<typeof served>>;
beforeAll(async () => {
  all = await served(await exported());
});
afterAll(() => all.proxy.stop());

// Ranges are in test/proxy/corpus.txt, and headers of all answers in test/proxy/routes/endpoints.test.ts.
describe("a list of exports", () => {
  test("names them whatever somebody has put beside them later", async () => {
    const storage = await exported();
    const junk = layout.exportRecord("0".repeat(64));
    const record = (await storage.get((await listedIn(storage, layout.exportRecord.prefix))[0]!.key))!;
    for (let n = 0; n < 200; n += 1) await storage.put(junk.replace(/0{64}/, sha256(`${n}`)), record);
    await using junked = await served(storage);
    expect(junked.exports).toHaveLength(2);
  });

  test("is empty while there are none, and shows a new one and none that was withdrawn", async () => {
    const storage = await linkedStore(folder, "plain", async (made) => {
      await publishRecords(made, markets.slice(0, 40), 600);
      await publishRecords(made, markets.slice(0, 50), 700);
    });
    await using proxy = await proxyOn(storage);
    const get = proxy.as(await proxy.issue());
    const listed = async () => ExportList.parse((await get(list)).json());
    expect(await listed()).toEqual({ count: 0, exports: [] });
    const { snapshotId } = await exportNewest(storage, folder);
    proxy.clock.now += 60_000;
    const { exports, count } = await listed();
    expect([count, exports[0]?.snapshotId]).toEqual([1, snapshotId]);
    await rollback(storage, "1", () => new Date(proxy.clock.now));
    await until("the export to be withdrawn", async () => (await listed()).count === 0);
    const { url } = exports[0]!.files[0]!;
    expect(outcome(await get(url))).toBe("404 SNAPSHOT_NOT_FOUND");
  });
});

/** Begins to read a file, and waits for so many bytes. */
async function begin({ proxy, key, file }: Awaited<ReturnType<typeof served>>, least: number) {
  const { next, ...answer } = await askPieces(`http://127.0.0.1:${proxy.port}${file.url}`, bearer(key));
  let received = Buffer.alloc(0);
  const take = async (most: number) => {
    while (received.length < most) {
      const piece = await next();
      if (!piece) return;
      received = Buffer.concat([received, piece]);
    }
  };
  await take(least);
  const rest = async () => {
    await take(Number.POSITIVE_INFINITY).catch(() => {});
    return received;
  };
  return { ...answer, rest };
}

describe("a download", () => {
  test("that is left costs what was sent, and goes on where it ended", async () => {
    const { get, left, file, bytes, tag } = all;
    const before = await left();
    const download = await begin(all, unit);
    download.leave();
    const part = await download.rest();
    let last = -1;
    await until("the units to be settled", async () => {
      const seen = last;
      last = await left();
      return seen === last;
    });
    // What waited in buffers of both ends was sent.
    const units = before - last;
    expect(units).toBeGreaterThan(0);
    expect(units).toBeLessThan(Math.ceil(bytes.length / unit));
    const others = await get(file.url, { range: `bytes=${part.length}-`, "if-range": tag });
    expect(others.status).toBe(206);
    expect(Buffer.concat([part, others.body]).equals(bytes)).toBe(true);
  });

  test("is one of at most eight of an owner", async () => {
    const open = await Promise.all(Array.from({ length: 8 }, () => begin(all, 1)));
    expect(open.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(outcome(await all.get(all.file.url))).toBe("429 TOO_MANY_CONNECTIONS");
    for (const each of open) each.leave();
    await until("a place to be free", async () => {
      const { status } = await all.get(all.file.url, { range: "bytes=0-1" });
      return status === 206;
    });
  });

  test("contains no byte of a chunk that is not the record's, and then breaks off", async () => {
    const storage = await exported();
    await using own = await served(storage);
    const { file, bytes, proxy, get } = own;
    const changed = Buffer.from(bytes);
    changed[4 * unit + 17]! ^= 1;
    await storage.put(layout.exportFile(file.sha256), changed);
    const download = await begin(own, 1);
    expect((await download.rest()).equals(bytes.subarray(0, 4 * unit))).toBe(true);
    await proxy.logs("chunk 4 does not match");
    expect(outcome(await get(file.url, { range: `bytes=${4 * unit}-` }))).toBe("503 SNAPSHOT_UNAVAILABLE");
    expect((await get(file.url, { range: `bytes=${5 * unit}-` })).status).toBe(206);
  });
});

test("a store on S3 is asked for the chunks of a range alone", async () => {
  const { proxy, key, file, bytes } = all;
  let asked = 0;
  const over = await anotherOverS3(proxy, (_, name) => {
    if (name === layout.exportFile(file.sha256)) asked += 1;
    return undefined;
  });
  const answer = await over.as(key)(file.url, { range: `bytes=${unit + 5}-${3 * unit}` });
  expect([answer.status, answer.body.equals(bytes.subarray(unit + 5, 3 * unit + 1))]).toEqual([206, true]);
  expect(asked).toBe(3);
  expect(sha256((await over.as(key)(file.url)).body)).toBe(file.sha256);
});
