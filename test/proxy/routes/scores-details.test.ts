import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requirePlan } from "../../../proxy/access/identity.ts";
import { writeSample } from "../../../snapshots/sample/sample.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { type FaultyOrigin, startFaultyOrigin } from "../../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, problemOf, remaining, until } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { publishFreely } from "../../helpers/publish/publish-freely.ts";
import { type ScoreDetails, sourceDetails } from "../../helpers/publish/score-details.ts";
import { sourceFixtures, start } from "../../helpers/publish/sources.ts";

const kinds = ["history", "dimensions"] as const;

const fixtures = sourceFixtures();
let origin: FaultyOrigin;
let proxy: TestProxy;
let details: Map<string, ScoreDetails>;
let developer: string;
beforeAll(async () => {
  const directory = join(fixtures.folder, "thirty days");
  await writeSample({ directory, markets: 20, protocols: 30, days: 30, outcomes: 10, seed: 3 });
  details = await sourceDetails(directory);
  origin = await startFaultyOrigin(() => expect.fail("details are not for the origin to give"));
  proxy = await startTestProxy({ empty: true, publicOrigin: origin.url });
  await serve(proxy, directory);
  developer = await proxy.issue({ plan: "developer" });
});
afterAll(async () => {
  await proxy.stop();
  await origin.stop();
});

/** Publishes sources and waits until the proxy serves them. */
async function serve({ storage, get }: TestProxy, directory: string): Promise<void> {
  const temporaryDirectory = fixtures.folder;
  const sources = () => openSources({ path: directory }, { now: start, temporaryDirectory });
  const { snapshotId } = await publishFreely({ sources, storage, temporaryDirectory, now: () => start });
  await until(
    "the new snapshot to be served",
    async () => (await get("/api/v1/status")).headers["x-snapshot-id"] === snapshotId,
  );
}

const addressOf = (slug: string, kind: string) => `/api/v1/scores/${slug}/${kind}`;

test.each(kinds)("%s of a sample is what its rows say, byte for byte, and not the origin's", async (kind) => {
  for (const [slug, expected] of details) {
    const answer = await proxy.as(developer)(addressOf(slug, kind));
    expect([slug, answer.text]).toEqual([slug, JSON.stringify(expected[kind])]);
  }
  expect(origin.connections).toBe(0);
});

test("a plan below Developer is refused as such, should there ever be keys of one", () => {
  const caller = { plan: "free", account: "a", owner: "o", limit: 1, keyed: true } as const;
  expect(() => requirePlan(caller, "developer")).toThrow(
    expect.objectContaining({ code: "DEVELOPER_REQUIRED" }),
  );
});

/** A scoring run: protocol, time, score of the dimension opsec; all else is the same in every one. */
type Run = readonly [slug: string, time: string, opsec: number];

function writeRuns(runs: readonly Run[]): Promise<string> {
  const rows = runs.map(([slug, time, opsec]) => `('${slug}', TIMESTAMPTZ '${time}+00', ${opsec})`);
  return fixtures.write({
    protocol_scores: `SELECT s.* REPLACE (r.slug AS slug, r.time AS updated_at,
      struct_update(s.dimensions, opsec := r.opsec) AS dimensions)
      FROM scores s, (VALUES ${rows.join(", ")}) r(slug, time, opsec) WHERE s.n = 0`,
  });
}

describe("over runs with gaps", () => {
  const gaps: Run[] = [
    ["gaps", "2025-12-01 00:00:00", 90],
    ["gaps", "2025-12-20 00:00:00", 50],
    ["gaps", "2025-12-26 23:00:00", 30],
  ];
  const once: Run = ["once", "2025-12-25 00:00:00", 10];
  const later: Run = ["gaps", "2025-12-28 12:00:00", 40];

  const own = serveTestProxy({ empty: true });
  let key: string;
  beforeAll(async () => {
    key = await own.issue();
    await serve(own, await writeRuns([...gaps, once]));
  });
  const get = (path: string, by = own) => by.as(key)(path);

  test.each([
    ["missing from", (object: string) => own.storage.delete(object)],
    ["damaged in", (object: string) => own.storage.put(object, Buffer.from("{}"))],
  ])("an object %s the store is 503 and costs nothing, until it is back", async (_what, harm) => {
    // It has nothing in memory yet.
    await using other = await own.another();
    await other.accepts(key);
    const left = await other.left(key);
    const kept = new Map<string, Buffer>();
    for await (const object of own.storage.list(layout.privateObject.prefix))
      kept.set(object.key, (await own.storage.get(object.key))!);
    const inMemory = await get(addressOf("gaps", "history"), other);
    for (const object of kept.keys()) await harm(object);
    expect((await get(addressOf("gaps", "history"), other)).text).toBe(inMemory.text);
    for (const kind of kinds) {
      const answer = await get(addressOf("once", kind), other);
      expect([outcome(answer), remaining(answer)]).toEqual(["503 SNAPSHOT_UNAVAILABLE", left - 2]);
      expect(problemOf(answer).detail).toMatch(/^The archive cannot be read/);
      expect(answer.text).not.toMatch(/private|[0-9a-f]{64}/);
    }
    for (const [object, bytes] of kept) await own.storage.put(object, bytes);
    expect(outcome(await get(addressOf("once", "history"), other))).toBe("200");
  });

  test("gaps stay gaps, one run is one point, and a later publish moves the window", async () => {
    const told = async (slug: string, kind: string) => (await get(addressOf(slug, kind))).json();
    const opsec = async (slug: string) =>
      (await told(slug, "dimensions")).dimensions.find(({ key }: { key: string }) => key === "opsec");
    const times = async (slug: string) =>
      (await told(slug, "history")).points.map((point: { updatedAt: string }) => point.updatedAt);
    expect(await times("gaps")).toEqual(["2025-12-20T00:00:00.000Z", "2025-12-26T23:00:00.000Z"]);
    expect(await opsec("gaps")).toEqual({ key: "opsec", score: 30, change7d: -20, percentile: 100 });
    expect(await times("once")).toEqual(["2025-12-25T00:00:00.000Z"]);
    expect(await opsec("once")).toEqual({ key: "opsec", score: 10, change7d: 0, percentile: 0 });
    const before = await get(addressOf("once", "history"));
    const moved = (await get(addressOf("gaps", "history"))).headers.etag;

    await serve(own, await writeRuns([...gaps, later, once]));
    expect(await times("gaps")).toEqual(["2025-12-26T23:00:00.000Z", "2025-12-28T12:00:00.000Z"]);
    expect(await opsec("gaps")).toEqual({ key: "opsec", score: 40, change7d: 10, percentile: 100 });
    const after = await get(addressOf("once", "history"));
    expect([after.text, after.headers.etag]).toEqual([before.text, before.headers.etag]);
    expect(after.headers["x-snapshot-id"]).not.toBe(before.headers["x-snapshot-id"]);
    expect((await get(addressOf("gaps", "history"))).headers.etag).not.toBe(moved);
  });

  test("a protocol that a publish leaves out is 404 from then on", async () => {
    for (const kind of kinds) expect(outcome(await get(addressOf("once", kind)))).toBe("200");
    await serve(own, await writeRuns(gaps));
    for (const kind of kinds) {
      expect(outcome(await get(addressOf("once", kind)))).toBe("404 PROTOCOL_NOT_FOUND");
      expect(outcome(await get(addressOf("gaps", kind)))).toBe("200");
    }
  });
});
