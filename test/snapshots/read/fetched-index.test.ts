import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { type FacetName, facetNames } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { wordsFor } from "../../../snapshots/index/bitmap.ts";
import { readSections } from "../../../snapshots/index/segment.ts";
import {
  countFacets,
  evaluate,
  openIndex,
  parseIndexHeader,
  readFilter,
  sectionsFor,
} from "../../../snapshots/read/fetched-index.ts";
import { type Part, PartTable } from "../../../snapshots/read/index/index-parts.ts";
import { hasCode } from "../../../snapshots/store/errors.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { combinations } from "../../helpers/archive/combinations.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { search } from "../../helpers/http/archive-proxy.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { alter, alteredBytes } from "../../helpers/store/altered.ts";
import { type Draw, drawing } from "../../helpers/store/drawing.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { newestManifest, type Objects } from "../../helpers/store/tamper.ts";

// A key's owner can sign an index of any bytes, with every hash right. That the two sorts of loops find the same is
// tried in test/snapshots/index/slice-kernel.test.ts.

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
const runs = Number(process.env.HOSTILE ?? 400);

const [perSegment, facetLimit, rowsAsked] = [150, 10, 20];
const ends = [...segmentEnds().take(2)];
const day = 86_400_000;
/** Of two segments, with frequent and rare labels, in whose times the upper 32 bits change. */
const markets = Array.from({ length: 2 * perSegment }, (_, index): HistoricalMarket => {
  const last = index % perSegment === perSegment - 1;
  return {
    ...market(index),
    ...(last && { id: ends[Math.floor(index / perSegment)]! }),
    resolvedAt: new Date(Date.UTC(2025, 0, 1) + index * day).toISOString(),
    question: `Will number ${index} happen, ${"word".repeat(index % 4)}${index % 7}?`,
    category: index % 3 ? ["Crypto", "crypto", "Politics"][(index % 9) % 3]! : `Rare ${index % 40}`,
    formulaVersion: index % 11 ? "one" : `v${index}`,
  };
});

/** As `expect` does, without what that takes: it is called thousands of times a query. */
function need(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

/** What a service gives of the index of a segment: its header, its sections and its words. */
interface IndexParts {
  header: Uint8Array;
  sections: Map<string, Uint8Array>;
  words: Uint8Array;
}

let sound: IndexParts[];
beforeAll(async () => {
  const objects: Objects = new Map();
  await publishRecords(memoryStorage(objects), markets);
  sound = newestManifest(objects).segments.map(({ hash, words }) => {
    const section = readSections("segment", objects.get(layout.segment(hash))!);
    const part = (name: string) => new Uint8Array(section(name));
    const header = part("index");
    const names = Object.keys(parseIndexHeader("index", header).sections);
    const stored = new Uint8Array(objects.get(layout.words(words.hash))!);
    return { header, sections: new Map(names.map((name) => [name, part(name)])), words: stored };
  });
  expect(sound).toHaveLength(2);
});

/** The same bytes, cut off or with more behind them. */
function resized(bytes: Uint8Array, length: number, draw: Draw): Uint8Array {
  const result = new Uint8Array(Math.max(0, length)).fill([0, 255, draw(256)][draw(3)]!);
  result.set(bytes.subarray(0, result.length));
  return result;
}

const jsonBytes = (document: unknown) => new Uint8Array(Buffer.from(JSON.stringify(document)));

interface IndexJson {
  markets: number;
  sections: Record<string, [bytes: number, root: string]>;
}

/**
 * A hostile index of a segment: the lengths in its header mostly are those of its sections. Hostile headers are among
 * the inputs of test/fuzz/stored.ts.
 */
function hostileParts({ header, sections, words }: IndexParts, draw: Draw): IndexParts {
  const json = JSON.parse(new TextDecoder().decode(header)) as IndexJson;
  const changed: IndexParts = { header, sections: new Map(sections), words };
  const get = (name: string) => changed.sections.get(name)!;
  const put = (name: string, bytes: Uint8Array) => {
    changed.sections.set(name, bytes);
    const ref = json.sections[name];
    if (ref) ref[0] = bytes.length;
  };
  const names = [...sections.keys()];
  for (let left = 1 + draw(3); left > 0; left -= 1) {
    const kind = draw(8);
    const name = names[draw(names.length)]!;
    if (kind < 3) put(name, alteredBytes(get(name), draw));
    else if (kind === 3) put(name, resized(get(name), get(name).length + draw(9) - 4, draw));
    else if (kind === 4) put(name, get(names[draw(names.length)]!));
    else if (kind === 5) alter(json, draw);
    else if (kind === 6) {
      // Another number of markets, and every section as long as that asks for.
      const count = [1, 31, 32, 33, 100, 149, 151, 512, 65_536][draw(9)]!;
      for (const [section, bytes] of changed.sections) {
        const slices = Math.floor(bytes.length / 4 / wordsFor(json.markets));
        if (section === "times") put(section, resized(bytes, count * 4, draw));
        else if (!/^page|\.(postings|starts|rare)$/.test(section))
          put(section, resized(bytes, slices * wordsFor(count) * 4, draw));
      }
      json.markets = count;
    } else changed.words = alteredBytes(changed.words, draw);
  }
  changed.header = draw(20) ? jsonBytes(json) : resized(header, draw(header.length * 2), draw);
  return changed;
}

/** What comes of a query, and how often others had a turn meanwhile. */
async function answer(
  parts: readonly IndexParts[],
  { search, by, skip }: { search: string; by: readonly FacetName[]; skip: number },
) {
  let turns = 0;
  try {
    const segments = parts.map(({ header, sections, words }, index) => {
      const parsed = parseIndexHeader(`index ${index}`, header);
      const needed = sectionsFor(parsed, { ...readFilter(search), by });
      // A reader asks for as many bytes as the header says.
      for (const name of needed) need(parsed.sections[name]![0] < 2 ** 27, `${name} may be of any length`);
      const section = (name: string) => {
        need(needed.includes(name), `nobody asked for ${name}`);
        return sections.get(name) ?? new Uint8Array(0);
      };
      return { header: parsed, section, words };
    });
    const turn = async () => {
      turns += 1;
    };
    const index = openIndex(segments, feedVersion);
    const found = await evaluate(index, readFilter(search), turn);
    const total = segments.reduce((sum, { header }) => sum + header.markets, 0);
    const ordinals = found.slice(skip, rowsAsked);
    const facets = by.length > 0 ? await countFacets(index, found, by, facetLimit, turn) : {};
    return { markets: total, total: found.total, ordinals, facets, turns };
  } catch (error) {
    return { error: error as Error & { parameter?: string }, turns };
  }
}

const named = /^index [01](\.words)?: (it|its (header|section [\w.]+|words|index)) /;

interface Answered {
  markets: number;
  total: number;
  ordinals: number[];
  facets: Record<string, { buckets: readonly { count: number }[] }>;
}

function requireBounds({ markets: all, total, ordinals, facets }: Answered, skip: number): void {
  need(total <= all, "more markets match than there are");
  need(ordinals.length === Math.min(rowsAsked, Math.max(0, total - skip)), "other rows than match");
  for (const [index, ordinal] of ordinals.entries())
    need(ordinal >= 0 && ordinal < (ordinals[index - 1] ?? all), "rows are in no order");
  for (const [name, { buckets }] of Object.entries(facets)) {
    // Of the months until the year 9999, and of the steps of a score.
    const most = name === "month" ? 12 * 8030 : 101;
    need(buckets.length <= most, `${name} has ${buckets.length} buckets`);
    // A label may be among the frequent and the rare.
    const counted = buckets.reduce((sum, { count }) => sum + count, 0);
    need(counted >= 0 && counted <= 2 * total, `${name} counts ${counted} of ${total}`);
  }
}

test(`hostile headers, sections and words are refused by name, or answer within bounds (seed ${seed})`, {
  timeout: 180_000 + runs * 100,
}, async () => {
  let answered = 0;
  const query = fc.record({
    search: combinations(markets).map(({ filters }) => search(filters)),
    by: fc.subarray([...facetNames]),
    skip: fc.nat(2 * perSegment),
  });
  await fc.assert(
    fc.asyncProperty(query, fc.nat(1), fc.integer(), async (query, place, start) => {
      const hostile = (part: IndexParts) => hostileParts(part, drawing(start));
      const parts = sound.map((part, index) => (index === place ? hostile(part) : part));
      const found = await answer(parts, query);
      const { error, turns } = found;
      if (!error) answered += 1;
      if (error && hasCode(error, "INVALID_PARAMETER"))
        need(/has no index for/.test(error.message), error.message);
      else if (error) {
        if (!hasCode(error, "CORRUPT_OBJECT", "FOREIGN_FORMAT")) throw error;
        need(named.test(error.message), `unnamed: ${error.message}`);
      } else requireBounds(found as Answered, query.skip);
      const words = parts.reduce((sum, { words }) => sum + words.length, 0);
      const most = 2 * (1 + 2 * query.by.length) + 8 * (2 + (11 * words) / 4096);
      need(turns <= most, `it takes ${turns} turns`);
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  expect(answered).toBeGreaterThan(runs / 20);
  expect(answered).toBeLessThan(runs / 1.2);
  // Nothing of it stays.
  const all = { search: "disputed=true", by: ["category", "outcome"] as const, skip: 0 };
  const { total, facets } = (await answer(sound, all)) as Answered;
  const disputed = markets.filter((one) => one.disputed);
  expect(total).toBe(disputed.length);
  const yes = disputed.filter(({ resolvedOutcome }) => resolvedOutcome === "Yes").length;
  expect(facets.outcome!.buckets).toContainEqual({ value: "Yes", count: yes, disputed: yes });
});

test.each([
  ["does not ascend", "", {}],
  ["has other ends than its header", "from=2025-02-01", { oldest: -1 }],
  ["has other ends than its header", "from=2025-02-01", { newest: 1 }],
])("a section of times is refused that %s (%#)", async (told, search, ends) => {
  const [{ header, sections, words }] = sound as [IndexParts];
  const [json, times] = [JSON.parse(new TextDecoder().decode(header)), sections.get("times")!.slice()];
  for (const [name, by] of Object.entries(ends)) json[name] += by;
  if (told === "does not ascend") times.copyWithin(4 * 70, 4 * 60, 4 * 61);
  const part = { header: jsonBytes(json), sections: new Map(sections).set("times", times), words };
  const { error } = await answer([part], { search, by: ["month"], skip: 0 });
  expect(error?.message).toBe(`index 0: its section times ${told}`);
});

const atOnce = async () => {};

test("a reader fetches the sections that an answer needs, once", async () => {
  const read: string[] = [];
  const segments = sound.map(({ header, sections }, index) => ({
    header: parseIndexHeader(`index ${index}`, header),
    section(name: string) {
      read.push(`${index} ${name}`);
      return sections.get(name)!;
    },
  }));
  const [{ header }] = segments as [(typeof segments)[number]];
  const [oldest, newest] = [header.oldest, header.newest].map((time) => new Date(time).toISOString());
  const sectionsOf = (search: string, by: readonly FacetName[] = []) =>
    sectionsFor(header, { ...readFilter(search), by });
  expect(sectionsOf("")).toEqual([]);
  expect(sectionsOf(`from=${oldest}&to=${newest}`)).toEqual([]);
  expect(sectionsOf(`from=${newest}`)).toEqual(["times"]);
  expect(sectionsOf(`to=${oldest}`)).toEqual(["times"]);
  expect(sectionsOf("", ["month"])).toEqual(["times", "disputed"]);
  expect(sectionsOf("min_composite=500")).toEqual(["composite"]);
  expect(sectionsOf("", ["tier"])).toEqual(["tier", "disputed"]);
  const index = openIndex(segments, feedVersion);
  const filter = readFilter(`from=${newest}&category=crypto&min_composite=500`);
  for (let time = 0; time < 2; time += 1) {
    const found = await evaluate(index, filter, atOnce);
    await countFacets(index, found, ["category", "composite", "month"], 100, atOnce);
    expect(read.toSorted()).toEqual([...new Set(read)].toSorted());
  }
});

const hashOf = (first: number, rest: number) =>
  Buffer.concat([Buffer.alloc(4, first), Buffer.alloc(28, rest)]);

test("a table finds parts by their whole hashes, also where these begin alike", () => {
  const hashes = [hashOf(1, 1), hashOf(2, 1), hashOf(1, 2), hashOf(1, 3)] as const;
  const sources = ["segment", "ids", "words", "page"] as const;
  const parts = sources.map((source, n): Part => ({ source, offset: 10 * n, bytes: 100 + n }));
  // Some come in hexadecimal.
  const table = new PartTable(hashes.map((hash, n) => [n === 2 ? hash.toString("hex") : hash, parts[n]!]));
  expect(hashes.map((hash) => table.find(hash))).toEqual(parts);
  for (const none of [hashOf(1, 4), hashOf(3, 1), hashOf(2, 2)]) expect(table.find(none)).toBeUndefined();
  expect(table.bytes).toBe(4 * (32 + 4 + 3 * 4));
  expect(new PartTable([]).find(hashOf(0, 0))).toBeUndefined();
});
