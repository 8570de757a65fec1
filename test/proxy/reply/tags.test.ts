import { hash } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";

const contents = [recordsOf(0, 300), recordsOf(30, 320)];
const archive = "/api/v1/markets/historical";

const proxy = serveTestProxy({ empty: true });
let key: string;
const ids: string[] = [];
beforeAll(async () => {
  for (const records of contents) ids.push((await publishRecords(proxy.storage, records)).snapshotId);
  await takenUp(proxy, ids[1]!);
  key = await proxy.issue();
});

/** What everybody can compute: a hash of what an answer or a checkpoint tells, in the forms that tags once had. */
function computed(...parts: (string | number | null)[]): string {
  const all = [parts, parts.slice(1), [null, ...parts], [undefined, ...parts]];
  return all
    .map((each) => `W/"${hash("sha256", JSON.stringify(each), "base64url").slice(0, 27)}"`)
    .join(", ");
}

test("a tag that a caller computed is none: the answer comes, and is paid for", async () => {
  const { digest } = (await readCommit(proxy.storage, 2))!;
  const [since, until] = ids as [string, string];
  const changes = `/api/v1/markets/changes?since=${since}&until=${until}`;
  const { id } = contents[1]![0]!;
  const asked: [path: string, tag: string, headers?: Record<string, string>][] = [
    [changes, computed(since, until, 0, "changes")],
    ...[1, 40, 49].map((skip): [string, string] => [
      `${changes}&skip=${skip}`,
      computed(since, until, skip, "changes"),
    ]),
    [`${archive}?pageSize=7&page=2`, computed(digest, "", 7, 7)],
    [`${archive}?pageSize=7&page=2`, computed(digest, 2, 7, "", "")],
    [archive, computed(digest, "", 0, "rows"), wantsRows],
    [archive, computed(digest, "", "", 0, "rows"), wantsRows],
    ["/api/v1/markets/facets?by=tier", computed(digest, "", "tier", 100, "facets")],
    [`/api/v1/markets/${id}`, `"${hash("sha256", JSON.stringify(contents[1]![0]))}"`],
    [`/api/v1/markets/${id}`, computed(digest, "market", id)],
  ];
  for (const [path, tag, headers] of asked) {
    const before = await proxy.left(key);
    const { status } = await proxy.as(key)(path, { ...headers, "if-none-match": tag });
    expect([path, status, await proxy.left(key)]).toEqual([path, 200, before - 1]);
  }
});

test("a tag that was paid for is compared before anything is read, in every process, costs nothing, and is of one snapshot", async () => {
  const [since] = ids as [string];
  const { id } = contents[0]![5]!;
  const { nextCursor } = (await proxy.as(key)(`${archive}?asOf=${since}&pageSize=50`)).json();
  const scores = ["scores", "scores/aave", "scores/aave/dimensions", "scores/aave/history"];
  const asked: [path: string, headers?: Record<string, string>][] = [
    [`/api/v1/markets/changes?since=${since}`],
    [`/api/v1/markets/changes?since=${since}&until=${ids[1]}&skip=9`],
    [`${archive}?asOf=${since}&pageSize=50`],
    [`${archive}?asOf=${since}&q=the*`],
    [`${archive}?cursor=${nextCursor}`],
    [`${archive}?asOf=${since}`, wantsRows],
    [`${archive}?asOf=${since}`, { accept: "text/csv" }],
    [`${archive}?cursor=${nextCursor}&skip=3`, wantsRows],
    [`/api/v1/markets/facets?by=tier&asOf=${since}`],
    [`/api/v1/markets/${id}?asOf=${since}`],
    [`/api/v1/markets/${id}/proof?asOf=${since}`],
    ...scores.map((path): [string] => [`/api/v1/${path}?asOf=${since}`]),
  ];
  const tags: string[] = [];
  for (const [path, headers] of asked) {
    const { etag = "" } = (await proxy.as(key)(path, headers)).headers;
    tags.push(etag);
    // The scores of both are the same.
    if (!path.includes("asOf") || path.includes("scores")) continue;
    const newest = path.replace(since, ids[1]!);
    const now = await proxy.as(key)(newest, { ...headers, "if-none-match": etag });
    expect([newest, now.status, now.headers.etag === etag]).toEqual([newest, 200, false]);
  }
  expect(new Set(tags).size).toBe(asked.length);
  // Whatever is read from now on is missing.
  await using other = await proxy.another();
  for await (const { key: name } of proxy.storage.list("private/")) await proxy.storage.delete(name);
  const before = await other.left(key);
  for (const [place, [path, headers]] of asked.entries()) {
    const { status, headers: told } = await other.as(key)(path, {
      ...headers,
      "if-none-match": tags[place]!,
    });
    expect([path, status, told.etag]).toEqual([path, 304, tags[place]]);
  }
  expect(await other.left(key)).toBe(before);
  for (const [path, headers] of asked.slice(0, -scores.length))
    expect((await other.as(key)(path, { ...headers, "if-none-match": "*" })).status).not.toBe(304);
});
