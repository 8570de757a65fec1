import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { defaultLimits } from "../../proxy/config.ts";
import { type PublicObjects, storeOrigin } from "../../proxy/origin/origin.ts";
import { sqliteQuota } from "../../proxy/quota/counters.ts";
import { createQuota } from "../../proxy/quota/quota.ts";
import { createProxyServer } from "../../proxy/server.ts";
import { createMetrics } from "../../proxy/telemetry/telemetry.ts";
import { keyRing } from "../../snapshots/keys/ring.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { Exports } from "../../snapshots/read/catalog/exports.ts";
import { PublicLog } from "../../snapshots/read/catalog/public-log.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { readAnyLog } from "../../snapshots/trust/log/log-reader.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, call, outcome, problemOf } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { listenLocally } from "../helpers/servers/programs.ts";

const archive = "/api/v1/markets/historical";

/** A proxy whose public objects come from `get`. */
async function withObjects(
  proxy: TestProxy,
  get: PublicObjects["get"],
  ask: (port: number) => Promise<void>,
  answerSeconds = defaultLimits.answerSeconds,
) {
  const { storage } = proxy;
  const now = Date.now;
  const catalog = new Catalog(storage, { cacheBytes: 1_000_000 });
  await catalog.refresh();
  const keys = keyRing(storage, { now, damaged: () => {} });
  const quota = createQuota(sqliteQuota(":memory:"), { onFailure: "closed", now, failed: () => {} });
  const log = pino({ level: "silent" });
  const objects = { get, has: () => false, counts: () => ({ bytes: 0, hits: 0, misses: 0 }) };
  const exports = new Exports(storage, catalog, readAnyLog(storage));
  const publicLog = new PublicLog(storage, catalog.log, readAnyLog(storage));
  const parts = { catalog, exports, publicLog, objects, quota, companions: {}, pollAge: () => 0, now };
  const metrics = createMetrics();
  const origin = storeOrigin(storage);
  const limits = { ...defaultLimits, answerSeconds };
  const rest = { trustProxy: undefined, staleAfterSeconds: 1, keepAliveSeconds: 60, files: [] };
  const { server } = createProxyServer({ ...parts, origin, keys, metrics, limits, log, ...rest });
  const port = await listenLocally(server);
  await ask(port);
  server.close();
  server.closeAllConnections();
  quota.close();
}

describe("errors that need more than a request", () => {
  test("a damaged score is 502 however often it is asked for, and takes no other score with it", async () => {
    const proxy = await startTestProxy();
    const { storage } = proxy;
    const { scores } = await readManifest(storage, (await readCommit(storage, 1))!);
    const [gone, rotten, sound] = Object.keys(scores.records) as [string, string, string];
    const keyOf = (slug: string) => layout.publicObject(scores.records[slug]!.hash);
    await storage.delete(keyOf(gone));
    await storage.put(keyOf(rotten), Buffer.from("{}"));
    const ask = async (slug: string) => outcome(await proxy.get(`/api/v1/scores/${slug}`));
    for (let time = 0; time < 6; time += 1)
      for (const slug of [gone, rotten]) expect(await ask(slug)).toBe("502 UPSTREAM_ERROR");
    expect(await ask(sound)).toBe("200");
    await proxy.stop();
  });

  test("INTERNAL tells nothing and returns the unit; keys not read yet are 503, not unknown", async () => {
    const proxy = await startTestProxy();
    const get = () => Promise.reject(new Error("SECRET of the inside"));
    await withObjects(proxy, get, async (port) => {
      const answer = await call(port, "/api/v1/scores");
      expect(outcome(answer)).toBe("500 INTERNAL");
      expect(answer.text).not.toMatch(/SECRET|\.ts|Error:/);
      expect(answer.headers["x-ratelimit-remaining"]).toBe("1000");
      const key = await proxy.issue();
      expect(outcome(await call(port, "/api/v1/scores", { headers: bearer(key) }))).toBe(
        "503 SNAPSHOT_UNAVAILABLE",
      );
      expect(outcome(await call(port, "/readyz"))).toBe("503 SNAPSHOT_UNAVAILABLE");
    });
    await proxy.stop();
  });

  test("UPSTREAM_TIMEOUT for an answer that is not ready in time", async () => {
    const proxy = await startTestProxy();
    await withObjects(
      proxy,
      () => new Promise(() => {}),
      async (port) => {
        expect(outcome(await call(port, "/api/v1/scores"))).toBe("504 UPSTREAM_TIMEOUT");
      },
      0.2,
    );
    await proxy.stop();
  });

  test.each([
    ["local", "200"],
    ["open", "200"],
    ["closed", "503 QUOTA_UNAVAILABLE"],
  ] as const)("a quota store that fails, under QUOTA_ON_FAILURE=%s: %s", async (quotaOnFailure, expected) => {
    const proxy = await startTestProxy({ quotaOnFailure });
    const file = new DatabaseSync(join(proxy.directory, "quota.sqlite"));
    file.exec("DROP TABLE quota");
    file.close();
    expect(outcome(await proxy.get("/api/v1/scores"))).toBe(expected);
    await proxy.logs("the quota store failed");
    await proxy.stop();
  });

  test("CURSOR_EXPIRED carries the cursor that goes on in the current snapshot", async () => {
    const first = await startTestProxy();
    const key = await first.issue();
    const page = await first.get(`${archive}?pageSize=10&category=crypto`, { headers: bearer(key) });
    await publishArchive(first.storage, { markets: 60, bri: 711 });
    await first.storage.delete(layout.commit(1));
    const proxy = await first.another();
    const expired = await proxy.get(`${archive}?cursor=${page.json().nextCursor}`, { headers: bearer(key) });
    const problem = problemOf(expired);
    expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED", parameter: "cursor" });
    const resumed = await proxy.get(`${archive}?cursor=${problem.resumeCursor}`, { headers: bearer(key) });
    const last = page.json().markets.at(-1).resolvedAt;
    expect(resumed.json().markets[0].resolvedAt < last).toBe(true);
    await proxy.stop();
    await first.stop();
  });

  test("CURSOR_MISMATCH names what differs", async () => {
    const proxy = await startTestProxy();
    const key = await proxy.issue();
    const page = await proxy.get(`${archive}?pageSize=5&category=crypto`, { headers: bearer(key) });
    const path = `${archive}?category=politics&cursor=${page.json().nextCursor}`;
    const problem = problemOf(await proxy.get(path, { headers: bearer(key) }));
    expect(problem).toMatchObject({ status: 400, code: "CURSOR_MISMATCH", parameter: "category" });
    await proxy.stop();
  });
});
