import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Client, type ClientOptions, type Trust } from "../../../proxy/site/client/client.ts";
import { MarketIndex } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { combinations } from "../../helpers/archive/combinations.ts";
import { idsIn, loadMarkets } from "../../helpers/archive/duckdb-filter.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { plainFilter } from "../../helpers/archive/plain-filter.ts";
import { sourceMarkets } from "../../helpers/archive/source-rows.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { type ArchiveProxy, startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { publishSources, writeSources } from "../../helpers/publish/sample-sources.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const sources = join(folder, "sources");
const storage = directoryStorage(join(folder, "store"));
const signing = { key: testKey() };
const trust = { key: verifierText(signing.key) };
let proxy: ArchiveProxy;
let markets: HistoricalMarket[];

beforeAll(async () => {
  await writeSources(sources, { markets: 700 });
  await publishSources(sources, storage, folder, { signing });
  proxy = await startArchiveProxy(storage);
  markets = await sourceMarkets(sources);
});
afterAll(() => proxy?.stop());

/** A client of the proxy, and what it asked for. */
function clientOf(how: Partial<ClientOptions> = {}, { address, headers } = proxy) {
  const asked: string[] = [];
  const fetch: typeof globalThis.fetch = (target, init) => {
    asked.push(String(target).replace(/^.*\/api\/v1/, ""));
    return globalThis.fetch(target, init);
  };
  const { origin } = new URL(address);
  const key = headers.authorization!.slice("Bearer ".length);
  return { client: new Client({ url: origin, key, fetch, timeout: 3_600_000, ...how }), asked };
}

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
const runs = process.env.RECOMPUTE === "all" ? 5_000 : 15;
// On a machine that may be busy.
const timeout = 7_200_000;

describe("a total", () => {
  test(`and its facets are the service's, for ${runs} random queries (seed ${seed})`, {
    timeout,
  }, async () => {
    const { client } = clientOf();
    const queries = fc.tuple(combinations(markets), fc.shuffledSubarray([...facetNames], { maxLength: 3 }));
    await fc.assert(
      fc.asyncProperty(queries, async ([{ filters }, by]) => {
        const { total, facets } = await client.recompute({ filters, by, limit: 7, trust });
        expect(total).toBe(plainFilter(markets, filters).length);
        const names = by.length > 0 ? by : ["tier"];
        const served = await proxy.facets({ ...filters, by: names.join(), limit: 7 });
        expect(total).toBe(served.total);
        expect(facets).toEqual(by.length > 0 ? served.facets : {});
      }),
      { seed, numRuns: runs },
    );
  });

  test("says what vouches for it, and what it took", async () => {
    const { client, asked } = clientOf();
    const first = await client.recompute({ filters: { disputed: true }, by: ["tier"], trust });
    const { vouched, commit, snapshotId } = first;
    const origin = "prs.example/scores";
    const checkpoint = { origin, size: 1, signed: true, cosigners: 0 };
    expect(vouched).toMatchObject({ by: ["key"], checkpoint, complete: true });
    const { snapshotId: current } = proxy.catalog.requireCurrent().commit;
    expect([commit, snapshotId, first.requests]).toEqual([1, current, 3]);
    const sections = "/markets/index/sections?";
    expect(asked.map((target) => target.replace(/of=.*/, ""))).toEqual([
      "/markets/index",
      sections,
      sections,
    ]);
    // What is there is not fetched again.
    const again = await client.recompute({ filters: { disputed: false }, by: ["tier"], trust });
    expect([again.requests, again.total + first.total]).toEqual([1, markets.length]);
    expect(again.bytes).toBeLessThan(first.bytes / 3);
    // What the id of a snapshot names is asked for once, for each trust.
    const recount = (trust: Trust) => client.recompute({ asOf: snapshotId, by: ["tier"], trust });
    expect([(await recount(trust)).requests, (await recount(trust)).requests]).toEqual([1, 0]);
    expect((await recount({})).vouched).toMatchObject({ by: [], complete: false });
    expect((await clientOf().client.recompute()).vouched).toMatchObject({ by: [], complete: false });
  });

  test("is refused where it could not be proved, or is of something else", async () => {
    const { client, asked } = clientOf();
    const { snapshotId } = proxy.catalog.requireCurrent().commit;
    const recompute = (asked: Parameters<Client["recompute"]>[0]) => client.recompute({ trust, ...asked });
    await expect(recompute({ trust: { snapshotId } })).rejects.toThrow(/no totals.*trust\.key.*trust\.entry/);
    const invalid = { code: "INVALID_PARAMETER" };
    for (const [wrong, told] of [
      [{ filters: { category: "x".repeat(300) } }, { parameter: "category" }],
      // No version of Unicode will ever have this one.
      [{ filters: { q: "un\u{2FFFE}known" } }, { parameter: "q" }],
      [{ by: ["colour"] }, { parameter: "by" }],
      // What TypeScript would not let through is no fault of the service either.
      [{ by: "tier" }, {}],
      [{ filters: { category: Symbol("none") } }, {}],
    ] as const)
      await expect(recompute(wrong as object)).rejects.toMatchObject({ ...invalid, ...told });
    expect(asked).toEqual([]);
    await expect(recompute({ by: ["tier"], limit: 0 })).rejects.toMatchObject({ parameter: "limit" });
    const zeros = "0".repeat(64);
    const mismatch = { name: "VerificationError", code: "MISMATCH" };
    const fails = (trust: Trust, what: string) =>
      expect(recompute({ trust })).rejects.toMatchObject({ ...mismatch, what });
    await fails({ entry: zeros }, "entry");
    const fetch: typeof globalThis.fetch = (target, init) =>
      globalThis.fetch(String(target).replace(/asOf=\w+/, ""), init);
    await expect(clientOf({ fetch }).client.recompute({ asOf: zeros })).rejects.toThrow(
      `of snapshot ${snapshotId}`,
    );
    await fails({ ...trust, snapshotId: zeros }, "entry");
    await fails({ key: verifierText(testKey("prs.example/scores", "other")) }, "checkpoint");
    await fails({ key: verifierText(testKey("other.example/scores")) }, "checkpoint");
  });
});

/** What the index of a proxy consists of. */
async function indexOf({ address, headers }: ArchiveProxy) {
  const answer = await fetch(new URL("index", address), { headers });
  return MarketIndex.parse(await answer.json());
}

describe("rows", () => {
  const verified = { verified: true, trust };

  test(`are the service's and DuckDB's, for ${runs} random queries (seed ${seed})`, { timeout }, async () => {
    const { client } = clientOf();
    await withDuckDb(folder, async (sql) => {
      await loadMarkets(sql, sources, markets);
      await fc.assert(
        fc.asyncProperty(combinations(markets), async ({ filters, pageSize, page }) => {
          const ids = plainFilter(markets, filters).map(({ id }) => id);
          expect(await idsIn(sql, filters)).toEqual(ids);
          const rows = client.rows(filters, verified);
          const found = await Array.fromAsync(rows);
          expect(found.map(({ market }) => market.id)).toEqual(ids);
          expect([rows.total, rows.count, rows.skip]).toEqual([ids.length, ids.length, ids.length]);
          const one = await client.page({ ...filters, pageSize, page }, verified);
          const { timestamp: _, vouched: __, ...shown } = one;
          const { timestamp: ___, ...served } = await proxy.page({ ...filters, pageSize, page });
          expect(shown).toEqual(served);
        }),
        { seed, numRuns: runs },
      );
    });
  });

  test("are the service's CSV, and go on where another process left off, and as pages", async () => {
    const { client } = clientOf();
    const whole = client.rows({}, verified);
    const table = await Array.fromAsync(whole, ({ csv }) => csv);
    const served = await proxy.get({}, { accept: "text/csv" });
    expect(`${whole.csvHead}${table.join("")}` === served.text).toBe(true);
    const first = client.rows({ disputed: true }, verified);
    const texts: string[] = [];
    for await (const { text } of first) if (texts.push(text) === 20) break;
    expect(first.skip).toBe(20);
    const rest = clientOf().client.rows({ cursor: first.cursor!, skip: first.skip }, verified);
    texts.push(...(await Array.fromAsync(rest)).map(({ text }) => text));
    expect(texts).toEqual((await Array.fromAsync(client.rows({ disputed: true }))).map(({ text }) => text));
    expect([rest.total, rest.skip, rest.count]).toEqual([texts.length, texts.length, texts.length]);
    const pages = await Array.fromAsync(client.pages({ disputed: true, pageSize: 50 }, verified));
    expect(pages.flatMap((page) => page.markets)).toEqual(texts.map((text) => JSON.parse(text)));
    const [, second] = pages;
    const cursor = pages[0]!.nextCursor!;
    expect(await client.page({ cursor }, verified)).toEqual({ ...second, timestamp: expect.any(String) });
  });

  test("are those of a snapshot that was published again since it was first asked for", async () => {
    const own = directoryStorage(join(folder, "again"));
    const [first, second] = [recordsOf(0, 60), recordsOf(0, 70)];
    const { snapshotId } = await publishRecords(own, first, 700, { signing });
    const service = await startArchiveProxy(own);
    onTestFinished(service.stop);
    const { client } = clientOf({}, service);
    const walks = async () => [
      (await Array.fromAsync(client.rows({ asOf: snapshotId }, verified))).length,
      (await Array.fromAsync(client.pages({ asOf: snapshotId, pageSize: 25 }, verified))).length,
    ];
    expect(await walks()).toEqual([60, 3]);
    for (const records of [second, first]) await publishRecords(own, records, 700, { signing });
    await service.refresh();
    const { commit } = service.catalog.requireCurrent();
    expect([commit.commit, commit.snapshotId]).toEqual([3, snapshotId]);
    expect(await walks()).toEqual([60, 3]);
  });

  test("are proved against a snapshot's id, and say that this does not show that none is left out", async () => {
    const { snapshotId } = proxy.catalog.requireCurrent().commit;
    const rows = clientOf().client.rows({ disputed: true }, { verified: true, trust: { snapshotId } });
    expect((await Array.fromAsync(rows)).length).toBe(rows.total);
    expect(rows.vouched).toMatchObject({ by: ["snapshotId"], complete: false });
  });
});

test("an absence is shown in one request, and none of a market that is there", async () => {
  const { client, asked } = clientOf();
  const { snapshotId, commit } = proxy.catalog.requireCurrent().commit;
  const id = "01234567-89ab-4cde-8f01-23456789abcd";
  const shown = await client.absent(id, { trust });
  expect(shown).toMatchObject({ snapshotId, commit, markets: markets.length, requests: 1 });
  expect(shown.vouched).toMatchObject({ by: ["key"], complete: true });
  expect(asked).toEqual([`/markets/index/absence?id=${id}`]);
  const there = { name: "ApiError", status: 404 };
  await expect(client.absent(markets[3]!.id, { trust })).rejects.toMatchObject(there);
  await expect(client.absent(id, { trust: { snapshotId } })).rejects.toThrow(/no absence/);
});

describe("what was fetched", () => {
  const filters = { disputed: true, min_oracle: 40 };
  const of = (asked: readonly string[]) =>
    new URLSearchParams(asked.at(-1)!.split("?")[1]).get("of")!.split(",");

  test("is fetched again after a publish only where segments changed", async () => {
    const folder = join(sources, "..", "more");
    const storage = directoryStorage(join(folder, "store"));
    const ends = [...segmentEnds().take(5)];
    const records = recordsOf(0, 400).map((each, index) =>
      index % 80 ? each : { ...each, id: ends[index / 80]! },
    );
    await publishRecords(storage, records, 700, { signing });
    const own = await startArchiveProxy(storage);
    onTestFinished(own.stop);
    const { client, asked } = clientOf({}, own);
    const first = await client.recompute({ filters, trust });
    const { segments } = await indexOf(own);
    expect(segments.length).toBeGreaterThan(3);
    const renew = async (change: Partial<HistoricalMarket>) => {
      await publishRecords(storage, records.with(5, { ...records[5]!, ...change }), 700, { signing });
      await own.refresh();
      asked.length = 0;
    };
    await renew({ question: "Another one?" });
    const second = await client.recompute({ filters, trust });
    expect(second.total).toBe(first.total);
    // The header of the segment, and none of its sections that are the same: a question is in none of them.
    expect([asked.length, of(asked).length]).toEqual([2, 1]);
    await renew({ question: "Another one?", disputed: !records[5]!.disputed });
    await client.recompute({ filters, trust });
    expect([asked.length, of(asked).length]).toEqual([3, 1]);
    expect((await client.recompute({ filters, trust })).requests).toBe(1);
  });

  test("is forgotten, the least recently used first, when there is more than may be kept", async () => {
    const { client, asked } = clientOf({ keepBytes: 4_000 });
    // Each takes some 1,200 bytes.
    for (const name of marketDimensionKeys) await client.recompute({ by: [name], trust });
    asked.length = 0;
    await client.recompute({ by: [marketDimensionKeys.at(-1)!], trust });
    expect(asked.length).toBe(1);
    await client.recompute({ by: [marketDimensionKeys[0]!], trust });
    expect(asked.length).toBe(3);
  });

  test("is cut off where more comes than was announced", async () => {
    let sent = 0;
    const endless = new ReadableStream({
      pull(controller) {
        sent += 1;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const fetch: typeof globalThis.fetch = async (target, init) =>
      /sections/.test(String(target)) ? new Response(endless) : globalThis.fetch(target, init);
    const { client } = clientOf({ fetch });
    const failure = { name: "VerificationError", what: "answer" };
    await expect(client.recompute({ trust })).rejects.toMatchObject(failure);
    expect(sent).toBeLessThan(10);
  });
});
