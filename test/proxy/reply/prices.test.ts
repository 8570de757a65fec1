import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { outcome, problemOf } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const [rows, unit] = [1_200, 256 * 1024];
/** Markets that hardly shrink, each with words that no other has. */
const markets = Array.from({ length: rows }, (_, index) => {
  const question = randomBytes(1_500).toString("base64").match(/.{16}/g)!.join(" ");
  return { ...market(index), question };
});

const folder = testFolder();
const proxy = serveTestProxy({ empty: true });
const ids: string[] = [];
let key: string;
beforeAll(async () => {
  for (const some of [markets.slice(0, 100), markets])
    ids.push((await publishRecords(proxy.storage, some)).snapshotId);
  await exportNewest(proxy.storage, folder);
  await takenUp(proxy, ids[1]!);
  key = await proxy.issue({ quota: 1_000_000 });
});

test("long answers cost a unit for every 500 rows or lines and every 256 KiB as sent, one for none, and none who holds them", async () => {
  const ask = proxy.as(key);
  const get = async (path: string) => (await ask(`/api/v1/markets/${path}`)).json();
  const [{ url: file, bytes }] = (await get("exports")).exports[0].files;
  const [{ header }] = (await get("index")).segments;
  const { words } = await get(`index/${header.hash}`);
  const parts = `sections?of=${words.hash},${header.hash}`;
  const { etag = "" } = (await ask(`/api/v1/markets/index/${parts}`)).headers;
  const [archive, changes, index] = ["historical", "changes?since=", "index/"];
  const from = (index: number) => `${archive}?from=${market(rows - index).resolvedAt}`;
  const unitsOf = (size: number) => Math.ceil(size / unit);
  expect(Math.min(unitsOf(bytes), unitsOf(words.bytes))).toBeGreaterThan(2);
  const inRange = (path: string, size: number): Row[] => [
    [unitsOf(size), path],
    [1, path, 206, { range: `bytes=100-${unit + 99}` }],
    [2, path, 206, { range: `bytes=100-${unit + 100}` }],
    [1, path, 416, { range: `bytes=${size}-` }],
  ];
  type Row = [units: number, path: string, status?: number, headers?: Record<string, string>];
  const asked: Row[] = [
    [1, archive],
    [3, archive, 200, wantsRows],
    [3, archive, 200, { accept: "text/csv" }],
    [1, from(500), 200, wantsRows],
    [2, from(501), 200, wantsRows],
    [1, `${archive}?outcome=never`, 200, wantsRows],
    [3, changes + ids[0]],
    [1, changes + ids[1]],
    ...inRange(file.slice("/api/v1/markets/".length), bytes),
    ...inRange(index + words.hash, words.bytes),
    [1, index + header.hash],
    [1, index + "0".repeat(64), 404],
    [unitsOf(words.bytes + header.bytes), index + parts],
    // It tells of their order, too.
    [
      unitsOf(words.bytes + header.bytes),
      `${index}sections?of=${header.hash},${words.hash}`,
      200,
      { "if-none-match": etag },
    ],
  ];
  for (const [units, name, status = 200, headers = {}] of asked) {
    const path = `/api/v1/markets/${name}`;
    const costs = async (more: Record<string, string> = {}, method = "GET", by = key) => {
      const before = await proxy.left(by);
      const answer = await proxy.as(by)(path, { ...headers, ...more }, { method });
      return { answer, told: [name, answer.status, before - (await proxy.left(by))] };
    };
    const { answer, told } = await costs();
    expect(told).toEqual([name, status, units]);
    if (status !== 200) continue;
    expect((await costs({}, "HEAD")).told).toEqual([name, 200, 1]);
    expect((await costs({ "if-none-match": answer.headers.etag! })).told).toEqual([name, 304, 0]);
    expect((await costs({ "if-none-match": "*" })).told).toEqual([name, 304, 1]);
    const issue = (quota: number) => proxy.issue({ owner: `${quota} for ${name} ${headers.accept}`, quota });
    expect((await costs({}, "GET", await issue(units))).told).toEqual([name, 200, units]);
    if (units === 1) continue;
    const few = await issue(units - 1);
    const poor = await costs({}, "GET", few);
    // A filter's rows, and changes, have to be counted.
    expect(poor.told).toEqual([name, 429, /from=|since=/.test(name) ? 1 : 0]);
    expect(outcome(poor.answer)).toBe("429 QUOTA_EXCEEDED");
    expect(poor.answer.headers["retry-after"]).toBe("43200");
    const { detail } = problemOf(poor.answer);
    expect(detail).toMatch(/take a unit for every (500|262144), more than the \d+ left of the aegis plan's/);
    // Of a file the size is told, as it is in lists, and of rows not how many there are.
    expect((await costs({}, "HEAD", few)).answer.status).toBe(/^(exports|index)/.test(name) ? 200 : 429);
    expect(detail).not.toMatch(/1200|1100|701/);
  }
});
