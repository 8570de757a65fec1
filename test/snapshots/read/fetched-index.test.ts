import { beforeAll, expect, test } from "vitest";
import { feedVersion } from "../../../schemas/versions.ts";
import {
  countFacets,
  evaluate,
  openIndex,
  parseIndexHeader,
  readFilter,
  sectionsFor,
} from "../../../snapshots/read/fetched-index.ts";
import { type IndexParts, indexParts } from "../../helpers/archive/index-parts.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import type { Objects } from "../../helpers/store/tamper.ts";

const atOnce = async () => {};

const [segmentEnd] = segmentEnds().take(1);
/** Markets of two segments. */
const markets = recordsOf(0, 200).map((market, n) => (n === 90 ? { ...market, id: segmentEnd! } : market));
let parts: IndexParts[];
beforeAll(async () => {
  const objects: Objects = new Map();
  await publishRecords(memoryStorage(objects), markets);
  parts = indexParts(objects);
  expect(parts).toHaveLength(2);
});

test("a reader fetches the sections that an answer needs, once", async () => {
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
    for (const limit of [0, 1.5, 1001])
      await expect(countFacets(index, found, ["tier"], limit, atOnce)).rejects.toThrow(
        "limit must be an integer from 1 to 1000",
      );
  }
});

test("times with other ends than their header says are told", async () => {
  const [{ header: bytes, sections }] = parts as [IndexParts];
  const header = parseIndexHeader("index", bytes);
  const filter = readFilter(`from=${new Date(header.newest).toISOString()}`);
  for (const ends of [{ oldest: header.oldest - 1 }, { newest: header.newest + 1 }]) {
    const segment = { header: { ...header, ...ends }, section: (name: string) => sections.get(name)! };
    await expect(evaluate(openIndex([segment], feedVersion), filter, atOnce)).rejects.toThrow(
      "its section times has other ends",
    );
  }
});
