import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Client } from "../../proxy/site/client/client.ts";
import { MarketIndex } from "../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { cuts } from "../../snapshots/format/bytes.ts";
import { digestFrom, hexOf, nodeHash, rootOf } from "../../snapshots/format/tree.ts";
import { encodeWords, unicodeVersion } from "../../snapshots/index/encode-words.ts";
import { sectionRootOf } from "../../snapshots/index/index-header.ts";
import { WordTable } from "../../snapshots/index/word-table.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { decodeWords } from "../helpers/archive/index-rows.ts";
import { segmentEnds } from "../helpers/archive/odd-markets.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import {
  flipInIndex,
  newestManifest,
  type Objects,
  rebuild,
  replaceBeside,
} from "../helpers/store/tamper.ts";

// An operator's own index that lies, with every hash and the log's entry made to agree with it. `verify` and `sync`
// find each. Of the client's answers, these are what the markets that come show to be wrong.

const [segmentEnd] = segmentEnds().take(1);
const records = recordsOf(0, 200).map((one, place) => (place === 90 ? { ...one, id: segmentEnd! } : one));
const published: Objects = new Map();
let objects: Objects;
let proxy: ArchiveProxy;

beforeAll(async () => {
  await publishRecords(memoryStorage(published), records);
  expect(newestManifest(published).segments.length).toBe(2);
});
beforeEach(() => {
  objects = new Map(published);
});
afterEach(() => proxy.stop());

/** A client of a service of the store as it is now, and what pins its entry. */
async function start() {
  proxy = await startArchiveProxy(memoryStorage(objects));
  const { origin } = new URL(proxy.address);
  const client = new Client({ url: origin, key: proxy.headers.authorization!.slice(7), retries: 0 });
  const { entry } = (await client.recompute()).vouched;
  return { client, verified: { verified: true, trust: { entry } } };
}

/** What a walk of verified rows ends with, and one through pages of ten. */
async function outcomes({ client, verified }: Awaited<ReturnType<typeof start>>, filters: Query) {
  const walk = async (items: AsyncIterable<unknown>) => {
    let found = 0;
    for await (const _ of items) found += 1;
    return found;
  };
  const walks = [client.rows(filters, verified), client.pages({ ...filters, pageSize: 10 }, verified)];
  return Promise.all(walks.map((items) => walk(items).catch((error: unknown) => error)));
}

const lie = (message: RegExp) =>
  expect.objectContaining({
    name: "VerificationError",
    what: "row",
    message: expect.stringMatching(message),
  });

describe("A market that does not match is named with its segment, where the index lies of", () => {
  test.each<[section: string, filters: Query[]]>([
    ["disputed", [{ disputed: "true" }, { disputed: "false" }]],
    [
      "tier",
      ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"].map((tier) => ({ tier })),
    ],
    // A bit of eights was flipped.
    [
      "oracle",
      Array.from({ length: 13 }, (_, n) => ({ min_oracle: 8 * n, max_oracle: Math.min(100, 8 * n + 7) })),
    ],
    [
      "outcome.codes",
      [...new Set(records.map((one) => one.resolvedOutcome))].map((outcome) => ({ outcome })),
    ],
  ])("%s", async (section, filters) => {
    flipInIndex(objects, 1, section);
    const lying = await start();
    const found = [];
    for (const one of filters) {
      // What matches and is left out does not show; it does under the filter that it is counted to.
      const [rows, pages] = await outcomes(lying, one);
      if (rows instanceof Error) found.push([rows, pages]);
    }
    const named = lie(/^Page \d+ of segment 1: market \d+, [0-9a-f-]{36}, does not match: the index lies\.$/);
    expect(found).toEqual([[named, named]]);
  });
});

test.each<[name: string, change: (newest: HistoricalMarket, next: HistoricalMarket) => HistoricalMarket[]]>([
  [
    "ids of one time ascend",
    (newest, next) => {
      const sameTime = { ...next, resolvedAt: newest.resolvedAt };
      return newest.id < next.id ? [newest, sameTime] : [sameTime, newest];
    },
  ],
  ["a market comes twice", (newest) => [newest, newest]],
])("An archive that is not in its order is refused where %s", async (_, change) => {
  await rebuild(objects, (pages) => {
    const [newest, next, ...rest] = pages.at(-1)!;
    pages[pages.length - 1] = [...change(newest!, next!), ...rest];
  });
  const refused = lie(/is not in the archive's order\.$/);
  expect(await outcomes(await start(), {})).toEqual([refused, refused]);
});

test.each<[said: string, change: (sizes: Buffer, markets: number) => void]>([
  [
    `${2 * cuts.pageMax + 1} markets or more`,
    (sizes, markets) => {
      const pages = sizes.length / 2;
      for (let page = 0; page < pages; page += 1) sizes.writeUInt16LE(1, 2 * page);
      sizes.writeUInt16LE(markets - pages + 1, sizes.length - 2);
    },
  ],
  [
    "no market",
    (sizes) => {
      sizes.writeUInt16LE(sizes.readUInt16LE(0) + sizes.readUInt16LE(2), 0);
      sizes.writeUInt16LE(0, 2);
    },
  ],
])("A walk is refused where a page is said to have %s", async (_, change) => {
  await publishRecords(memoryStorage(objects), recordsOf(0, 1600));
  proxy = await startArchiveProxy(memoryStorage(objects));
  const { address, headers } = proxy;
  const get = (target: string) => fetch(new URL(target, address), { headers });
  const part = async (hash: string) =>
    Buffer.from(await (await get(`index/sections?of=${hash}`)).arrayBuffer());

  const { segments, indexRoot, markets } = MarketIndex.parse(await (await get("index")).json());
  const longest = segments.reduce((most, one) => (one.markets > most.markets ? one : most));
  const header = await part(longest.header.hash);
  const sizes = await part(JSON.parse(String(header)).sections.pageMarkets[1]);
  const lie = Buffer.from(sizes);
  change(lie, longest.markets);
  // Every hash that leads to it is made to agree.
  const lies = new Map([[sectionRootOf(sizes), sectionRootOf(lie)]]);
  const altered = (text: string) =>
    [...lies].reduce((all, [real, forged]) => all.replaceAll(real, forged), text);
  lies.set(longest.header.hash, sha256(altered(String(header))));
  const children = segments.map((one) =>
    nodeHash(digestFrom(altered(one.header.hash)), digestFrom(one.ids.hash)),
  );
  lies.set(indexRoot, hexOf(rootOf("index", markets, children)));

  const lying: typeof fetch = async (target, init) => {
    const asked = [...lies].reduce((all, [real, forged]) => all.replaceAll(forged, real), String(target));
    const answer = await fetch(asked, init);
    const body = Buffer.from(await answer.arrayBuffer()).toString("latin1");
    const told = altered(body).replace(sizes.toString("latin1"), () => lie.toString("latin1"));
    const { "content-encoding": __, "content-length": ___, ...more } = Object.fromEntries(answer.headers);
    return new Response(Buffer.from(told, "latin1"), { status: answer.status, headers: more });
  };
  const { origin } = new URL(address);
  const client = new Client({ url: origin, key: headers.authorization!.slice(7), retries: 0, fetch: lying });
  const { total, vouched } = await client.recompute();
  expect(total).toBe(markets);
  const verified = { verified: true, trust: { entry: vouched.entry } };
  const refused = expect.objectContaining({ name: "VerificationError", what: "page roots" });
  expect(await outcomes({ client, verified }, {})).toEqual([refused, refused]);
});

describe("Words that another version of Unicode is said to have made", () => {
  const replaceWords = (change: (words: string[][]) => string[][]) => {
    const [, segment] = newestManifest(objects).segments;
    const words = decodeWords(new WordTable("words", objects.get(layout.words(segment!.words.hash))!));
    replaceBeside(objects, 1, "words", encodeWords(change(words), "15.0"));
  };
  const filters = { q: "will" };

  test("leave a total that is not shown to be complete, and say so", async () => {
    replaceWords((words) => words.map((all, at) => (at % 2 ? all : all.filter((word) => word !== "will"))));
    const { client, verified } = await start();
    const { trust } = verified;
    const unjudged = [`Words that Unicode 15.0 made; this platform has ${unicodeVersion}.`];
    const { total, vouched } = await client.recompute({ filters, trust });
    expect(total).toBeLessThan(records.length);
    expect(vouched).toMatchObject({ complete: false, unjudged });
    const rows = client.rows(filters, verified);
    for await (const _ of rows);
    expect(rows.vouched).toMatchObject({ complete: false, unjudged });
    expect((await client.page(filters, verified)).vouched).toMatchObject({ complete: false, unjudged });
    // What needs none of them is complete.
    const judged = { complete: true, unjudged: [] };
    expect((await client.recompute({ filters: { disputed: true }, trust })).vouched).toMatchObject(judged);
  });

  test("give no row whose question every version finds to lack the word", async () => {
    replaceWords((words) => words.with(5, [...words[5]!, "other"]));
    const refused = lie(/does not match: the index lies\.$/);
    expect(await outcomes(await start(), { q: "other" })).toEqual([refused, refused]);
  });
});
