import { LRUCache } from "lru-cache";
import { filterFields, filterValuesOf } from "../../schemas/filters.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import type { SegmentRef } from "../../schemas/store/stored-objects.ts";
import { cuts, firstWhere } from "../format/bytes.ts";
import type { DeflatePiece } from "../format/gzip.ts";
import { idOfLine, type MarketLine, marketOfLine } from "../format/market-line.ts";
import {
  type Page,
  type Run,
  readRun,
  readRunTable,
  runMarkets,
  runsPiece,
  runTable,
} from "../format/page.ts";
import { timeAt } from "../index/columns.ts";
import { addWords, type Postings, unicodeVersion } from "../index/encode-words.ts";
import { decodeIds, requireIds } from "../index/id-table.ts";
import { columnsOf, type IndexColumns, type IndexRow } from "../index/index-header.ts";
import { fieldsIn, foreignIn, readTimes } from "../index/index-reader.ts";
import { decodeColumns, openColumns, readPages } from "../index/segment.ts";
import { WordTable, wordsOf } from "../index/word-table.ts";
import { FormatError } from "../store/errors.ts";
import { parseJson } from "../store/json.ts";
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

/** The runs of a page, packed: those of most pages are never needed, and as objects would take half of its memory. */
class PageRuns implements Pick<Page, "runs" | "runHashes"> {
  readonly #table: string;
  readonly #hashes: string;

  constructor({ runs, runHashes }: Page) {
    this.#table = Buffer.from(runTable(runs).buffer).toString("latin1");
    this.#hashes = Buffer.from(runHashes, "hex").toString("latin1");
  }

  get runs(): Run[] {
    return readRunTable(Buffer.from(this.#table, "latin1"));
  }

  get runHashes(): string {
    return Buffer.from(this.#hashes, "latin1").toString("hex");
  }
}

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

export type PageTable = ReturnType<typeof readPageTable>;

/**
 * What a segment tells of its pages, from the oldest. Throws FormatError where a newer program made an index that this
 * one would lose.
 */
export function readPageTable(key: string, stored: Buffer) {
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
  const pages = readPages(key, stored).map((page): TimedPage => {
    end += page.markets;
    const { markets, hash, bytes, root } = page;
    const [oldest, newest] = [timeAt(times, end - markets), timeAt(times, end - 1)];
    return Object.assign(new PageRuns(page), { markets, hash, bytes, root, oldest, newest });
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
      const start = pageEnd - page.markets;
      return Object.assign(page, { start, usable, endsSegment: unknown ? undefined : last });
    });
    return [{ ref, start, indexed: table.indexed, pages }];
  });
}

/** The lines of a page, newest first, and the bytes that they were read from. */
interface ReadPage {
  stored: Buffer;
  lines: readonly Buffer[];
}

/**
 * Bytes of cached pages. A page that changes is read to be compared and to be merged, and the rows of a rewritten page
 * mostly come from one or two old pages.
 */
const keptPageBytes = 64 * 1024 * 1024;
const keptSegments = 2;

/** What a segment has of its markets, by ordinal. `digests` are those of their source rows. */
export interface RowColumns {
  digests: ArrayLike<bigint>;
  idHashes: ArrayLike<number>;
  index: IndexColumns;
}

/** A segment of the current snapshot, whose first row is `start`. */
export interface StoredRows extends RowColumns {
  start: number;
  words: () => Iterable<readonly [word: string, ordinals: readonly number[]]>;
}

export interface OldMarket extends MarketLine {
  ordinal: number;
}

export function previousRows(storage: Storage, segments: readonly PreviousSegment[]) {
  /** From the oldest. */
  const pages = segments.flatMap((segment) => segment.pages);
  const readPages = new LRUCache<PreviousPage, ReadPage>({
    maxSize: keptPageBytes,
    sizeCalculation: ({ stored, lines }) => lines.reduce((sum, { length }) => sum + length, stored.length),
  });
  const readRows = new LRUCache<PreviousSegment, StoredRows>({ max: keptSegments });

  function pageAt(ordinal: number): PreviousPage {
    return pages[firstWhere(1, pages.length, (index) => pages[index]!.start > ordinal) - 1]!;
  }

  /** From the oldest. */
  async function marketsOf(page: PreviousPage): Promise<OldMarket[]> {
    const { lines } = await readPage(page);
    return lines.toReversed().map((line, position) => ({
      ...marketOfLine(layout.page(page.hash), line),
      ordinal: page.start + position,
    }));
  }

  /** The rows of the segment that has this one. */
  async function storedWith(ordinal: number): Promise<StoredRows> {
    const segment = segments.findLast(({ start }) => start <= ordinal)!;
    let read = readRows.get(segment);
    if (!read) {
      const { ref, start } = segment;
      const [digests, idHashes] = [await readDigests(ref), decodeIds(await readIds(ref))];
      read = { start, digests, idHashes, ...(await indexOf(segment)) };
      readRows.set(segment, read);
    }
    return read;
  }

  async function idOf(ordinal: number): Promise<string> {
    const page = pageAt(ordinal);
    return idOfLine((await readPage(page)).lines[page.start + page.markets - 1 - ordinal]!);
  }

  async function readIds({ ids, markets }: SegmentRef): Promise<Buffer> {
    const key = layout.ids(ids.hash);
    const bytes = await readObject(storage, key, ids);
    requireIds(key, bytes, markets);
    return bytes;
  }

  /** Digests of the source rows of a segment, by ordinal. */
  async function readDigests({ rows }: SegmentRef): Promise<BigUint64Array> {
    const bytes = await readObject(storage, layout.rows(rows.hash), rows);
    return new BigUint64Array(new Uint8Array(bytes).buffer);
  }

  /**
   * Where the segment lacks a column for a filter of this version, or another version of Unicode made its words, reads
   * the texts of those pages that are left: one object must not mix two versions.
   */
  async function indexOf(segment: PreviousSegment): Promise<Pick<StoredRows, "index" | "words">> {
    const { ref, start, indexed, pages } = segment;
    const [key, wordsKey] = [layout.segment(ref.hash), layout.words(ref.words.hash)];
    const table = new WordTable(wordsKey, await readObject(storage, wordsKey, ref.words));
    if (indexed && table.unicode === unicodeVersion) {
      const index = decodeColumns(key, await readObject(storage, key, ref));
      return { index, words: () => table.words() };
    }
    const [rows, postings]: [IndexRow[], Postings] = [[], new Map()];
    for (const page of pages.filter(({ usable }) => usable)) {
      for (const { ordinal, resolvedAt, line } of await marketsOf(page)) {
        const market = parseJson(layout.page(page.hash), line) as HistoricalMarket;
        rows[ordinal - start] = { resolvedAt, values: filterValuesOf(market) };
        addWords(postings, wordsOf(market.question), ordinal - start);
      }
    }
    return { index: columnsOf(rows), words: () => postings };
  }

  /**
   * The run with exactly these rows, given newest first. Compressing them again would take most of the time that a page
   * with a new market takes.
   */
  async function runOf(rows: readonly { ordinal?: number | undefined }[]): Promise<DeflatePiece | undefined> {
    const newest = rows[0]?.ordinal;
    if (newest === undefined || !rows.every(({ ordinal }, n) => ordinal === newest - n)) return undefined;
    const page = pageAt(newest);
    const place = page.start + page.markets - 1 - newest;
    const same = place % runMarkets === 0 && Math.min(runMarkets, page.markets - place) === rows.length;
    return same ? runsPiece((await readPage(page)).stored, page.runs, place / runMarkets) : undefined;
  }

  async function readPage(page: PreviousPage): Promise<ReadPage> {
    const cached = readPages.get(page);
    if (cached) return cached;
    const key = layout.page(page.hash);
    const stored = await readObject(storage, key, page);
    const { markets, runs } = page;
    const lines = runs.flatMap((_, run) => readRun(key, stored, { markets, runs }, run));
    readPages.set(page, { stored, lines });
    return { stored, lines };
  }

  return { pages, pageAt, marketsOf, storedWith, idOf, readIds, readDigests, runOf };
}
