import { afterEach, describe, expect, test } from "vitest";
import { defaultLimits, type Limits } from "../../proxy/config.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { patient, startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, outcome, until } from "../helpers/http/proxy-client.ts";
import { type SmallS3, startSmallS3 } from "../helpers/store/small-s3.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

const archive = "/api/v1/markets/historical";
const history = "/api/v1/scores/aave/history";
const rows = { accept: "application/x-ndjson" };

let proxy: TestProxy;
let s3: SmallS3;

/** Starts a proxy whose store is on S3; nothing of the archive is in memory. */
async function startOnS3(limits: Partial<Limits>): Promise<void> {
  s3 = await startSmallS3(memoryStorage(new Map()));
  const { environment } = s3;
  proxy = await startTestProxy({ snapshotStore: "s3://bucket/store", environment, limits, pollSeconds: 0.1 });
}

describe("a store that takes connections and never answers", () => {
  afterEach(async () => {
    await proxy.stop();
    await s3.stop();
  });

  const answered = [
    ["503 SNAPSHOT_UNAVAILABLE", { store: { ...patient.store, operationSeconds: 1 } }],
    ["504 UPSTREAM_TIMEOUT", { answerSeconds: 1 }],
  ] as const;
  test.each(answered)("is told of in time, with %s, and costs no unit", async (expected, limits) => {
    await startOnS3(limits);
    const key = await proxy.issue();
    s3.fault = () => "hang";
    const [page, past, lines] = await Promise.all([
      proxy.get(archive, { headers: bearer(key) }),
      proxy.get(history, { headers: bearer(key) }),
      proxy.get(archive, { headers: { ...bearer(key), ...rows } }),
    ]);
    expect([page, past, lines].map(outcome)).toEqual([expected, expected, expected]);
    const { limit, remaining } = (await proxy.get("/api/v1/usage", { headers: bearer(key) })).json();
    expect(remaining).toBe(limit);
  });

  test("shows in readiness and in a metric, and is looked at again", async () => {
    await startOnS3({ store: { ...patient.store, operationSeconds: 1 } });
    const age = async () => (await proxy.get("/readyz")).json().pollAgeSeconds;
    const metric = () => proxy.metrics.getSingleMetricAsString("prs_poll_age_seconds");
    expect(await age()).toBe(0);
    s3.fault = (_, key) => (key.startsWith(`store/${layout.key.prefix}`) || key === "" ? "hang" : undefined);
    await proxy.logs(/keys.*no answer within 1 s/);
    proxy.clock.now += 90_000;
    expect(await age()).toBe(90);
    expect(await metric()).toMatch(/^prs_poll_age_seconds 90$/m);
    s3.fault = () => undefined;
    await until("a new poll to succeed", async () => (await age()) === 0);
  });
});

test("whatever waits for another thing waits longer than that may take", () => {
  const limits = defaultLimits;
  const { store } = limits;
  // A unit is taken before, and may be given back after.
  const whole = limits.quotaSeconds + limits.answerSeconds + limits.quotaSeconds;
  const chains = [
    [store.connectSeconds, store.attemptSeconds, store.operationSeconds / store.attempts],
    [store.operationSeconds, limits.answerSeconds, whole, limits.stalledSeconds, limits.sendSeconds],
    [limits.originSeconds, limits.answerSeconds],
    [limits.headSeconds, limits.requestSeconds, limits.stalledSeconds],
    [store.operationSeconds, limits.roundSeconds],
  ];
  for (const chain of chains) {
    for (const [place, seconds] of chain.entries())
      if (place > 0) expect(seconds, String(chain)).toBeGreaterThan(chain[place - 1]!);
  }
});
