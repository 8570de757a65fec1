import { randomBytes } from "node:crypto";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { revokeKey } from "../../../snapshots/keys/keys.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { askRows, type RowsReader, wantsRows } from "../../helpers/http/ndjson.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../../helpers/http/proxy.ts";
import { bearer, type Call, outcome, until } from "../../helpers/http/proxy-client.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { bytesInUse } from "../../helpers/servers/memory.ts";
import { linkedStore } from "../../helpers/store/linked-store.ts";
import { listed } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const archive = "/api/v1/markets/historical";
const day = 86_400_000;
/** Eight units, and far more than the buffers of both ends hold: 20 MB, of which gzip leaves three quarters. */
const [rows, randomBytesEach] = [4_000, 3_750];

const folder = testFolder();
const fill = (storage: Storage) =>
  publishRecords(
    storage,
    Array.from({ length: rows }, (_, index) => {
      const { dimensions, ...rest } = market(index);
      const description = randomBytes(randomBytesEach).toString("base64");
      return { ...rest, dimensions: [{ ...dimensions[0]!, description }, ...dimensions.slice(1)] };
    }),
  );

let proxy: TestProxy;

/** Starts a proxy on a copy of the archive, free to be tampered with. */
async function start(options: TestProxyOptions = {}): Promise<void> {
  const { location: snapshotStore } = await linkedStore(folder, "large", fill);
  proxy = await startTestProxy({ ...options, empty: true, snapshotStore });
  onTestFinished(proxy.stop);
}

const get = (key: string, query = "", headers = {}, how?: Call) =>
  proxy.as(key)(`${archive}${query}`, { ...wantsRows, ...headers }, how);
const head = { method: "HEAD" };

/** An answer that is read only as far as a test says. */
async function open(key: string, query = "", headers = {}): Promise<RowsReader> {
  const reader = await askRows(`http://127.0.0.1:${proxy.port}${archive}${query}`, {
    ...bearer(key),
    ...headers,
  });
  onTestFinished(reader.leave);
  return reader;
}

const left = (key: string) => proxy.left(key);

/** What was broken off, by code; and what the log says of it. */
const broken = async (code: string) =>
  new RegExp(`^prs_broken_off_total\\{code="${code}"\\} 1$`, "m").test(await proxy.metrics.metrics()) &&
  proxy.logged.some((line) => line.includes(`"code":"${code}"`));

describe("the quota", () => {
  test("that others use up meanwhile breaks the answer off; it is gone on with the next day", async () => {
    await start();
    const key = await proxy.issue({ quota: 8 });
    const reader = await open(key);
    await reader.until(1);
    while (outcome(await proxy.as(key)(`${archive}?pageSize=1`)) === "200");
    expect(await reader.ending()).toBe("broken off");
    expect(reader.lines.length).toBeLessThan(rows);
    await until("the answer to break off for its quota", () => broken("QUOTA_EXCEEDED"));
    proxy.clock.now += day;
    const rest = await open(key, `?cursor=${reader.headers["x-cursor"]}&skip=${reader.lines.length}`);
    const ids = [...reader.lines, ...(await rest.toEnd())].map((line) => JSON.parse(line).id);
    expect(ids).toEqual(Array.from({ length: rows }, (_, place) => market(rows - 1 - place).id));
  });
});

describe("an owner", () => {
  test("has one answer at a time, whichever key asks, and its place is free as soon as it goes away", async () => {
    await start();
    const [key, second] = [await proxy.issue(), await proxy.issue()];
    const other = await proxy.issue({ owner: "other" });
    const tries = await Promise.all(Array.from({ length: 20 }, () => open(key)));
    expect(tries.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(429)]);
    const reader = tries.find(({ status }) => status === 200)!;
    await reader.until(1);
    const before = await left(second);
    for (let count = 0; count < 20; count += 1)
      expect(outcome(await get(second))).toBe("429 TOO_MANY_CONNECTIONS");
    // The answer under way may take its eight units meanwhile.
    expect(before - (await left(second))).toBeLessThanOrEqual(8);
    expect(outcome(await proxy.as(key)(archive))).toBe("200");
    expect((await get(key, "", {}, head)).status).toBe(200);
    expect((await get(other, "?min_composite=900")).status).toBe(200);
    reader.leave();
    await until(
      "the second answer to be let in",
      async () => (await get(second, "?outcome=never")).status === 200,
    );
    // Units of what was never sent were not taken.
    expect(100_000 - (await left(key))).toBeLessThan(8 + 4);
    expect((await get(key, "?outcome=never")).status).toBe(200);
  });

  test("has one of twenty at once", async () => {
    await start();
    const key = await proxy.issue();
    const tries = await Promise.all(Array.from({ length: 20 }, () => open(key)));
    expect(tries.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(429)]);
  });
});

describe("a client that reads slowly", () => {
  test("costs no memory while it is waited for, in either coding", async () => {
    await start({ cacheBytes: 1024 * 1024 });
    const keys = await Promise.all(["a", "b", "c", "d"].map((owner) => proxy.issue({ owner })));
    // What everything takes once.
    const readAll = async () => {
      const { toEnd, lines } = await open(keys[3]!);
      expect(await toEnd()).toHaveLength(rows);
      lines.length = 0;
    };
    await readAll();
    const before = await bytesInUse();
    const slow = await Promise.all(
      keys.slice(0, 3).map((key, n) => open(key, "", { "accept-encoding": n ? "gzip" : "identity" })),
    );
    await readAll();
    // They have 50 MB to be sent.
    expect((await bytesInUse()) - before).toBeLessThan(24 * 1024 * 1024);
    expect(await slow[0]!.ending()).toBe("whole");
  });

  test("is cut off when it reads nothing", async () => {
    await start({ limits: { stalledSeconds: 1 } });
    const key = await proxy.issue();
    const reader = await open(key);
    await until("the key's place to be free", async () => (await get(key, "?outcome=never")).status === 200);
    expect(await reader.ending()).toBe("broken off");
  });

  test("has its time for every 500 rows, not for all of them", async () => {
    await start({ limits: { sendSeconds: 180 } });
    const key = await proxy.issue();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const reader = await open(key);
    for (let received = 500; received <= rows; received += 500) {
      await reader.until(received);
      vi.advanceTimersByTime(40_000);
    }
    expect(await reader.ending()).toBe("whole");
    const idle = await open(key);
    await idle.until(1);
    vi.advanceTimersByTime(181_000);
    expect(await idle.ending()).toBe("broken off");
  });
});

describe("an answer under way", () => {
  test.each(["identity", "gzip"])("ends without an end when the store fails, in %s", async (coding) => {
    await start({ cacheBytes: 1024 * 1024 });
    const key = await proxy.issue();
    const reader = await open(key, "", { "accept-encoding": coding });
    const pages = await listed(proxy.storage, layout.page.prefix);
    await Promise.all(pages.map((page) => proxy.storage.delete(page.key)));
    expect(await reader.ending()).toBe("broken off");
    await until("the answer to break off for its snapshot", () => broken("SNAPSHOT_UNAVAILABLE"));
    expect(proxy.logged.some((line) => /"level":50.*it is missing.*"msg":"failed"/.test(line))).toBe(true);
    expect(outcome(await get(key, "?outcome=never"))).toBe("200");
  });

  test("ends so when its key is revoked", async () => {
    await start();
    const key = await proxy.issue();
    const reader = await open(key);
    await reader.until(1);
    const [record] = await listed(proxy.storage, layout.key.prefix);
    const { id } = JSON.parse(String(await proxy.storage.get(record!.key)));
    await revokeKey(proxy.storage, id, new Date(proxy.clock.now));
    await proxy.refuses(key);
    expect(await reader.ending()).toBe("broken off");
    await until("the answer to break off for its key", () => broken("INVALID_API_KEY"));
  });

  test("is sent to its end when the process stops", async () => {
    await start({ shutdownSeconds: 100 });
    const reader = await open(await proxy.issue());
    const ended = proxy.stop();
    expect(await reader.toEnd()).toHaveLength(rows);
    await ended;
  });

  test("is cut off when that takes too long", async () => {
    await start({ shutdownSeconds: 1 });
    const reader = await open(await proxy.issue());
    await proxy.stop();
    expect(await reader.ending()).toBe("broken off");
  });
});
