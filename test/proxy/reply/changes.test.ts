import { rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { askRows } from "../../helpers/http/ndjson.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, type Call, outcome, problemOf } from "../../helpers/http/proxy-client.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";

const address = "/api/v1/markets/changes";
/** What each commit holds: the second one adds 1,300 markets and drops 100, the third one is rolled back. */
const contents = [recordsOf(0, 1_500), recordsOf(100, 2_800), recordsOf(50, 2_000)];

let proxy: TestProxy;
let key: string;
const ids: string[] = [];
beforeAll(async () => {
  proxy = await startTestProxy({ empty: true });
  for (const records of contents) ids.push((await publishRecords(proxy.storage, records)).snapshotId);
  await rollback(proxy.storage, "2", () => new Date("2026-03-01T00:00:00.000Z"));
  await takenUp(proxy, ids[1]!);
  key = await proxy.issue();
});
afterAll(async () => {
  await proxy?.stop();
  await rm(proxy.directory, { recursive: true, force: true });
});

const get = (query: string, { headers = {}, ...how }: Call & { headers?: Record<string, string> } = {}) =>
  proxy.get(`${address}?${query}`, { ...how, headers: { ...bearer(key), ...headers } });
const gone = (since: number, until: number) =>
  contents[since]!.filter(({ id }) => !contents[until]!.some((other) => other.id === id));
/** The lines that lead from one content to another. */
function linesOf(since: number, until: number): string[] {
  const deletes = gone(since, until)
    .map(({ id }) => id)
    .sort();
  return [
    ...deletes.map((id) => JSON.stringify({ op: "delete", id })),
    ...gone(until, since).map((market) => JSON.stringify({ op: "put", market })),
  ];
}
const unitsLeft = () => proxy.left(key);

describe("what differs between two snapshots", () => {
  test("comes as deletes by id and puts in the archive's order, in both codings, and to HEAD as headers", async () => {
    const { archiveRoot } = (await readCommit(proxy.storage, 2))!.entry;
    const lines = linesOf(0, 1);
    const plain = await get(`since=${ids[0]}`);
    expect(plain.text === lines.map((line) => `${line}\n`).join("")).toBe(true);
    const zipped = await get(`since=${ids[0]}`, { headers: { "accept-encoding": "gzip" } });
    expect(zipped.headers["content-encoding"]).toBe("gzip");
    expect(zipped.text === plain.text).toBe(true);
    const head = await get(`since=${ids[0]}`, { method: "HEAD" });
    for (const { status, headers } of [plain, zipped, head]) {
      expect(status).toBe(200);
      expect(headers).toMatchObject({
        "content-type": "application/x-ndjson",
        "x-since-snapshot-id": ids[0],
        "x-snapshot-id": ids[1],
        "x-count": "1400",
        "x-archive-root": archiveRoot,
        "cache-control": "private, no-cache",
        vary: "Accept-Encoding, Authorization, X-Api-Key",
      });
      const exposed = String(headers["access-control-expose-headers"]);
      for (const name of ["X-Since-Snapshot-Id", "X-Archive-Root", "X-Count"])
        expect(exposed).toContain(name);
    }
    expect(head.body).toHaveLength(0);
  });

  test.for([
    [1, 0],
    [2, 1],
    [1, 2],
    [2, 0],
    [0, 2],
    [1, 1],
  ] as const)("leads from content %i to %i, whichever was withdrawn", async ([since, until]) => {
    const { status, text } = await get(`since=${ids[since]}&until=${ids[until]}`);
    expect([status, text.split("\n").slice(0, -1)]).toEqual([200, linesOf(since, until)]);
  });

  test("costs a unit for every 500 lines as sent, one for none, and none when the caller has it", async () => {
    const before = await unitsLeft();
    const { headers } = await get(`since=${ids[0]}`);
    expect(await unitsLeft()).toBe(before - 3);
    await get(`since=${ids[1]}`);
    expect(await unitsLeft()).toBe(before - 4);
    const held = await get(`since=${ids[0]}`, { headers: { "if-none-match": headers.etag! } });
    expect([held.status, held.headers["x-snapshot-id"]]).toEqual([304, ids[1]]);
    expect(await unitsLeft()).toBe(before - 4);
    const small = await proxy.issue({ owner: "small", quota: 2 });
    const refused = await get(`since=${ids[0]}`, { headers: bearer(small) });
    expect(outcome(refused)).toBe("429 QUOTA_EXCEEDED");
    expect(problemOf(refused).detail).toContain("until");
  });

  test("goes on behind the lines that were received", async () => {
    const lines = linesOf(0, 1);
    for (const skip of [0, 1, 99, 100, 101, 163, 164, 700, 1_399, 1_400]) {
      const query = `since=${ids[0]}&until=${ids[1]}&skip=${skip}`;
      const rest = await get(query, { headers: { "accept-encoding": skip % 2 ? "gzip" : "identity" } });
      expect(rest.headers["x-count"]).toBe(String(1_400 - skip));
      expect(
        rest.text ===
          lines
            .slice(skip)
            .map((line) => `${line}\n`)
            .join(""),
      ).toBe(true);
    }
    expect(problemOf(await get(`since=${ids[0]}&until=${ids[1]}&skip=1401`))).toMatchObject({
      code: "INVALID_PARAMETER",
      parameter: "skip",
    });
  });

  describe("of which an object goes after it was worked out", () => {
    /** A proxy that has worked it out from the change record, and keeps no parts. */
    async function prepared(skip = 0) {
      const other = await proxy.another({ cacheBytes: 16 * 1024 });
      const key = await other.issue({ owner: "another" });
      const path = `${address}?since=${ids[0]}&until=${ids[1]}&skip=${skip}`;
      expect((await other.get(path, { method: "HEAD", headers: bearer(key) })).status).toBe(200);
      const ask = (coding: string) =>
        askRows(`http://127.0.0.1:${other.port}${path}`, { ...bearer(key), "accept-encoding": coding });
      return {
        other,
        ask,
        get: (headers = {}) => other.get(path, { headers: { ...bearer(key), ...headers } }),
      };
    }
    /** Takes objects away for the time of some work. */
    async function without(keys: readonly string[], work: () => Promise<void>) {
      const taken = await Promise.all(
        keys.map(async (key) => [key, (await proxy.storage.get(key))!] as const),
      );
      try {
        for (const key of keys) await proxy.storage.delete(key);
        await work();
      } finally {
        for (const [key, bytes] of taken) await proxy.storage.put(key, bytes);
      }
    }
    async function recorded() {
      const { changes } = (await readCommit(proxy.storage, 2))!;
      return JSON.parse(String(await proxy.storage.get(layout.changeRecord(changes!.hash))));
    }

    test.each(["identity", "gzip"])(
      "breaks off visibly, and is then told by what is left: %s",
      async (coding) => {
        const { other, ask, get } = await prepared();
        // The oldest part is sent last.
        await without([layout.changePart((await recorded()).after[0].hash)], async () => {
          const reader = await ask(coding);
          expect([reader.status, await reader.ending()]).toEqual([200, "broken off"]);
          const { status, text } = await get({ "accept-encoding": coding });
          expect([status, text.split("\n").slice(0, -1)]).toEqual([200, linesOf(0, 1)]);
        });
        await other.stop();
      },
    );

    test("is 410 where nothing is left to tell it, in either coding", async () => {
      const { before, after } = await recorded();
      const { manifest } = (await readCommit(proxy.storage, 1))!;
      const parts = [...before, ...after].map(({ hash }) => layout.changePart(hash));
      for (const coding of ["identity", "gzip"]) {
        // Deletes are not read from anything, and would be sent first.
        const { other, get } = await prepared(gone(0, 1).length);
        await without([...parts, layout.manifest(manifest.hash)], async () => {
          const answer = await get({ "accept-encoding": coding });
          expect(problemOf(answer)).toMatchObject({
            status: 410,
            code: "SNAPSHOT_EXPIRED",
            parameter: "since",
          });
        });
        await other.stop();
      }
    });
  });
});

test("what is no longer kept is 410, with the way out; without records both snapshots suffice", async () => {
  const own = await startTestProxy({ empty: true });
  const published: string[] = [];
  for (const records of contents) published.push((await publishRecords(own.storage, records)).snapshotId);
  await takenUp(own, published[2]!);
  const headers = bearer(await own.issue());
  const ask = async () => own.get(`${address}?since=${published[0]}`, { headers });
  for (const number of [2, 3]) {
    const commit = (await readCommit(own.storage, number))!;
    await own.storage.delete(layout.changeRecord(commit.changes!.hash));
  }
  const walked = await ask();
  expect(walked.text.split("\n").slice(0, -1)).toEqual(linesOf(0, 2));
  const first = (await readCommit(own.storage, 1))!;
  await own.storage.delete(layout.manifest(first.manifest.hash));
  const another = await own.another();
  const expired = await another.get(`${address}?since=${published[0]}`, { headers });
  expect(problemOf(expired)).toMatchObject({ status: 410, code: "SNAPSHOT_EXPIRED", parameter: "since" });
  expect(problemOf(expired).detail).toContain("/api/v1/markets/historical");
  const none = await another.get(`${address}?since=${published[0]}&until=${published[0]}`, { headers });
  expect([none.status, none.headers["x-count"], none.text]).toEqual([200, "0", ""]);
  expect((await newestCommit(own.storage))!.entry.snapshotId).toBe(published[2]);
  await another.stop();
  await own.stop();
});

test("the work on a difference of many commits has its price, which pays for lines too", async () => {
  const own = await startTestProxy({ empty: true });
  const published: string[] = [];
  for (let n = 0; n < 41; n += 1)
    published.push((await publishRecords(own.storage, recordsOf(n, n + 20))).snapshotId);
  await takenUp(own, published.at(-1)!);
  const path = `${address}?since=${published[0]}`;
  const [poor, key] = [await own.issue({ quota: 2, owner: "poor" }), await own.issue({ quota: 100 })];
  expect(outcome(await own.get(path, { headers: bearer(poor) }))).toBe("429 QUOTA_EXCEEDED");
  expect(await own.left(poor)).toBe(0);
  const first = await own.get(path, { headers: bearer(key) });
  expect([first.status, first.headers["x-count"], await own.left(key)]).toEqual([200, "40", 97]);
  expect(first.headers["x-ratelimit-remaining"]).toBe("97");
  const again = await own.get(path, { headers: bearer(key) });
  expect([again.status, await own.left(key)]).toEqual([200, 96]);
  const held = await own.get(path, { headers: { ...bearer(key), "if-none-match": first.headers.etag! } });
  expect([held.status, await own.left(key)]).toEqual([304, 96]);
  await own.stop();
});
