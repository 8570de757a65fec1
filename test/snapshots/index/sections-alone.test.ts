import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { facetNames } from "../../../schemas/filters.ts";
import { rootOf, treeHead } from "../../../snapshots/format/tree.ts";
import { rangeBitmap } from "../../../snapshots/index/bitmap.ts";
import { columnsFrom, createLabelTables, loadColumns } from "../../../snapshots/index/column-sections.ts";
import { Columns } from "../../../snapshots/index/columns.ts";
import { chunkLeaves } from "../../../snapshots/index/index-header.ts";
import { openSections, SectionTable } from "../../../snapshots/index/sections.ts";
import { readIndexHeader } from "../../../snapshots/index/segment.ts";
import { WordTable } from "../../../snapshots/index/word-table.ts";
import { countFacets } from "../../../snapshots/read/archive/count-facets.ts";
import { matchColumns } from "../../../snapshots/read/archive/match-columns.ts";
import { counted, Matches } from "../../../snapshots/read/archive/matches.ts";
import type { ArchiveFilter } from "../../../snapshots/read/query/filter.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { combinations } from "../../helpers/archive/combinations.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { plainFilter } from "../../helpers/archive/plain-filter.ts";
import { archiveQuery } from "../../helpers/archive/query.ts";
import { startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { newestManifest, type Objects } from "../../helpers/store/tamper.ts";

/** What a reader knows of a segment: its header. */
const Told = z.object({
  markets: z.int(),
  epochs: z.array(z.tuple([z.int(), z.int()])),
  columns: Columns,
  sections: z.record(z.string(), z.tuple([z.int(), z.string()])),
});
const atOnce = async () => {};

/** The index of a snapshot, made of nothing but index headers, the sections that they name, and words. */
function readerOf(objects: Objects) {
  const tables = createLabelTables();
  const segments = newestManifest(objects).segments.map(({ hash, words }) => {
    const stored = objects.get(layout.segment(hash))!;
    const { header, start } = openSections(
      "segment",
      stored,
      stored.toString("latin1", 0, 8),
      z.looseObject({ sections: SectionTable }),
    );
    const told = Told.parse(JSON.parse(String(readIndexHeader("segment", stored))));
    const section = (name: string, expectedBytes?: number) => {
      const [offset] = header.sections[name]!;
      const [bytes, root] = told.sections[name]!;
      const copy = new Uint8Array(stored.subarray(start + offset, start + offset + bytes));
      const leaves = chunkLeaves(name, copy);
      const sizes = { children: leaves.length, total: bytes };
      expect(rootOf("section", sizes, treeHead(leaves)).toString("hex")).toBe(root);
      if (expectedBytes !== undefined) expect(bytes).toBe(expectedBytes);
      return copy;
    };
    const columns = loadColumns(columnsFrom("segment", told, section), tables);
    return {
      ...columns,
      words: new WordTable("words", new Uint8Array(objects.get(layout.wordsOf(words.hash))!)),
    };
  });
  const starts = [0];
  for (const { markets } of segments) starts.push(starts.at(-1)! + markets);
  const columns = { segments, tables, starts, labelGeneration: 0 };
  return async ({ conditions, words }: ArchiveFilter) => {
    const matches = await matchColumns(columns, conditions, atOnce);
    const kept = matches.segments.map(async ({ markets, bits, count }, index) => {
      const left = bits?.slice() ?? rangeBitmap(markets, 0, count);
      await segments[index]!.words.keepWords(words, left, atOnce);
      return counted(markets, left);
    });
    const found = new Matches(await Promise.all(kept), starts);
    return { total: found.total, facets: await countFacets(columns, found, facetNames, 1000, atOnce) };
  };
}

test("headers, sections and words alone give the totals and facets that the service gives", async () => {
  const [segmentEnd] = segmentEnds().take(1);
  const markets = recordsOf(0, 200).map((market, index) =>
    index === 90 ? { ...market, id: segmentEnd! } : market,
  );
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  await publishRecords(storage, markets);
  expect(newestManifest(objects).segments).toHaveLength(2);
  const evaluate = readerOf(objects);
  const proxy = await startArchiveProxy(storage);
  try {
    await fc.assert(
      fc.asyncProperty(combinations(markets), async ({ filters }) => {
        const query = new URLSearchParams();
        for (const [name, value] of Object.entries(filters)) query.set(name, String(value));
        const recomputed = await evaluate(archiveQuery(String(query)).filter);
        expect(recomputed.total).toBe(plainFilter(markets, filters).length);
        const { total, facets } = await proxy.facets({ ...filters, by: facetNames.join(), limit: 1000 });
        expect(recomputed).toEqual({ total, facets });
      }),
      { numRuns: 60 },
    );
  } finally {
    await proxy.stop();
  }
});
