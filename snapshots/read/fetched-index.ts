import { type Condition, type FacetName, feedFields, filterNames, foldCase } from "../../schemas/filters.ts";
import type { Market } from "../../schemas/market.ts";
import { isKnownFeed } from "../../schemas/versions.ts";
import type { TimeColumn } from "../index/columns.ts";
import {
  type ColumnSource,
  createLabelTables,
  fieldsIn,
  type IndexHeader,
  type LabelTables,
  loadColumn,
  readTimes,
  type SegmentColumns,
  sectionsOf,
} from "../index/index-reader.ts";
import { isSettled, WordTable, wordsOf } from "../index/word-table.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { ArchiveIndex, isLeftOut, type Matches } from "./archive/evaluate.ts";
import { type ArchiveFilter, parseFilter, readParameters } from "./parameters.ts";

// Answers a query over sections of the index, in a reader's hands as in the proxy. Nothing here needs Node or a
// library, and nothing hashes: the caller has checked the sections against their roots. Their owner may be hostile all
// the same, so bytes that no segment has throw a CorruptObjectError that names the section.

export { parseIndexHeader } from "../index/index-reader.ts";
export { countFacets } from "./archive/count-facets.ts";
export { csvHead, csvOf } from "./archive/csv.ts";
export { evaluate, isLeftOut } from "./archive/evaluate.ts";
export { parseFacetNames } from "./parameters.ts";
export type { ArchiveFilter, ArchiveIndex, IndexHeader, Matches };

/** The index of a segment, as far as it is at hand. */
export interface SegmentIndex {
  header: IndexHeader;
  /** Only for sections that sectionsFor named. */
  section(name: string): Uint8Array;
  /** The words object, which a filter with words needs. */
  words?: Uint8Array | undefined;
}

/** Takes the text of a query that has nothing but filters. */
export function readFilter(search: string): ArchiveFilter {
  return parseFilter(readParameters(search, filterNames));
}

/** The sections of a segment that an answer needs: those that its conditions read, and those that facets count. */
export function sectionsFor(
  header: IndexHeader,
  { conditions, by = [] }: { conditions: readonly Condition[]; by?: readonly FacetName[] },
): string[] {
  if (isLeftOut(header, conditions)) return [];
  const { oldest, newest } = header;
  const cut = conditions.some(
    (condition) => condition.kind === "time" && (condition.from > oldest || condition.to < newest),
  );
  const fields = new Set(
    conditions.flatMap((condition) => (condition.kind === "time" ? [] : condition.field)),
  );
  for (const name of by) if (name !== "month") fields.add(name);
  if (by.length > 0) fields.add("disputed");
  // Columns that a segment lacks are named when the filter is evaluated.
  const rows = fieldsIn(header.columns).filter(({ field }) => fields.has(field));
  return [
    ...(cut || by.includes("month") ? ["times"] : []),
    ...rows.flatMap(({ field, kind }) => sectionsOf({ name: field, kind })),
  ];
}

/** The index of an archive, whose columns and words are read when they are first needed, and kept. */
export function openIndex(segments: readonly SegmentIndex[], version: string): ArchiveIndex {
  const tables = createLabelTables();
  const words: WordTable[] = [];
  return new ArchiveIndex(
    segments.map((segment) => columnsOf(segment, tables)),
    tables,
    {
      name: "The archive",
      version,
      words: async (index) => (words[index] ??= wordsIn(segments[index]!)),
    },
  );
}

function columnsOf(segment: SegmentIndex, tables: LabelTables): SegmentColumns {
  const { header } = segment;
  const source = sourceOf(segment);
  const fields = fieldsIn(header.columns);
  const unread = new Set(fields);
  const columns: SegmentColumns = {
    markets: header.markets,
    fields,
    times: timesOf(source, header),
    integers: new Map(),
    labels: new Map(),
    load(names) {
      for (const row of unread) {
        if (!names.includes(row.field)) continue;
        loadColumn(columns, source, row, tables);
        unread.delete(row);
      }
    },
  };
  return columns;
}

function sourceOf(segment: SegmentIndex): ColumnSource {
  const { key, markets, epochs, columns, sections } = segment.header;
  const section = (name: string, expectedBytes = sections[name]![0]) => {
    const bytes = segment.section(name);
    if (bytes.length !== expectedBytes)
      throw new CorruptObjectError(
        key,
        `its section ${name} has ${bytes.length} bytes, not ${expectedBytes}`,
      );
    return bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  };
  return { key, markets, epochs, columns, section };
}

/** Reads the times only when the ends of the segment do not suffice. */
function timesOf(source: ColumnSource, { markets, oldest, newest, epochs }: IndexHeader): TimeColumn {
  let read: TimeColumn | undefined;
  return {
    markets,
    oldest,
    newest,
    epochs,
    get low() {
      read ??= readTimes(source);
      if (read.oldest !== oldest || read.newest !== newest)
        throw new CorruptObjectError(source.key, "its section times has other ends than its header");
      return read.low;
    },
  };
}

function wordsIn({ header, words }: SegmentIndex): WordTable {
  if (!words) throw new Error(`the words of ${header.key} are missing`);
  const table = new WordTable(`${header.key}.words`, words);
  if (table.markets !== header.markets)
    throw new CorruptObjectError(header.key, `its words are of ${table.markets} markets`);
  return table;
}

/** The conditions that a record of a version of the feed can be judged by. A later one may have other values. */
export const judgedIn = (version: string, conditions: readonly Condition[]) =>
  isKnownFeed(version) ? conditions : conditions.filter(({ kind }) => kind === "time");

/**
 * Judges a market by its record alone. `version` is that of the feed it came from. Skips the words when versions of
 * Unicode may split its question differently, and the fields when this program does not know the version.
 */
export function isSelected(
  market: Market,
  { conditions, words }: Pick<ArchiveFilter, "conditions" | "words">,
  version: string,
): boolean {
  if (!judgedIn(version, conditions).every((condition) => meets(market, condition, version))) return false;
  if (words.length === 0 || !isSettled(market.question)) return true;
  const own = wordsOf(market.question);
  return words.every(({ text, prefix }) =>
    own.some((word) => (prefix ? word.startsWith(text) : word === text)),
  );
}

function meets(market: Market, condition: Condition, version: string): boolean {
  if (condition.kind === "time") {
    const time = Date.parse(market.resolvedAt);
    return condition.from <= time && time <= condition.to;
  }
  const row = feedFields(version).find(({ field }) => field === condition.field)!;
  if (condition.kind === "integer") {
    const value = Number(row.of(market));
    return condition.ranges.some(({ min, max }) => min <= value && value <= max);
  }
  const [own, wanted] = [String(row.of(market)), condition.value];
  return row.kind === "label" && row.fold ? foldCase(own) === foldCase(wanted) : own === wanted;
}
