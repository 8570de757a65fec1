import { afterAll, beforeAll, expect, test } from "vitest";
import { type LabelFacet, MarketFacets, MarketPage, ScoreList, Status } from "../../../schemas/envelopes.ts";
import { ProtocolScore } from "../../../schemas/records.ts";
import { type Ask, startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, remaining } from "../../helpers/http/proxy-client.ts";
import { slugs } from "../../helpers/publish/records.ts";
import { describeStores } from "../../helpers/store/stores.ts";

describeStores("what each address answers from %s", ({ newLocation, environment }) => {
  let proxy: TestProxy;
  let ask: Ask;
  beforeAll(async () => {
    proxy = await startTestProxy({ snapshotStore: newLocation(), environment });
    ask = proxy.as(await proxy.issue());
  });
  afterAll(() => proxy.stop());

  const batch = (body: string, type = "application/json") =>
    ask("/api/v1/scores/batch", { "content-type": type }, { method: "POST", body });

  test("the score list, its records, and a batch of them byte for byte in the order asked", async () => {
    const list = ScoreList.parse((await proxy.get("/api/v1/scores")).json());
    expect(list.scores.map((row) => row.slug)).toEqual([...slugs].sort());
    const records = new Map<string, string>();
    for (const slug of slugs) {
      const { text, json } = await proxy.get(`/api/v1/scores/${slug}`);
      expect(ProtocolScore.parse(json()).slug).toBe(slug);
      records.set(slug, text);
    }
    for (const order of [slugs, slugs.toReversed()]) {
      const { text } = await batch(JSON.stringify({ slugs: [...order, "none"] }));
      const scores = order.map((slug) => records.get(slug)).join(",");
      expect(text).toBe(`{"count":4,"scores":[${scores}],"notFound":["none"]}`);
    }
  });

  test("a batch for one unit, whatever is in it, and also when its body is refused", async () => {
    const before = remaining(await batch("{}"));
    const bodies = [JSON.stringify({ slugs }), '{"slugs":[]}', "{", "".padEnd(16 * 1024 + 1)];
    const answers = [];
    for (const body of bodies) answers.push(await batch(body));
    answers.push(await batch("{}", "text/plain"));
    expect(answers.map((answer) => [outcome(answer), remaining(answer)])).toEqual([
      ["200", before - 1],
      ["200", before - 2],
      ["400 INVALID_BODY", before - 3],
      ["413 BODY_TOO_LARGE", before - 4],
      ["415 UNSUPPORTED_MEDIA_TYPE", before - 5],
    ]);
  });

  test("pages of the archive, and in Link the one that follows, until none does", async () => {
    const seen: [page: number, count: number][] = [];
    for (let next = "/api/v1/markets/historical?category=crypto&pageSize=7"; next; ) {
      const { headers, json } = await ask(next);
      const { page, count, nextCursor, ...rest } = MarketPage.parse(json());
      expect(rest).toMatchObject({ tier: "enterprise", total: 20, timestamp: "2026-03-01T12:00:00.000Z" });
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
    const { tier } = MarketFacets.parse((await ask("/api/v1/markets/facets?by=tier")).json()).facets;
    const found = Object.entries(status.marketsByTier!).filter(([, count]) => count > 0);
    expect(new Map(found)).toEqual(
      new Map((tier as LabelFacet).buckets.map(({ value, count }) => [value, count])),
    );
  });
});
