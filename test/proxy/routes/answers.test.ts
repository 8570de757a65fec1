import { afterAll, beforeAll, expect, test } from "vitest";
import { type LabelFacet, MarketFacets, MarketPage, ScoreList, Status } from "../../../schemas/envelopes.ts";
import { ProtocolScore } from "../../../schemas/records.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, outcome, remaining } from "../../helpers/http/proxy-client.ts";
import { slugs } from "../../helpers/publish/records.ts";
import { describeStores } from "../../helpers/store/stores.ts";

describeStores("what each address answers from %s", ({ newLocation, environment }) => {
  let proxy: TestProxy;
  let aegis: string;
  beforeAll(async () => {
    proxy = await startTestProxy({ snapshotStore: newLocation(), environment });
    aegis = await proxy.issue();
  });
  afterAll(() => proxy.stop());

  const batch = (body: string, type = "application/json") =>
    proxy.get("/api/v1/scores/batch", {
      method: "POST",
      headers: { ...bearer(aegis), "content-type": type },
      body,
    });

  test("the score list, its records and nothing else, without a key", async () => {
    const list = ScoreList.parse((await proxy.get("/api/v1/scores")).json());
    expect(list.scores.map((row) => row.slug)).toEqual([...slugs].sort());
    for (const slug of slugs) {
      const record = ProtocolScore.parse((await proxy.get(`/api/v1/scores/${slug}`)).json());
      expect(record.slug).toBe(slug);
    }
  });

  test("a batch of records, byte for byte as each is sent alone, in the order asked", async () => {
    const records = new Map<string, string>();
    for (const slug of slugs) records.set(slug, (await proxy.get(`/api/v1/scores/${slug}`)).text);
    for (const order of [slugs, slugs.toReversed()]) {
      const { text } = await batch(JSON.stringify({ slugs: [...order, "none"] }));
      const scores = order.map((slug) => records.get(slug)).join(",");
      expect(text).toBe(`{"count":4,"scores":[${scores}],"notFound":["none"]}`);
    }
  });

  test("a batch for one unit, whatever is in it, and also when its body is refused", async () => {
    const before = await proxy.left(aegis);
    const bodies = [JSON.stringify({ slugs }), '{"slugs":[]}', "{", "".padEnd(16 * 1024 + 1)];
    const answers = [];
    for (const body of bodies) answers.push(await batch(body));
    answers.push(await batch("{}", "text/plain"));
    expect(answers.map(outcome)).toEqual([
      ...["200", "200", "400 INVALID_BODY", "413 BODY_TOO_LARGE"],
      "415 UNSUPPORTED_MEDIA_TYPE",
    ]);
    const left = answers.map(remaining);
    expect(left).toEqual([1, 2, 3, 4, 5].map((units) => before - units));
    expect(await proxy.left(aegis)).toBe(before - 5);
  });

  test("a page of the archive for an Aegis key", async () => {
    const path = "/api/v1/markets/historical?category=crypto&pageSize=7";
    const page = MarketPage.parse((await proxy.get(path, { headers: bearer(aegis) })).json());
    expect(page).toMatchObject({ tier: "enterprise", count: 7, total: 20, page: 1, pageSize: 7 });
    expect(page.timestamp).toBe("2026-03-01T12:00:00.000Z");
    const next = `/api/v1/markets/historical?cursor=${page.nextCursor}`;
    expect(MarketPage.parse((await proxy.get(next, { headers: bearer(aegis) })).json()).page).toBe(2);
  });

  test("in Link the page that follows, until none does", async () => {
    const seen: [page: number, count: number][] = [];
    for (let next = "/api/v1/markets/historical?category=crypto&pageSize=7"; next; ) {
      const { headers, json } = await proxy.get(next, { headers: bearer(aegis) });
      const { page, count, nextCursor } = MarketPage.parse(json());
      seen.push([page, count]);
      const [, target] = /^<(.*)>; rel="next"$/.exec(String(headers.link)) ?? [];
      expect(target).toBe(nextCursor === null ? undefined : `?cursor=${nextCursor}`);
      const { pathname, search } = new URL(target ?? "", `http://proxy.test${next}`);
      next = target ? pathname + search : "";
    }
    expect(seen).toEqual([
      [1, 7],
      [2, 7],
      [3, 6],
    ]);
  });

  test("the status of what is served", async () => {
    const status = Status.parse((await proxy.get("/api/v1/status")).json());
    expect(status).toMatchObject({ commit: 1, counts: { markets: 40, protocols: 4 }, stale: false });
    expect(status.ageSeconds).toBe(12 * 3600);
    const counted = await proxy.get("/api/v1/markets/facets?by=tier", { headers: bearer(aegis) });
    const { tier } = MarketFacets.parse(counted.json()).facets;
    const found = Object.entries(status.marketsByTier!).filter(([, count]) => count > 0);
    expect(new Map(found)).toEqual(
      new Map((tier as LabelFacet).buckets.map(({ value, count }) => [value, count])),
    );
  });

  test("health and readiness", async () => {
    expect(outcome(await proxy.get("/healthz"))).toBe("200");
    expect(outcome(await proxy.get("/readyz"))).toBe("200");
  });
});
