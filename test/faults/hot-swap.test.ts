import { Agent } from "node:http";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MarketPage } from "../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { plainFilter } from "../helpers/archive/plain-filter.ts";
import { type Query, search } from "../helpers/http/archive-proxy.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer, call, until } from "../helpers/http/proxy-client.ts";
import { inArchiveOrder, market, publishRecords } from "../helpers/publish/records.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

/** What a snapshot holds: its markets in the archive's order, and the BRI of all its protocols. */
interface Content {
  markets: readonly HistoricalMarket[];
  bri: number;
}

/** A content like no other: every score, and which markets a filter lets through, depend on `number`. */
function content(number: number): Content {
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

/** A client of one connection; it throws at the first answer that is not whole and of one snapshot. */
class Reader {
  /** Ids of the snapshots whose data it got. */
  readonly seen = new Set<string>();
  readonly #coding: "gzip" | "identity";
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(coding: "gzip" | "identity") {
    this.#coding = coding;
  }

  async readUntil(done: () => boolean): Promise<void> {
    try {
      while (!done()) {
        await this.#readPublic("/api/v1/scores", (body) => body.scores);
        await this.#readPublic("/api/v1/scores/aave", (body) => [body]);
        for (const query of queries) await this.#readPage(query);
      }
    } finally {
      this.#agent.destroy();
    }
  }

  async #ask(path: string, tag = '"none"'): Promise<Answer> {
    const headers = { ...bearer(key), "accept-encoding": this.#coding, "if-none-match": tag };
    const answer = await call(proxy.port, path, { agent: this.#agent, headers });
    this.seen.add(String(answer.headers["x-snapshot-id"]));
    expect([200, 304], `${path}: ${answer.text}`).toContain(answer.status);
    return answer;
  }

  async #readPublic(path: string, rows: (body: ReturnType<Answer["json"]>) => { bri: number }[]) {
    const answer = await this.#ask(path);
    expect(answer.headers.etag).toBe(`"${sha256(answer.text)}${this.#coding === "gzip" ? "-gzip" : ""}"`);
    for (const { bri } of rows(answer.json())) expect(bri).toBe(contentOf(answer).bri);
  }

  /** The page of a query, and what the same query with its tag says of it a moment later. */
  async #readPage(query: Query): Promise<void> {
    const path = `/api/v1/markets/historical?${search(query)}`;
    const first = await this.#ask(path);
    expectPage(first, query);
    const again = await this.#ask(path, first.headers.etag);
    const same = again.headers["x-snapshot-id"] === first.headers["x-snapshot-id"];
    expect([again.status, again.headers.etag === first.headers.etag]).toEqual(
      same ? [304, true] : [200, false],
    );
    if (!same) expectPage(again, query);
  }
}

/** The content that an answer says it is of. */
const contentOf = ({ headers }: Answer): Content =>
  contents.get(String(headers["x-snapshot-id"])) ?? expect.fail("an unknown snapshot");

function expectPage(answer: Answer, query: Query): void {
  const all = plainFilter(contentOf(answer).markets, query);
  const size = Number(query.pageSize);
  const start = (Number(query.page ?? 1) - 1) * size;
  const { total, markets }: MarketPage = answer.json();
  expect(total).toBe(all.length);
  expect(isDeepStrictEqual(markets, all.slice(start, start + size)), answer.text).toBe(true);
}

const [snapshots, clients] = [8, 3];

let proxy: TestProxy;
let key: string;
const contents = new Map<string, Content>();
beforeAll(async () => {
  // Readers may meet a snapshot before its run ends, so all are published elsewhere first.
  const elsewhere = memoryStorage(new Map());
  while (contents.size < snapshots) {
    const { markets, bri } = content(contents.size);
    const { snapshotId } = await publishRecords(elsewhere, markets, bri);
    contents.set(snapshotId, { markets, bri });
  }
  proxy = await startTestProxy({ empty: true, logLevel: "silent", pollSeconds: 0.01 });
  key = await proxy.issue({ quota: 10_000_000 });
});
afterAll(() => proxy.stop());

/** Publishes a snapshot, and waits until the proxy has taken it up. */
async function publish({ markets, bri }: Content): Promise<void> {
  const { commit } = await publishRecords(proxy.storage, markets, bri);
  await until(`commit ${commit} to be served`, async () => {
    const metric = await proxy.metrics.getSingleMetricAsString("prs_snapshot_commit");
    return metric.trimEnd().endsWith(` ${commit}`);
  });
}

test(`${snapshots} snapshots one after another, each answer whole and of one of them`, async () => {
  const [first, ...others] = contents.values();
  await publish(first!);
  let done = false;
  const readers = Array.from({ length: clients }, (_, place) => new Reader(place ? "identity" : "gzip"));
  const reading = Promise.all(readers.map((reader) => reader.readUntil(() => done)));
  const publishing = async () => {
    for (const next of others) await publish(next);
  };
  await Promise.race([publishing(), reading]).finally(() => {
    done = true;
  });
  await reading;
  for (const { seen } of readers) expect(seen.size).toBeGreaterThan(snapshots / 4);
});
