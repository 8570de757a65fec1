import { Agent } from "node:http";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MarketPage } from "../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { appendCommit, newestCommit } from "../../snapshots/store/log/commits.ts";
import { plainFilter } from "../helpers/archive/plain-filter.ts";
import { type Query, search } from "../helpers/http/archive-proxy.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer, call, until } from "../helpers/http/proxy-client.ts";
import { inArchiveOrder, market, publishRecords } from "../helpers/publish/records.ts";
import { collectGarbage } from "../helpers/servers/memory.ts";

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

/** Where and how a client asks; `contents` are those published, by snapshot id. */
interface Asking {
  port: number;
  key: string;
  contents: ReadonlyMap<string, Content>;
  coding: "gzip" | "identity";
}

/** A client of one connection; it throws at the first answer that is not whole and of one snapshot. */
class Reader {
  /** Ids of the snapshots whose data it got. */
  readonly seen = new Set<string>();
  readonly #asks: Asking;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(asks: Asking) {
    this.#asks = asks;
  }

  async readUntil(done: () => boolean): Promise<void> {
    try {
      while (!done()) {
        await this.#readPublic("/api/v1/scores", (body) => body.scores);
        await this.#readPublic("/api/v1/scores/aave", (body) => [body]);
        for (const query of queries) await this.#readPage(query);
        await this.#walk({ pageSize: 9, min_composite: 400 });
      }
    } finally {
      this.#agent.destroy();
    }
  }

  async #ask(path: string, tag = '"none"'): Promise<Answer> {
    const headers = { ...bearer(this.#asks.key), "accept-encoding": this.#asks.coding, "if-none-match": tag };
    const answer = await call(this.#asks.port, path, { agent: this.#agent, headers });
    this.seen.add(String(answer.headers["x-snapshot-id"]));
    expect([200, 304], `${path}: ${answer.text}`).toContain(answer.status);
    return answer;
  }

  /** The content that an answer says it is of. */
  #contentOf({ headers }: Answer): Content {
    return this.#asks.contents.get(String(headers["x-snapshot-id"])) ?? expect.fail("an unknown snapshot");
  }

  async #readPublic(path: string, rows: (body: ReturnType<Answer["json"]>) => { bri: number }[]) {
    const answer = await this.#ask(path);
    expect(answer.headers.etag).toBe(
      `"${sha256(answer.text)}${this.#asks.coding === "gzip" ? "-gzip" : ""}"`,
    );
    const content = this.#contentOf(answer);
    for (const { bri } of rows(answer.json())) expect(bri).toBe(content.bri);
  }

  /** The page of a query, and what the same query with its tag says of it a moment later. */
  async #readPage(query: Query): Promise<void> {
    const path = address(query);
    const first = await this.#ask(path);
    this.#expectPage(first, query);
    const again = await this.#ask(path, first.headers.etag);
    const same = again.headers["x-snapshot-id"] === first.headers["x-snapshot-id"];
    expect([again.status, again.headers.etag === first.headers.etag]).toEqual(
      same ? [304, true] : [200, false],
    );
    if (!same) this.#expectPage(again, query);
  }

  #expectPage(answer: Answer, query: Query): void {
    const all = plainFilter(this.#contentOf(answer).markets, query);
    const size = Number(query.pageSize);
    const start = (Number(query.page ?? 1) - 1) * size;
    const { total, markets }: MarketPage = answer.json();
    expect(total).toBe(all.length);
    expect(isDeepStrictEqual(markets, all.slice(start, start + size)), answer.text).toBe(true);
  }

  /** A walk has every market of the snapshot it began in, whatever is current meanwhile. */
  async #walk(query: Query): Promise<void> {
    let answer = await this.#ask(address(query));
    const all = plainFilter(this.#contentOf(answer).markets, query);
    const seen: HistoricalMarket[] = [];
    for (;;) {
      const { markets, nextCursor }: MarketPage = answer.json();
      seen.push(...markets);
      if (nextCursor === null) break;
      answer = await this.#ask(address({ cursor: nextCursor }));
    }
    expect(isDeepStrictEqual(seen, all)).toBe(true);
  }
}

const address = (query: Query) => `/api/v1/markets/historical?${search(query)}`;

const [switches, clients] = [30, 3];
// Snapshots of which the proxy holds all that it may.
const published = 30;

let proxy: TestProxy;
let key: string;
const commits: Commit[] = [];
const contents = new Map<string, Content>();
beforeAll(async () => {
  proxy = await startTestProxy({ empty: true, logLevel: "silent", pollSeconds: 0.01 });
  key = await proxy.issue({ quota: 10_000_000 });
});
afterAll(() => proxy.stop());

async function reading(metric: string): Promise<number> {
  const text = await proxy.metrics.getSingleMetricAsString(metric);
  return Number(text.slice(text.lastIndexOf(" ")));
}
const served = (commit: number) =>
  until(`commit ${commit} to be served`, async () => (await reading("prs_snapshot_commit")) === commit);

/** Bytes of index that the proxy has in memory. */
async function indexBytes(): Promise<number> {
  await collectGarbage();
  return reading("prs_index_bytes");
}

/** Publishes snapshots until there are so many; the proxy takes up each. */
async function publishUpTo(count: number): Promise<void> {
  while (commits.length < count) {
    const next = content(commits.length);
    const { commit, snapshotId } = await publishRecords(proxy.storage, next.markets, next.bri);
    contents.set(snapshotId, next);
    commits.push((await newestCommit(proxy.storage))!);
    await served(commit);
  }
}

/** Makes one after the other current again, as publishing would: a commit is all that this takes. */
async function switchAround(): Promise<void> {
  let newest = commits.at(-1)!;
  for (let count = 0; count < switches; count += 1) {
    const { digest: _, ...known } = commits[count % published]!;
    const entry = { ...known.entry, commit: newest.entry.commit + 1 };
    newest = await appendCommit(proxy.storage, { ...known, entry, previous: newest.digest });
    await served(entry.commit);
  }
}

test(`${switches} snapshots one after another, each answer whole and of one of them, memory flat`, async () => {
  await publishUpTo(published);
  const bytes = await indexBytes();
  let done = false;
  const readers = Array.from({ length: clients }, (_, place) => {
    return new Reader({ port: proxy.port, key, contents, coding: place ? "identity" : "gzip" });
  });
  const reading = Promise.all(readers.map((reader) => reader.readUntil(() => done)));
  await Promise.race([switchAround(), reading]).finally(() => {
    done = true;
  });
  await reading;
  for (const { seen } of readers) expect(seen.size).toBeGreaterThan(switches / 4);
  expect(await indexBytes()).toBeLessThan(bytes * 1.1);
});
