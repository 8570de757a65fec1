import { beforeAll, describe, expect, test } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { askRows } from "../../helpers/http/ndjson.ts";
import { startTestProxy } from "../../helpers/http/proxy.ts";
import { bearer, type Call, outcome, problemOf } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";

const address = "/api/v1/markets/changes";
/** What each commit holds: the second one adds 1,300 markets and drops 100, the third one is rolled back. */
const contents = [recordsOf(0, 1_500), recordsOf(100, 2_800), recordsOf(50, 2_000)];

const proxy = serveTestProxy({ empty: true });
let key: string;
const ids: string[] = [];
beforeAll(async () => {
  for (const records of contents) ids.push((await publishRecords(proxy.storage, records)).snapshotId);
  await rollback(proxy.storage, "2", () => new Date("2026-03-01T00:00:00.000Z"));
  await takenUp(proxy, ids[1]!);
  key = await proxy.issue();
});

const get = (query: string, headers?: Record<string, string>, how?: Call) =>
  proxy.as(key)(`${address}?${query}`, headers, how);
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
const textOf = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join("");
const expired = { status: 410, code: "SNAPSHOT_EXPIRED", parameter: "since" };

describe("what differs between two snapshots", () => {
  // That changes lead from each snapshot to each other one is tried in test/world, and their headers in corpus.txt.
  test("comes as deletes by id and puts in the archive's order, also back from what was withdrawn", async () => {
    for (const [since, until] of [
      [0, 1],
      [1, 2],
      [2, 0],
    ] as const) {
      const { status, text } = await get(`since=${ids[since]}&until=${ids[until]}`);
      expect([status, text]).toEqual([200, textOf(linesOf(since, until))]);
    }
  });

  test("goes on behind the lines that were received", async () => {
    const lines = linesOf(0, 1);
    for (const skip of [0, 1, 99, 100, 101, 163, 164, 700, 1_399, 1_400]) {
      const query = `since=${ids[0]}&until=${ids[1]}&skip=${skip}`;
      const rest = await get(query, { "accept-encoding": skip % 2 ? "gzip" : "identity" });
      expect(rest.headers["x-count"]).toBe(String(1_400 - skip));
      expect(rest.text === textOf(lines.slice(skip))).toBe(true);
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
      expect((await other.as(key)(path, {}, { method: "HEAD" })).status).toBe(200);
      const ask = (coding: string) =>
        askRows(`http://127.0.0.1:${other.port}${path}`, { ...bearer(key), "accept-encoding": coding });
      const get = (coding: string) => other.as(key)(path, { "accept-encoding": coding });
      return { ask, get, [Symbol.asyncDispose]: other.stop };
    }
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
        await using other = await prepared();
        // The oldest part is sent last.
        await without([layout.changePart((await recorded()).after[0].hash)], async () => {
          const reader = await other.ask(coding);
          expect([reader.status, await reader.ending()]).toEqual([200, "broken off"]);
          const { status, text } = await other.get(coding);
          expect([status, text]).toEqual([200, textOf(linesOf(0, 1))]);
        });
      },
    );

    test("is 410 where nothing is left to tell it, in either coding", async () => {
      const { before, after } = await recorded();
      const { manifest } = (await readCommit(proxy.storage, 1))!;
      const parts = [...before, ...after].map(({ hash }) => layout.changePart(hash));
      for (const coding of ["identity", "gzip"]) {
        // Deletes are not read from anything, and would be sent first.
        await using other = await prepared(gone(0, 1).length);
        await without([...parts, layout.manifest(manifest.hash)], async () =>
          expect(problemOf(await other.get(coding))).toMatchObject(expired),
        );
      }
    });
  });
});

test("what is no longer kept is 410, with the way out; without records both snapshots suffice", async () => {
  const { storage } = proxy;
  for (const number of [2, 3])
    await storage.delete(layout.changeRecord((await readCommit(storage, number))!.changes!.hash));
  await using other = await proxy.another();
  expect((await other.as(key)(`${address}?since=${ids[0]}`)).text).toBe(textOf(linesOf(0, 1)));
  await storage.delete(layout.manifest((await readCommit(storage, 1))!.manifest.hash));
  await using another = await proxy.another();
  const problem = problemOf(await another.as(key)(`${address}?since=${ids[0]}`));
  const detail = expect.stringContaining("/api/v1/markets/historical");
  expect(problem).toMatchObject({ ...expired, detail });
  const none = await another.as(key)(`${address}?since=${ids[0]}&until=${ids[0]}`);
  expect([none.status, none.headers["x-count"], none.text]).toEqual([200, "0", ""]);
});

test("the work on a difference of many commits has its price, which pays for lines too", async () => {
  await using own = await startTestProxy({ empty: true });
  const published: string[] = [];
  for (let n = 0; n < 21; n += 1)
    published.push((await publishRecords(own.storage, recordsOf(n, n + 20))).snapshotId);
  await takenUp(own, published.at(-1)!);
  const path = `${address}?since=${published[0]}`;
  const [poor, key] = [await own.issue({ quota: 1, owner: "poor" }), await own.issue({ quota: 100 })];
  expect(outcome(await own.as(poor)(path))).toBe("429 QUOTA_EXCEEDED");
  expect(await own.left(poor)).toBe(0);
  const first = await own.as(key)(path);
  expect([first.status, first.headers["x-count"], await own.left(key)]).toEqual([200, "40", 98]);
  expect(first.headers["x-ratelimit-remaining"]).toBe("98");
  expect([(await own.as(key)(path)).status, await own.left(key)]).toEqual([200, 97]);
  const held = await own.as(key)(path, { "if-none-match": first.headers.etag! });
  expect([held.status, await own.left(key)]).toEqual([304, 97]);
});
