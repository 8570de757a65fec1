import { LRUCache } from "lru-cache";
import { filterFields, filterValuesOf } from "../../schemas/filters.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import type { SegmentRef } from "../../schemas/store/stored-objects.ts";
import { firstWhere } from "../format/first-where.ts";
import { idOfLine, keyOfLine, type MarketLine, textOf } from "../format/market-line.ts";
import { type Page, readRun } from "../format/page.ts";
import { cuts } from "../format/sizes.ts";
import { timeAt } from "../index/columns.ts";
import { decodeWords, unicodeVersion } from "../index/encode-words.ts";
import { decodeIds, requireIds } from "../index/id-table.ts";
import type { IndexRow } from "../index/index-header.ts";
import { fieldsIn, foreignIn, readTimes } from "../index/index-reader.ts";
import { decodeRows, openColumns, readPages } from "../index/segment.ts";
import { WordTable, wordsOf } from "../index/word-table.ts";
import { FormatError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

export interface PreviousSegment {
  ref: SegmentRef;
  /** Ordinal of its oldest market in the whole archive. */
  start: number;
  /** Whether it has a column for every filter of this version, and no other. */
  indexed: boolean;
  pages: readonly PreviousPage[];
}

/** A page with the epoch milliseconds of its oldest and its newest row. */
type TimedPage = Page & { oldest: number; newest: number };

/** A page of the current snapshot. Nothing else is the same object: it stands for these very rows. */
export interface PreviousPage extends TimedPage {
  /** Ordinal of its oldest row. */
  start: number;
  /** Whether the store has it. A deleted page must be written again. */
  usable: boolean;
  /**
   * Whether the id of its newest row would end a segment wherever that began; undefined when the page boundaries do not
   * tell.
   */
  endsSegment: boolean | undefined;
}

/** What a segment tells of its pages, from the oldest. */
export interface PageTable extends Pick<PreviousSegment, "indexed"> {
  pages: readonly TimedPage[];
}

/** Throws FormatError where a newer program made an index that this one would lose. */
export function readPageTable(key: string, stored: Buffer): PageTable {
  const source = openColumns(key, stored);
  const unknown = foreignIn(source.columns);
  if (unknown.length > 0) {
    const reason =
      `it has columns that this version does not know (${unknown.join(", ")}), and would not have any ` +
      "more";
    throw new FormatError(key, `${reason}: use a newer version of this program`);
  }
  const times = readTimes(source);
  let end = 0;
  const pages = readPages(key, stored).map((page) => {
    end += page.markets;
    return { ...page, oldest: timeAt(times, end - page.markets), newest: timeAt(times, end - 1) };
  });
  const names = new Set<string>(fieldsIn(source.columns).map(({ field }) => field));
  const indexed = names.size === filterFields.length && filterFields.every(({ field }) => names.has(field));
  return { indexed, pages };
}

/** Those of a manifest's segments whose table is known. `present` are the pages that the store has. */
export function placeSegments(
  refs: readonly SegmentRef[],
  tables: ReadonlyMap<SegmentRef, PageTable>,
  present: ReadonlyMap<string, number>,
): PreviousSegment[] {
  let end = 0;
  return refs.flatMap((ref, place) => {
    const start = end;
    end += ref.markets;
    const table = tables.get(ref);
    if (!table) return [];
    let pageEnd = start;
    const pages = table.pages.map((page, index): PreviousPage => {
      pageEnd += page.markets;
      const usable = present.has(layout.page(page.hash));
      // The archive's last page may end without a cut, and a large segment may end because of its size.
      const last = index === table.pages.length - 1;
      const unknown = last && (place === refs.length - 1 || ref.markets + cuts.pageMax > cuts.segmentMax);
      return { ...page, start: pageEnd - page.markets, usable, endsSegment: unknown ? undefined : last };
    });
    return [{ ref, start, indexed: table.indexed, pages }];
  });
}

/**
 * Bytes of cached lines of pages. A page that changes is read to be compared and to be merged, and the rows of a
 * rewritten page mostly come from one or two old pages.
 */
const keptLineBytes = 64 * 1024 * 1024;
const keptSegments = 2;

/** A row as the objects of a segment have it. `digest` is that of its source row. */
export interface StoredRow extends IndexRow {
  digest: bigint;
  idHash: number;
  words: readonly string[];
}

/** All rows of a segment, by ordinal. */
interface StoredRows {
  /** Undefined where the segment has no column for a filter of this version. */
  rows: IndexRow[] | undefined;
  digests: BigUint64Array;
  idHashes: Uint32Array;
  /** Undefined where another version of Unicode made them: one object must not mix two. */
  words: string[][] | undefined;
}

export interface OldMarket extends MarketLine {
  ordinal: number;
}

/** Reads rows of the current snapshot. */
export class PreviousRows {
  /** From the oldest. */
  readonly pages: readonly PreviousPage[];
  readonly #storage: Storage;
  readonly #segments: readonly PreviousSegment[];
  readonly #lines = new LRUCache<PreviousPage, Buffer[]>({
    maxSize: keptLineBytes,
    sizeCalculation: (lines) => lines.reduce((sum, { length }) => sum + length, 0),
  });
  readonly #rows = new LRUCache<PreviousSegment, StoredRows>({ max: keptSegments });

  constructor(storage: Storage, segments: readonly PreviousSegment[]) {
    this.#storage = storage;
    this.#segments = segments;
    this.pages = segments.flatMap(({ pages }) => pages);
  }

  /** The page of a row, given by ordinal. */
  pageAt(ordinal: number): PreviousPage {
    const { pages } = this;
    return pages[firstWhere(1, pages.length, (index) => pages[index]!.start > ordinal) - 1]!;
  }

  /** From the oldest. */
  async marketsOf(page: PreviousPage): Promise<OldMarket[]> {
    const lines = await this.#linesOf(page);
    return lines
      .toReversed()
      .map((line, position) => ({ ...keyOfLine(line), ordinal: page.start + position, line }));
  }

  async row(ordinal: number): Promise<StoredRow> {
    const segment = this.#segments.findLast(({ start }) => start <= ordinal)!;
    let read = this.#rows.get(segment);
    if (!read) {
      const { ref, indexed } = segment;
      const key = layout.segment(ref.hash);
      const rows = indexed ? decodeRows(key, await readObject(this.#storage, key, ref)) : undefined;
      const idHashes = decodeIds(await this.readIds(ref));
      const digests = await this.readDigests(ref);
      read = { rows, digests, idHashes, words: await this.#wordsOf(ref) };
      this.#rows.set(segment, read);
    }
    const position = ordinal - segment.start;
    const { rows, digests, idHashes } = read;
    const words = read.words?.[position] ?? wordsOf(textOf(await this.#lineOf(ordinal), "question"));
    const row = rows?.[position] ?? indexRowOf(await this.#lineOf(ordinal));
    return { ...row, digest: digests[position]!, idHash: idHashes[position]!, words };
  }

  async idOf(ordinal: number): Promise<string> {
    return idOfLine(await this.#lineOf(ordinal));
  }

  /** The ids object of a segment. */
  async readIds({ ids, markets }: SegmentRef): Promise<Buffer> {
    const key = layout.ids(ids.hash);
    const bytes = await readObject(this.#storage, key, ids);
    requireIds(key, bytes, markets);
    return bytes;
  }

  /** Digests of the source rows of a segment, by ordinal. */
  async readDigests({ rows }: SegmentRef): Promise<BigUint64Array> {
    const bytes = await readObject(this.#storage, layout.rows(rows.hash), rows);
    return new BigUint64Array(new Uint8Array(bytes).buffer);
  }

  async #wordsOf({ words }: SegmentRef): Promise<string[][] | undefined> {
    const key = layout.words(words.hash);
    const table = new WordTable(key, await readObject(this.#storage, key, words));
    return table.unicode === unicodeVersion ? decodeWords(table) : undefined;
  }

  /** Newest first. */
  async #linesOf(page: PreviousPage): Promise<Buffer[]> {
    const known = this.#lines.get(page);
    if (known) return known;
    const key = layout.page(page.hash);
    const stored = await readObject(this.#storage, key, page);
    const lines = page.runs.flatMap((_, run) => readRun(key, stored, page.runs, run));
    this.#lines.set(page, lines);
    return lines;
  }

  async #lineOf(ordinal: number): Promise<Buffer> {
    const page = this.pageAt(ordinal);
    return (await this.#linesOf(page))[page.start + page.markets - 1 - ordinal]!;
  }
}

function indexRowOf(line: Buffer): IndexRow {
  const market: HistoricalMarket = JSON.parse(line.toString("utf8"));
  return { resolvedAt: Date.parse(market.resolvedAt), values: filterValuesOf(market) };
}
