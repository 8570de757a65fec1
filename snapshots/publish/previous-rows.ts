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
  firstPage: number;
  /** Whether it has a column for every filter of this version, and no other. */
  indexed: boolean;
  pages: (Page & Span)[];
}

/** Epoch milliseconds of the oldest and the newest row. */
interface Span {
  oldest: number;
  newest: number;
}

export interface PreviousPage extends Span {
  page: Page;
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

/** Throws FormatError where a newer program made an index that this one would lose. */
export function readPreviousPages(key: string, stored: Buffer): Pick<PreviousSegment, "indexed" | "pages"> {
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

/** `present` are the objects that the store has; the whole archive has `markets` markets. */
export function placePages(
  segments: readonly PreviousSegment[],
  present: ReadonlyMap<string, number>,
  markets: number,
): PreviousPage[] {
  return segments.flatMap(({ ref, start, pages }) => {
    let end = start;
    return pages.map(({ oldest, newest, ...page }, index) => {
      end += page.markets;
      const usable = present.has(layout.page(page.hash));
      // The archive's last page may end without a cut, and a large segment may end because of its size.
      const last = index === pages.length - 1;
      const unknown = last && (end === markets || ref.markets + cuts.pageMax > cuts.segmentMax);
      return {
        page,
        start: end - page.markets,
        usable,
        oldest,
        newest,
        endsSegment: unknown ? undefined : last,
      };
    });
  });
}

/** The pages of one segment, out of all `pages`. */
export function pagesIn(
  { firstPage, pages: own }: PreviousSegment,
  pages: readonly PreviousPage[],
): readonly PreviousPage[] {
  return pages.slice(firstPage, firstPage + own.length);
}

export function pageIndexOf(pages: readonly PreviousPage[], ordinal: number): number {
  return firstWhere(1, pages.length, (index) => pages[index]!.start > ordinal) - 1;
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

/** Finds rows of the current snapshot by the places of its segments and pages. */
export class PreviousRows {
  readonly #storage: Storage;
  readonly #segments: readonly PreviousSegment[];
  readonly #pages: readonly PreviousPage[];
  readonly #lines = new LRUCache<number, Buffer[]>({
    maxSize: keptLineBytes,
    sizeCalculation: (lines) => lines.reduce((sum, { length }) => sum + length, 0),
  });
  readonly #rows = new LRUCache<number, StoredRows>({ max: keptSegments });

  constructor(storage: Storage, segments: readonly PreviousSegment[], pages: readonly PreviousPage[]) {
    this.#storage = storage;
    this.#segments = segments;
    this.#pages = pages;
  }

  /** From the oldest. */
  async marketsOf(index: number): Promise<OldMarket[]> {
    const { start } = this.#pages[index]!;
    const lines = await this.pageLines(index);
    return lines
      .toReversed()
      .map((line, position) => ({ ...keyOfLine(line), ordinal: start + position, line }));
  }

  /** Newest first. */
  async pageLines(index: number): Promise<Buffer[]> {
    const known = this.#lines.get(index);
    if (known) return known;
    const { page } = this.#pages[index]!;
    const key = layout.page(page.hash);
    const stored = await readObject(this.#storage, key, page);
    const lines = page.runs.flatMap((_, run) => readRun(key, stored, page.runs, run));
    this.#lines.set(index, lines);
    return lines;
  }

  async row(ordinal: number): Promise<StoredRow> {
    const index = this.#segments.findLastIndex(({ start }) => start <= ordinal);
    const { ref, start, indexed } = this.#segments[index]!;
    let segment = this.#rows.get(index);
    if (!segment) {
      const key = layout.segment(ref.hash);
      const rows = indexed ? decodeRows(key, await readObject(this.#storage, key, ref)) : undefined;
      const idsKey = layout.ids(ref.ids.hash);
      const ids = await readObject(this.#storage, idsKey, ref.ids);
      requireIds(idsKey, ids, ref.markets);
      const digests = await readDigests(this.#storage, ref);
      segment = { rows, digests, idHashes: decodeIds(ids), words: await this.#wordsOf(ref) };
      this.#rows.set(index, segment);
    }
    const position = ordinal - start;
    const { rows, digests, idHashes } = segment;
    const words = segment.words?.[position] ?? wordsOf(textOf(await this.#lineOf(ordinal), "question"));
    const row = rows?.[position] ?? indexRowOf(await this.#lineOf(ordinal));
    return { ...row, digest: digests[position]!, idHash: idHashes[position]!, words };
  }

  async idOf(ordinal: number): Promise<string> {
    return idOfLine(await this.#lineOf(ordinal));
  }

  async #wordsOf({ words }: SegmentRef): Promise<string[][] | undefined> {
    const key = layout.words(words.hash);
    const table = new WordTable(key, await readObject(this.#storage, key, words));
    return table.unicode === unicodeVersion ? decodeWords(table) : undefined;
  }

  async #lineOf(ordinal: number): Promise<Buffer> {
    const index = pageIndexOf(this.#pages, ordinal);
    const { page, start } = this.#pages[index]!;
    return (await this.pageLines(index))[start + page.markets - 1 - ordinal]!;
  }
}

function indexRowOf(line: Buffer): IndexRow {
  const market: HistoricalMarket = JSON.parse(line.toString("utf8"));
  return { resolvedAt: Date.parse(market.resolvedAt), values: filterValuesOf(market) };
}

/** Digests of the source rows of a segment, by ordinal. */
export async function readDigests(storage: Storage, { rows }: SegmentRef): Promise<BigUint64Array> {
  const bytes = await readObject(storage, layout.rows(rows.hash), rows);
  return new BigUint64Array(new Uint8Array(bytes).buffer);
}
