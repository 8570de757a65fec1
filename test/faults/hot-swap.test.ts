import { Agent } from "node:http";
import { expect, test } from "vitest";
import type { MarketPage } from "../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { plainFilter } from "../helpers/archive/plain-filter.ts";
import { type Query, search } from "../helpers/http/archive-proxy.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer, call, until } from "../helpers/http/proxy-client.ts";
import { inArchiveOrder, market, publishRecords } from "../helpers/publish/records.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

/** What a snapshot holds: its markets in the archive's order, and the BRI of all its protocols. */
interface Content {
  markets: readonly HistoricalMarket[];
  bri: number;
}

/** A content like no other: every score, and which markets a filter lets through, depend on `number`. */
function contentOf(number: number): Content {
  const markets = Array.from({ length: 30 + (number % 3) }, (_, place) => ({
    ...market(place),
    composite: 300 + ((place * 37 + number) % 701),
  }));
  return { bri: 500 + number, markets: inArchiveOrder(markets) };
}

const queries: Query[] = [
  { pageSize: 10 },
  { pageSize: 7, page: 2 },
  { pageSize: 20, min_composite: 500, outcome: "No" },
  { pageSize: 4, category: "crypto", min_composite: 450 },
];
const [snapshots, clients] = [8, 3];

test(`${snapshots} snapshots one after another, each answer whole and of one of them`, async () => {
  // Readers may meet a snapshot before its run ends, so all are published elsewhere first.
  const elsewhere = memoryStorage(new Map());
  const contents = new Map<string, Content>();
  while (contents.size < snapshots) {
    const content = contentOf(contents.size);
    contents.set((await publishRecords(elsewhere, content.markets, content.bri)).snapshotId, content);
  }
  const proxy = await startTestProxy({ empty: true, logLevel: "silent", pollSeconds: 0.01 });
  const key = await proxy.issue({ quota: 10_000_000 });
  const idOf = ({ headers }: Answer) => String(headers["x-snapshot-id"]);

  /** Publishes a snapshot, and waits until the proxy has taken it up. */
  async function publish({ markets, bri }: Content): Promise<void> {
    const { commit } = await publishRecords(proxy.storage, markets, bri);
    await until(`commit ${commit} to be served`, async () => {
      const metric = await proxy.metrics.getSingleMetricAsString("prs_snapshot_commit");
      return metric.trimEnd().endsWith(` ${commit}`);
    });
  }

  function expectPage(answer: Answer, query: Query): void {
    const all = plainFilter(contents.get(idOf(answer))!.markets, query);
    const [size, page] = [Number(query.pageSize), Number(query.page ?? 1)];
    const { total, markets }: MarketPage = answer.json();
    expect([total, markets]).toEqual([all.length, all.slice((page - 1) * size, page * size)]);
  }

  /** Reads over one connection; tells the ids of the snapshots whose data it got. */
  async function readUntil(done: () => boolean, coding: "gzip" | "identity"): Promise<Set<string>> {
    const seen = new Set<string>();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = async (path: string, tag = '"none"') => {
      const headers = { ...bearer(key), "accept-encoding": coding, "if-none-match": tag };
      const answer = await call(proxy.port, path, { agent, headers });
      seen.add(idOf(answer));
      expect([200, 304], `${path}: ${answer.text}`).toContain(answer.status);
      return answer;
    };
    while (!done()) {
      for (const path of ["/api/v1/scores", "/api/v1/scores/aave"]) {
        const answer = await ask(path);
        expect(answer.headers.etag).toBe(`"${sha256(answer.text)}${coding === "gzip" ? "-gzip" : ""}"`);
        const { scores = [answer.json()] } = answer.json();
        for (const { bri } of scores) expect(bri).toBe(contents.get(idOf(answer))!.bri);
      }
      for (const query of queries) {
        const path = `/api/v1/markets/historical?${search(query)}`;
        const first = await ask(path);
        expectPage(first, query);
        // What the same query with its tag says a moment later.
        const again = await ask(path, first.headers.etag);
        const same = idOf(again) === idOf(first);
        expect([again.status, again.headers.etag === first.headers.etag]).toEqual([same ? 304 : 200, same]);
        if (!same) expectPage(again, query);
      }
    }
    agent.destroy();
    return seen;
  }

  const [first, ...others] = contents.values();
  await publish(first!);
  let done = false;
  const codings = Array.from({ length: clients }, (_, place) => (place ? "identity" : "gzip"));
  const reading = Promise.all(codings.map((coding) => readUntil(() => done, coding)));
  const publishing = async () => {
    for (const next of others) await publish(next);
  };
  await Promise.race([publishing(), reading]).finally(() => {
    done = true;
  });
  for (const seen of await reading) expect(seen.size).toBeGreaterThan(snapshots / 4);
  await proxy.stop();
});
