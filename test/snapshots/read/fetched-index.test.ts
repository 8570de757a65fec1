import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { type FacetName, facetNames } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { wordsFor } from "../../../snapshots/index/bitmap.ts";
import { type SliceLoops, simdLoops } from "../../../snapshots/index/slice-kernel.ts";
import type * as Evaluator from "../../../snapshots/read/fetched-index.ts";
import { type Part, PartTable } from "../../../snapshots/read/index/index-parts.ts";
import { hasCode } from "../../../snapshots/store/errors.ts";
import { combinations } from "../../helpers/archive/combinations.ts";
import { type IndexParts, indexParts } from "../../helpers/archive/index-parts.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { search } from "../../helpers/http/archive-proxy.ts";
import { bundled } from "../../helpers/http/bundled.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import type { Objects } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// A key's owner can sign an index of any bytes. The module that readers are served gets such, with every hash right.
// That its two sorts of loops find the same is tried in test/snapshots/index/slice-kernel.test.ts.

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

/** The loops, which must write nowhere but where they may. Between counts, everything else in memory is garbage. */
function guarded(loops: SliceLoops, garbage: number): SliceLoops {
  const { buffer } = loops.memory;
  const [bytes, words] = [Buffer.from(buffer), new Uint32Array(buffer)];
  let calls = 0;
  const writing = (from: number, to: number, work: () => void, every = 8) => {
    need(to <= bytes.length, "a loop writes behind the memory");
    calls += 1;
    // Looking at all of the memory takes longer than the work.
    if (calls % every > 0) return work();
    const before = Buffer.from(bytes);
    work();
    if (before.compare(bytes, 0, from, 0, from) || before.compare(bytes, to, bytes.length, to))
      throw new Error(`something was written outside ${from} to ${to}`);
  };
  words.fill(garbage);
  return {
    memory: loops.memory,
    keepFrom: (result, end, ...others) => {
      const [slices, stride, count] = others;
      need(end - result <= 8192, "a bitmap is too long");
      need(slices + (count - 1) * stride + end - result <= bytes.length, "there are too many slices");
      writing(result, end, () => loops.keepFrom(result, end, ...others));
    },
    countFrom: (bits, bitsEnd, others, slices, stride, bounds, end) => {
      need(bitsEnd - bits <= 8192, "a bitmap is too long");
      for (let entry = bounds / 4; entry < end / 4; entry += 8)
        need(slices + words[entry]! + words[entry + 1]! * stride <= bounds, "there are too many slices");
      writing(bounds, end + 128, () => loops.countFrom(bits, bitsEnd, others, slices, stride, bounds, end));
      // The next column is counted among the same bits.
      words.fill(garbage, slices / 4, bounds / 4);
      words.fill(garbage, end / 4 + 32);
    },
  };
}

const folder = testFolder();

/** The module as readers are served it, with loops that are guarded. */
async function guardedEvaluator(): Promise<typeof Evaluator> {
  const text = bundled(new URL("../../../snapshots/read/fetched-index.ts", import.meta.url));
  const file = join(folder, "evaluator.mjs");
  writeFileSync(file, `const WebAssembly = globalThis.guardedLoops;\n${text}`);
  const guardedLoops = {
    Module: class {},
    Instance: class {
      exports = guarded(simdLoops(), 0xdeadbeef);
    },
  };
  Object.assign(globalThis, { guardedLoops });
  try {
    return await import(/* @vite-ignore */ pathToFileURL(file).href);
  } finally {
    Reflect.deleteProperty(globalThis, "guardedLoops");
  }
}

let evaluator: typeof Evaluator;
let sound: IndexParts[];
beforeAll(async () => {
  evaluator = await guardedEvaluator();
  const objects: Objects = new Map();
  await publishRecords(memoryStorage(objects), markets);
  sound = indexParts(objects);
  expect(sound).toHaveLength(2);
});

/** Chooses a number below another one. */
type Choose = (below: number) => number;
const anyBelow = (below: number) => fc.noBias(fc.nat(below - 1));
const oneOf = <T>(choose: Choose, items: readonly T[]): T => items[choose(items.length)]!;

const numbers = [
  ...[-1, 0, 1, 2, 15, 31, 32, 33, 63, 127, 128, 149, 150, 151, 255, 256, 65_535, 65_536, 65_537],
  ...[0.5, 2 ** 24, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 48, 2 ** 53 - 1, 1e300],
];
const hostileNumber = (choose: Choose) => (choose(2) ? oneOf(choose, numbers) : choose(300));

/** Deeply nested JSON takes its text: JSON.stringify would not come back from it. */
const deep = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const jsonBytes = (document: unknown): Uint8Array =>
  new Uint8Array(Buffer.from(JSON.stringify(document ?? null).replaceAll('"deep"', deep(20_000))));

interface Node {
  holder: { [name: string]: unknown };
  name: string;
}

/** Where the values in a JSON document are. */
function nodesIn(value: unknown): Node[] {
  if (typeof value !== "object" || value === null) return [];
  const holder = value as Node["holder"];
  return Object.keys(holder).flatMap((name) => [{ holder, name }, ...nodesIn(holder[name])]);
}

/** Gives a value of a JSON document another name, or takes it away, or puts another one in its place. */
function changeJson(document: unknown, choose: Choose): void {
  const nodes = nodesIn(document);
  if (nodes.length === 0) return;
  const { holder, name } = oneOf(choose, nodes);
  const other = oneOf(choose, nodes);
  const kind = choose(8);
  if (kind === 0) delete holder[name];
  else if (kind === 1) holder[oneOf(choose, ["__proto__", "toString", "times", other.name])] = holder[name];
  else if (kind === 2 && Array.isArray(holder)) holder.splice(choose(holder.length + 1), 0, holder[name]);
  else if (kind < 5) holder[name] = hostileNumber(choose);
  else if (kind === 5) holder[name] = structuredClone(other.holder[other.name]);
  else
    holder[name] = oneOf<unknown>(choose, [
      ...["", "x".repeat(257), "é".repeat(128), "\ud800", "__proto__", "toString", "deep", "one"],
      ...[null, true, [], {}, [[]], [0], [0, 0], { toString: 1, valueOf: 1 }, { length: 2 }],
      Array.from({ length: 33 + choose(40) }, (_, n) => String(n).padStart(4, "0")),
    ]);
}

/** Changes bytes in place: bits, numbers of 1, 2 and 4 bytes, runs, and parts that change places. */
function changeBytes(bytes: Uint8Array, choose: Choose): void {
  if (bytes.length === 0) return;
  const at = choose(bytes.length);
  const width = oneOf(choose, [1, 2, 4]);
  const aligned = at - (at % width);
  const end = Math.min(bytes.length, aligned + width * (1 + choose(8)));
  const kind = choose(6);
  if (kind === 0) bytes[at]! ^= 1 << choose(8);
  else if (kind === 1) bytes.fill(oneOf(choose, [0, 255, 128, 127]), aligned, end);
  else if (kind === 2) bytes.copyWithin(aligned, choose(bytes.length), choose(bytes.length));
  else {
    const number = Math.trunc(hostileNumber(choose));
    for (let n = 0; n < width && aligned + n < bytes.length; n += 1) bytes[aligned + n] = number / 256 ** n;
  }
}

/** The same bytes, cut off or with more behind them. What asks for `length` may be a hostile number itself. */
function resized(bytes: Uint8Array, length: number, choose: Choose): Uint8Array {
  const bounded = Math.max(0, Math.min(2 ** 18, length));
  const result = new Uint8Array(bounded).fill(oneOf(choose, [0, 255, choose(256)]));
  result.set(bytes.subarray(0, result.length));
  return result;
}

interface IndexJson {
  markets: number;
  sections: Record<string, [bytes: number, root: string]>;
  columns: { name: string; frequent?: string[] }[];
}

/** A hostile index of a segment: the lengths in its header mostly are those of its sections. */
function hostileParts({ header, sections, words }: IndexParts, choose: Choose): IndexParts {
  const json = JSON.parse(new TextDecoder().decode(header)) as IndexJson;
  const changed: IndexParts = { header, sections: new Map(sections), words };
  const get = (name: string) => new Uint8Array(changed.sections.get(name)!);
  const put = (name: string, bytes: Uint8Array) => {
    changed.sections.set(name, bytes);
    const ref = json.sections?.[name];
    if (Array.isArray(ref)) ref[0] = bytes.length;
  };
  const names = [...sections.keys()];
  const labels = names.filter((name) => name.endsWith(".rare")).map((name) => name.slice(0, -5));
  for (let left = 1 + choose(3); left > 0; left -= 1) {
    const kind = choose(12);
    const name = oneOf(choose, names);
    if (kind < 3) {
      const bytes = get(name);
      changeBytes(bytes, choose);
      put(name, bytes);
    } else if (kind === 3) put(name, resized(get(name), get(name).length + choose(9) - 4, choose));
    else if (kind === 4) put(name, get(oneOf(choose, names)));
    else if (kind === 5) changeJson(json, choose);
    else if (kind === 6) {
      // Another number of markets, and every section as long as that asks for.
      const count = oneOf(choose, [1, 31, 32, 33, 100, 149, 151, 512, 65_536]);
      for (const [section, bytes] of changed.sections) {
        const slices = Math.floor(bytes.length / 4 / wordsFor(json.markets));
        if (section === "times") put(section, resized(bytes, count * 4, choose));
        else if (!/^page|\.(postings|starts|rare)$/.test(section))
          put(section, resized(bytes, slices * wordsFor(count) * 4, choose));
      }
      json.markets = count;
    } else if (kind <= 9) {
      // A list of rare labels, postings and their starts that agree in length, but not in what they say.
      const label = oneOf(choose, labels);
      const [postings, starts] = [get(`${label}.postings`), get(`${label}.starts`)];
      const places = Math.max(0, postings.length / 2 + choose(5) - 2);
      const [more, bits] = [
        resized(postings, places * 2, choose),
        resized(starts, wordsFor(places) * 4, choose),
      ];
      changeBytes(choose(2) ? more : bits, choose);
      put(`${label}.postings`, more);
      put(`${label}.starts`, bits);
      const rare = JSON.parse(new TextDecoder().decode(sections.get(`${label}.rare`)!)) as unknown[];
      if (choose(3) === 0) changeJson(rare, choose);
      put(`${label}.rare`, choose(8) ? jsonBytes(rare) : get(oneOf(choose, names)));
    } else {
      // Hostile headers of words are among the inputs of test/fuzz/stored.ts.
      changed.words = new Uint8Array(changed.words);
      for (let more = choose(4); more > 0; more -= 1) changeBytes(changed.words, choose);
      if (choose(8) === 0) changed.words = resized(changed.words, choose(words.length * 2), choose);
    }
  }
  changed.header = choose(20) ? jsonBytes(json) : resized(header, choose(header.length * 2), choose);
  return changed;
}

/** What comes of a query, and how often others had a turn meanwhile. */
async function answer(
  parts: readonly IndexParts[],
  { search, by, skip }: { search: string; by: readonly FacetName[]; skip: number },
) {
  const { parseIndexHeader, readFilter, sectionsFor, openIndex, evaluate, countFacets } = evaluator;
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
    fc.asyncProperty(query, fc.nat(1), fc.gen(), async (query, place, gen) => {
      const choose = (below: number) => gen(anyBelow, Math.max(1, below));
      const parts = sound.map((part, index) => (index === place ? hostileParts(part, choose) : part));
      const found = await answer(parts, query);
      const { error, turns } = found;
      if (!error) answered += 1;
      // A bundle has a class of its own.
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

test("times that do not ascend are refused before months are counted", async () => {
  const sections = new Map(sound[0]!.sections);
  const times = new Uint8Array(sections.get("times")!);
  times.copyWithin(4 * 70, 4 * 60, 4 * 61);
  sections.set("times", times);
  const asked = { search: "", by: ["month"] as const, skip: 0 };
  const { error } = await answer([{ ...sound[0]!, sections }], asked);
  expect(error?.message).toBe("index 0: its section times does not ascend");
});

const atOnce = async () => {};

test("a reader fetches the sections that an answer needs, once", async () => {
  const { parseIndexHeader, readFilter, sectionsFor, openIndex, evaluate, countFacets } = evaluator;
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
    for (const limit of [0, 1.5, 1001])
      await expect(countFacets(index, found, ["tier"], limit, atOnce)).rejects.toThrow(
        "limit must be an integer from 1 to 1000",
      );
  }
});

test("times with other ends than their header says are told", async () => {
  const { parseIndexHeader, readFilter, openIndex, evaluate } = evaluator;
  const [{ header: bytes, sections }] = sound as [IndexParts];
  const header = parseIndexHeader("index", bytes);
  const filter = readFilter(`from=${new Date(header.newest).toISOString()}`);
  for (const ends of [{ oldest: header.oldest - 1 }, { newest: header.newest + 1 }]) {
    const segment = { header: { ...header, ...ends }, section: (name: string) => sections.get(name)! };
    await expect(evaluate(openIndex([segment], feedVersion), filter, atOnce)).rejects.toThrow(
      "its section times has other ends",
    );
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
