import type { MarketFacets } from "../../schemas/envelopes.ts";
import {
  type Condition,
  type FacetName,
  type FilterField,
  facetLimit,
  filterFields,
  filterNames,
} from "../../schemas/filters.ts";
import { rangeBitmap } from "../index/bitmap.ts";
import {
  type ColumnSource,
  createLabelTables,
  type LabelTables,
  loadLabels,
  readIntegers,
  readLabels,
  readTimes,
  type SegmentColumns,
} from "../index/column-sections.ts";
import { fieldOf, sectionsOf } from "../index/columns.ts";
import type { IndexHeader } from "../index/header-reader.ts";
import type { TimeColumn } from "../index/time-column.ts";
import { WordTable } from "../index/word-table.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { countFacets } from "./archive/count-facets.ts";
import { matchColumns } from "./archive/match-columns.ts";
import { counted, Matches } from "./archive/matches.ts";
import { invalidParameter } from "./errors.ts";
import { type ArchiveFilter, parseFacetNames, parseFilter } from "./query/filter.ts";
import { readParameters } from "./query/parameters.ts";

// Answers a query over sections of the index, in a reader's hands as in the proxy. Nothing here needs Node or a
// library, and nothing hashes: the caller has checked the sections against their roots. Their owner may be hostile all
// the same, so bytes that no segment has throw a CorruptObjectError that names the section.

export { parseIndexHeader } from "../index/header-reader.ts";
export { csvHead, csvOf } from "./archive/csv.ts";
export { isSelected } from "./archive/is-selected.ts";
export { parseFacetNames } from "./query/filter.ts";
export type { ArchiveFilter, IndexHeader };

/** The index of a segment, as far as it is at hand. */
export interface SegmentIndex {
  header: IndexHeader;
  /** Only for sections that sectionsFor named. */
  section(name: string): Uint8Array;
  /** The words object, which a filter with words needs. */
  words?: Uint8Array | undefined;
}

/** Waits for the caller's turn to do this many steps of 0.05 to 0.15 ms. */
type Turn = (steps?: number) => Promise<void>;

/** Takes the text of a query that has nothing but filters. */
export function readFilter(search: string): ArchiveFilter {
  return parseFilter(readParameters(search, filterNames));
}

/** The query's times exclude all markets of a segment, so nothing of its index is needed. */
export function isLeftOut({ oldest, newest }: IndexHeader, conditions: readonly Condition[]): boolean {
  return conditions.some(
    (condition) => condition.kind === "time" && (condition.from > newest || condition.to < oldest),
  );
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
  // Every count says how many of the markets were disputed.
  if (by.length > 0) fields.add("disputed");
  // Columns that a segment lacks are named when the filter is evaluated.
  const rows = filterFields.filter((row) => fields.has(row.field) && columnOf(header, row));
  return [
    ...(cut || by.includes("month") ? ["times"] : []),
    ...rows.flatMap(({ field, kind }) => sectionsOf({ name: field, kind })),
  ];
}

const columnOf = ({ columns }: IndexHeader, row: FilterField) =>
  columns.find((column) => fieldOf(column) === row);

/** The markets that a filter selects. */
export class Evaluation {
  readonly total: number;
  readonly #index: LoadedIndex;
  readonly #matches: Matches;
  readonly #turn: Turn;

  constructor(index: LoadedIndex, matches: Matches, turn: Turn) {
    this.#index = index;
    this.#matches = matches;
    this.#turn = turn;
    this.total = matches.total;
  }

  async facets(
    by: readonly FacetName[],
    limit: number = facetLimit.otherwise,
  ): Promise<MarketFacets["facets"]> {
    const names = parseFacetNames(by.join());
    if (!(Number.isInteger(limit) && limit >= 1 && limit <= facetLimit.max))
      throw invalidParameter("limit", `limit must be an integer from 1 to ${facetLimit.max}.`);
    const matched = this.#index.segments.filter((_, index) => this.#matches.segments[index]!.count > 0);
    for (const segment of matched) segment.load(["disputed", ...names]);
    return countFacets(this.#index, this.#matches, names, limit, this.#turn);
  }

  /** Ordinals over the whole archive, newest first: up to `count` after the first `skip`. */
  ordinals(skip: number, count: number): number[] {
    return this.#matches.slice(skip, count);
  }
}

/**
 * Segments come from the oldest. What was read of their sections is kept for as long as `segments` is, so that the next
 * filter over the same segments is faster. Throws INVALID_PARAMETER where the index has no column of a condition, and
 * CorruptObjectError.
 */
export async function evaluate(
  segments: readonly SegmentIndex[],
  { conditions, words }: Pick<ArchiveFilter, "conditions" | "words">,
  turn: Turn = async () => {},
): Promise<Evaluation> {
  const index = loaded.get(segments) ?? new LoadedIndex(segments);
  loaded.set(segments, index);
  const fields = conditions.flatMap((condition) => (condition.kind === "time" ? [] : condition.field));
  for (const segment of index.segments) if (!segment.isLeftOut(conditions)) segment.load(fields);
  let matches = await matchColumns(index, conditions, turn);
  if (words.length > 0) {
    const kept = [];
    for (const [position, { markets, count, bits }] of matches.segments.entries()) {
      const left = bits ?? rangeBitmap(markets, 0, count);
      if (count > 0) await index.segments[position]!.words.keepWords(words, left, turn);
      kept.push(counted(markets, left));
    }
    matches = new Matches(kept, index.starts);
  }
  return new Evaluation(index, matches, turn);
}

const loaded = new WeakMap<readonly SegmentIndex[], LoadedIndex>();

/** Reads columns only when they are asked for. */
class LoadedIndex {
  readonly segments: readonly LoadedSegment[];
  readonly tables: LabelTables = createLabelTables();
  readonly starts: readonly number[];
  readonly labelGeneration = 0;

  constructor(segments: readonly SegmentIndex[]) {
    this.segments = segments.map((segment) => new LoadedSegment(segment, this.tables));
    const starts = [0];
    for (const { markets } of this.segments) starts.push(starts.at(-1)! + markets);
    this.starts = starts;
  }
}

/** Reads columns only when they are asked for. */
class LoadedSegment implements SegmentColumns {
  readonly markets: number;
  readonly times: TimeColumn;
  readonly integers: SegmentColumns["integers"] = new Map();
  readonly labels: SegmentColumns["labels"] = new Map();
  readonly #index: SegmentIndex;
  readonly #tables: LabelTables;
  #words: WordTable | undefined;

  constructor(index: SegmentIndex, tables: LabelTables) {
    this.#index = index;
    this.#tables = tables;
    this.markets = index.header.markets;
    this.times = new LazyTimes(this.#source, index.header);
  }

  isLeftOut(conditions: readonly Condition[]): boolean {
    return isLeftOut(this.#index.header, conditions);
  }

  /** Months need no column. */
  load(fields: readonly FacetName[]): void {
    for (const row of filterFields) if (fields.includes(row.field)) this.#load(row);
  }

  get words(): WordTable {
    const { header, words } = this.#index;
    if (!words) throw new Error(`the words of ${header.key} are missing`);
    this.#words ??= new WordTable(`${header.key}.words`, words);
    if (this.#words.markets !== header.markets)
      throw new CorruptObjectError(header.key, `its words are of ${this.#words.markets} markets`);
    return this.#words;
  }

  #load(row: FilterField): void {
    if (this.integers.has(row.field as never) || this.labels.has(row.field as never)) return;
    const column = columnOf(this.#index.header, row);
    if (!column)
      throw invalidParameter(row.field, `The archive has no index for ${row.field}; leave it out.`);
    if (row.kind === "integer") this.integers.set(row.field, readIntegers(this.#source, row));
    else {
      const labels = readLabels(this.#source, row.field, column);
      this.labels.set(row.field, loadLabels(labels, this.markets, this.#tables[row.field]));
    }
  }

  get #source(): ColumnSource {
    const { header } = this.#index;
    const { key, markets } = header;
    const section = (name: string, expectedBytes = header.sections[name]![0]) => {
      const bytes = this.#index.section(name);
      if (bytes.length !== expectedBytes)
        throw new CorruptObjectError(
          key,
          `its section ${name} has ${bytes.length} bytes, not ${expectedBytes}`,
        );
      return bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
    };
    return { key, markets, section };
  }
}

/** Reads the times only when the ends of the segment do not suffice. */
class LazyTimes implements TimeColumn {
  readonly markets: number;
  readonly oldest: number;
  readonly newest: number;
  readonly epochs: TimeColumn["epochs"];
  readonly #source: ColumnSource;
  #low: Uint32Array | undefined;

  constructor(source: ColumnSource, { markets, oldest, newest, epochs }: IndexHeader) {
    this.#source = source;
    this.markets = markets;
    this.oldest = oldest;
    this.newest = newest;
    this.epochs = epochs;
  }

  get low(): Uint32Array {
    if (this.#low) return this.#low;
    const { low, oldest, newest } = readTimes(this.#source, this.epochs);
    if (oldest !== this.oldest || newest !== this.newest)
      throw new CorruptObjectError(this.#source.key, "its section times has other ends than its header");
    this.#low = low;
    return low;
  }
}
