import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { type FaultyOrigin, good, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, outcome, until } from "../../helpers/http/proxy-client.ts";
import { publishArchive } from "../../helpers/publish/records.ts";

const aave = "/api/v1/scores/aave";
const lido = "/api/v1/scores/lido-dao";
const list = "/api/v1/scores";
const snapshotOf = (answer: Answer) => answer.headers["x-snapshot-id"];

let proxy: TestProxy;
let origin: FaultyOrigin;
beforeEach(async () => {
  origin = await startOriginOf(() => proxy.storage);
  proxy = await startTestProxy({ publicOrigin: origin.url });
});
afterEach(async () => {
  await proxy.stop();
  await origin.stop();
});

/** Publishes another snapshot and waits until it is served. */
async function publishAnother(bri: number): Promise<void> {
  const before = snapshotOf(await proxy.get("/api/v1/status"));
  await publishArchive(proxy.storage, { bri });
  await until(
    "another snapshot to be served",
    async () => snapshotOf(await proxy.get("/api/v1/status")) !== before,
  );
}

/** What a tool of agents gives. */
async function callTool(name: string, args: object) {
  const answer = await proxy.get("/mcp", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } }),
  });
  return answer.json().result.structuredContent;
}

describe("while the origin is away", () => {
  test("what it cannot give is served from the newest snapshot that is in memory, and says so", async () => {
    const known = await proxy.get(aave);
    await publishAnother(701);
    origin.behave = (socket) => socket.resetAndDestroy();
    proxy.clock.now = Date.parse("2026-03-01T00:01:30.000Z");
    const stale = await proxy.get(aave, { headers: { origin: "https://dashboard.test" } });
    expect([outcome(stale), stale.text]).toEqual(["200", known.text]);
    expect(snapshotOf(stale)).toBe(snapshotOf(known));
    expect(stale.headers).toMatchObject({
      etag: known.headers.etag,
      age: "90",
      "cache-status": "prs; hit; ttl=-90; detail=origin-away",
      "cache-control": "private, no-cache",
    });
    expect(stale.headers["access-control-expose-headers"]).toContain("Cache-Status");
    const table = await proxy.get(aave, { headers: { accept: "text/csv" } });
    expect([outcome(table), table.headers.age, table.text.split(/[\n,]/)[0]]).toEqual(["200", "90", "slug"]);
    expect(table.headers.etag).not.toBe(known.headers.etag);
    const called = await callTool("get_score", { slug: "aave" });
    expect([called.snapshotId, called.data.record]).toEqual([snapshotOf(known), known.json()]);
    expect(outcome(await proxy.get(lido))).toBe("502 UPSTREAM_ERROR");
    expect(outcome(await proxy.get(`${list}/unknown`))).toBe("404 PROTOCOL_NOT_FOUND");
  });

  test("a tool of agents gets what it gives, and no other", async () => {
    expect((await callTool("get_score", { slug: "aave" })).data.record.slug).toBe("aave");
    expect(origin.requests).toHaveLength(1);
  });

  test("the archive, which does not come from it, goes on, as do answers 304", async () => {
    const key = await proxy.issue();
    origin.behave = (socket) => socket.resetAndDestroy();
    const page = await proxy.get("/api/v1/markets/historical?pageSize=3", { headers: bearer(key) });
    expect([page.status, page.json().count]).toEqual([200, 3]);
    expect((await proxy.get(aave, { headers: { "if-none-match": "*" } })).status).toBe(304);
  });

  test("nothing is served from a snapshot that was rolled back", async () => {
    await publishAnother(701);
    expect((await proxy.get(aave)).json().bri).toBe(701);
    await rollback(proxy.storage, "1", () => new Date("2026-03-01T01:00:00.000Z"));
    await until("commit 3 to be served", async () => (await proxy.get("/api/v1/status")).json().commit === 3);
    origin.behave = (socket) => socket.resetAndDestroy();
    expect(outcome(await proxy.get(aave))).toBe("502 UPSTREAM_ERROR");
  });

  test("it is left alone after five failures, and used again when it is back", async () => {
    await proxy.stop();
    proxy = await startTestProxy({ publicOrigin: origin.url, limits: { originSeconds: 2 } });
    origin.behave = () => {};
    const outcomes = await Promise.all(Array.from({ length: 5 }, (_, index) => ask(index)));
    expect(outcomes).toEqual(Array(5).fill("504 UPSTREAM_TIMEOUT"));
    // Once a second one request tries it.
    await until("the proxy to leave the origin alone", async () => {
      const asked = origin.requests.length;
      return (await ask(0)) === "502 UPSTREAM_ERROR" && origin.requests.length === asked;
    });
    origin.behave = good;
    await until("the proxy to use the origin again", async () => (await ask(0)) === "200");
    expect(await ask(1)).toBe("200");
  });

  test("200 requests for one object that is not in memory are one request to it", async () => {
    const waiting: (() => void)[] = [];
    origin.behave = (socket, body, target) => void waiting.push(() => good(socket, body, target));
    const answers = Promise.all(Array.from({ length: 200 }, () => proxy.get(aave)));
    await until("the origin to get one request", () => waiting.length === 1);
    await until(
      "200 requests to be counted",
      async () => (await proxy.get("/api/v1/usage")).json().remaining === 800,
    );
    for (const answer of waiting) answer();
    expect(new Set((await answers).map(outcome))).toEqual(new Set(["200"]));
    expect(origin.requests).toHaveLength(1);
  });
});

const objects = [list, aave, lido, `${list}/curve.fi`, `${list}/constructor`];
const ask = async (index: number) => outcome(await proxy.get(objects[index]!));
