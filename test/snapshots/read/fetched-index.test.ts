import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { facetNames } from "../../../schemas/filters.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import {
  countFacets,
  evaluate,
  isLeftOut,
  openIndex,
  parseIndexHeader,
  readFilter,
  sectionsFor,
} from "../../../snapshots/read/fetched-index.ts";
import { combinations } from "../../helpers/archive/combinations.ts";
import { indexParts } from "../../helpers/archive/index-parts.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { plainFilter } from "../../helpers/archive/plain-filter.ts";
import { startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import type { Objects } from "../../helpers/store/tamper.ts";

/** Markets of two segments, in a store. */
async function twoSegments() {
  const [segmentEnd] = segmentEnds().take(1);
  const markets = recordsOf(0, 200).map((market, index) =>
    index === 90 ? { ...market, id: segmentEnd! } : market,
  );
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  await publishRecords(storage, markets);
  const parts = indexParts(objects);
  expect(parts).toHaveLength(2);
  return { markets, storage, parts };
}

const atOnce = async () => {};

let stored: Awaited<ReturnType<typeof twoSegments>>;
beforeAll(async () => {
  stored = await twoSegments();
});

test("headers, sections and words alone give the totals, facets and rows that the service gives", async () => {
  const { markets, storage, parts } = stored;
  const newestFirst = markets.toSorted((a, b) => (a.resolvedAt < b.resolvedAt ? 1 : -1));
  let needed = new Set<string>();
  const segments = parts.map(({ header, sections, words }, index) => ({
    header: parseIndexHeader(`index ${index}`, header),
    section(name: string) {
      expect(needed).toContain(`${index} ${name}`);
      return sections.get(name)!;
    },
    get words() {
      expect(needed).toContain(`${index} words`);
      return words;
    },
  }));
  const known = openIndex(segments, feedVersion);
  const proxy = await startArchiveProxy(storage);
  try {
    await fc.assert(
      fc.asyncProperty(
        combinations(markets),
        fc.subarray([...facetNames]),
        fc.boolean(),
        async ({ filters }, by, again) => {
          const query = new URLSearchParams();
          for (const [name, value] of Object.entries(filters)) query.set(name, String(value));
          const filter = readFilter(String(query));
          const names = segments.map(({ header }) => [
            ...sectionsFor(header, { ...filter, by }),
            ...(filter.words.length > 0 && !isLeftOut(header, filter.conditions) ? ["words"] : []),
          ]);
          needed = new Set(names.flatMap((all, index) => all.map((name) => `${index} ${name}`)));
          // What was read before is not read again.
          const index = again ? known : openIndex(segments, feedVersion);
          const found = await evaluate(index, filter, atOnce);
          const matching = plainFilter(markets, filters);
          expect(found.total).toBe(matching.length);
          const rows = found.slice(1, 50).map((ordinal) => newestFirst[markets.length - 1 - ordinal]!);
          const times = matching
            .map(({ resolvedAt }) => resolvedAt)
            .toSorted()
            .toReversed();
          expect(rows.map(({ resolvedAt }) => resolvedAt)).toEqual(times.slice(1, 51));
          if (by.length === 0) return;
          const told = await proxy.facets({ ...filters, by: by.join(), limit: 1000 });
          expect(await countFacets(index, found, by, 1000, atOnce)).toEqual(told.facets);
        },
      ),
      { numRuns: 60 },
    );
  } finally {
    await proxy.stop();
  }
});

test("a reader fetches the sections that an answer needs, once", async () => {
  const { parts } = stored;
  const read: string[] = [];
  const segments = parts.map(({ header, sections }, index) => ({
    header: parseIndexHeader(`index ${index}`, header),
    section(name: string) {
      read.push(`${index} ${name}`);
      return sections.get(name)!;
    },
  }));
  const [{ header }] = segments as [(typeof segments)[number]];
  const [oldest, newest] = [header.oldest, header.newest].map((time) => new Date(time).toISOString());
  const sectionsOf = (search: string, by: Parameters<typeof sectionsFor>[1]["by"] = []) =>
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

test("times with other ends than their header says are told", async () => {
  const [{ header: bytes, sections }] = stored.parts as [(typeof stored.parts)[number]];
  const header = parseIndexHeader("index", bytes);
  const filter = readFilter(`from=${new Date(header.newest).toISOString()}`);
  for (const ends of [{ oldest: header.oldest - 1 }, { newest: header.newest + 1 }]) {
    const segment = { header: { ...header, ...ends }, section: (name: string) => sections.get(name)! };
    await expect(evaluate(openIndex([segment], feedVersion), filter, atOnce)).rejects.toThrow(
      "its section times has other ends",
    );
  }
});

test("sections may begin anywhere in memory, and limits of facets are those of the service", async () => {
  const { markets, parts } = stored;
  const segments = parts.map(({ header, sections }, index) => ({
    header: parseIndexHeader(`index ${index}`, header),
    section(name: string) {
      const bytes = sections.get(name)!;
      const begin = [3, 5][index]!;
      const memory = new Uint8Array(begin + bytes.length);
      memory.set(bytes, begin);
      return memory.subarray(begin);
    },
  }));
  const index = openIndex(segments, feedVersion);
  const found = await evaluate(index, readFilter("category=crypto&min_composite=500"), atOnce);
  const facets = (limit: number) => countFacets(index, found, ["tier"], limit, atOnce);
  expect(found.total).toBe(plainFilter(markets, { category: "crypto", min_composite: 500 }).length);
  expect(await facets(1)).toMatchObject({ tier: { buckets: [{}] } });
  for (const limit of [0, 1.5, 1001])
    await expect(facets(limit)).rejects.toThrow("limit must be an integer from 1 to 1000");
});
