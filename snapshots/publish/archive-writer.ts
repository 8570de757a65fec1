import { crc32 } from "node:zlib";
import type { ObjectRef, SegmentRef } from "../../schemas/store/stored-objects.ts";
import { Cutter, chunkBytes } from "../format/bytes.ts";
import { compareKeys, type MarketLine, textOf } from "../format/market-line.ts";
import { compressPage, type Page } from "../format/page.ts";
import { leafHash, pageRootOf, rootOver } from "../format/tree.ts";
import {
  addPostings,
  addWords,
  encodePostings,
  type Postings,
  unicodeVersion,
} from "../index/encode-words.ts";
import { encodeIds, idHash } from "../index/id-table.ts";
import { columnsOf, type IndexColumns, type IndexRow, sectionRootOf } from "../index/index-header.ts";
import { encodeOrigins, encodeSegment, readIndexHeader } from "../index/segment.ts";
import { wordsOf } from "../index/word-table.ts";
import type { RenderedMarket } from "../sources/sources.ts";
import { layout } from "../store/layout.ts";
import { besideSegment, referTo } from "../store/objects.ts";
import type { TakeDifference } from "./guards.ts";
import type { ObjectWriter } from "./object-writer.ts";
import type { OldMarket, PreviousPage, RowColumns, StoredRows } from "./previous-rows.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";
import type { ReadSources } from "./read-sources.ts";

/** Segments from the oldest up; epoch milliseconds. */
export interface WrittenArchive {
  segments: SegmentRef[];
  pages: number;
  markets: number;
  newestResolvedAt: number;
}

type RowsRead = Pick<ReadSources, "sources" | "kept" | "sameOrigins" | "sort">;

/**
 * Merges the `kept` rows of the current snapshot (not 0 at their ordinals) with the sorted new and changed markets, and
 * writes the result. Unchanged pages, which are most, are not even read. With `differs` it also reads the rows that are
 * not kept, and reports where old and fresh ones differ. `progress` is called after every segment with the number of
 * markets so far.
 */
export async function writeArchive(
  objects: ObjectWriter,
  previous: PreviousSnapshot | undefined,
  read: RowsRead,
  progress: (markets: number) => void,
  differs?: TakeDifference,
): Promise<WrittenArchive> {
  const writer = archiveWriter(objects, previous, read, progress);
  try {
    await mergeMarkets(writer, previous, read, differs);
    return await writer.finish();
  } finally {
    await writer.close();
  }
}

async function mergeMarkets(
  writer: ReturnType<typeof archiveWriter>,
  previous: PreviousSnapshot | undefined,
  { kept, sort }: RowsRead,
  differs?: TakeDifference,
): Promise<void> {
  const markets = oneByOne(sort.sorted());
  let next = await markets.next();
  const addFresh = async (market: RenderedMarket, before?: MarketLine) => {
    if (!before?.line.equals(market.line)) await differs?.({ ...(before && { before }), after: market });
    await writer.add(market);
    next = await markets.next();
  };
  for (const page of previous?.rows.pages ?? []) {
    const rows = kept.subarray(page.start, page.start + page.markets);
    if (!differs && rows.every((file) => file === 0)) continue;
    while (!next.done && next.value.resolvedAt < page.oldest) await addFresh(next.value);
    // Markets resolved at the same moment are ordered by id, which only the page's text has.
    const alone = next.done || next.value.resolvedAt > page.newest;
    if (alone && !rows.includes(0) && (await writer.addPage(page))) continue;
    for (const market of await previous!.rows.marketsOf(page)) {
      while (!next.done && compareKeys(next.value, market) < 0) await addFresh(next.value);
      if (kept[market.ordinal]! > 0) await writer.add(market);
      else if (!next.done && compareKeys(next.value, market) === 0) await addFresh(next.value, market);
      else await differs?.({ before: market });
    }
  }
  while (!next.done) await addFresh(next.value);
}

async function* oneByOne<T>(batches: AsyncIterable<T[]>): AsyncGenerator<T, undefined> {
  for await (const batch of batches) yield* batch;
}

/** Pages that are compressed and stored at the same time. Each takes a few MB of memory. */
const pagesInFlight = 4;

/** A new or changed market without its text. */
interface NewRow extends IndexRow, Pick<RenderedMarket, "digest" | "file"> {
  idHash: number;
  words: readonly string[];
}

/** A market in the unfinished segment: its ordinal in the current snapshot, or the values for the index. */
type RowOrOrdinal = number | NewRow;

/** Kept from the current snapshot, or new or changed. */
type Market = OldMarket | (RenderedMarket & { ordinal?: undefined });

/**
 * Cuts a sorted stream of markets into pages and segments, and writes those that the current snapshot does not have.
 * Memory holds the index of one segment, a few pages, and the new origins, about a byte a market.
 */
function archiveWriter(
  objects: ObjectWriter,
  previous: PreviousSnapshot | undefined,
  { sources, kept, sameOrigins }: RowsRead,
  progress: (markets: number) => void,
) {
  const cutter = new Cutter();
  const written: WrittenArchive = { segments: [], pages: 0, markets: 0, newestResolvedAt: 0 };
  const inFlight = new Set<Promise<Page>>();
  let pageMarkets: Market[] = [];
  let segmentRows: RowOrOrdinal[] = [];
  let segmentPages: Promise<Page>[] = [];

  async function endPage(): Promise<void> {
    const markets = pageMarkets;
    pageMarkets = [];
    while (inFlight.size >= pagesInFlight) await Promise.race(inFlight);
    const page = writePage(markets);
    inFlight.add(page);
    // Whoever awaits the page reports a failure. This handler keeps it from ending the process as unhandled.
    page.catch(() => {}).finally(() => inFlight.delete(page));
    segmentPages.push(page);
  }

  async function writePage(markets: readonly Market[]): Promise<Page> {
    const same = previous?.pageOf(markets.map((market) => market.ordinal));
    if (same && objects.keep(layout.page(same.hash), same.bytes)) return same;
    const root = pageRootOf(markets.map(({ line }) => leafHash(line))).toString("hex");
    const previousPage = previous?.pageByRoot.get(root);
    // Another zlib version may compress differently, so a stored page keeps the table entry it was written with. It is
    // copied, since these rows are others than those of the previous page, though their text is the same.
    if (previousPage && objects.keep(layout.page(previousPage.hash), previousPage.bytes)) {
      // They are getters, which spreading leaves out.
      const { runs, runHashes } = previousPage;
      return { ...previousPage, runs, runHashes };
    }
    const newestFirst = markets.toReversed();
    const { page, stored } = await compressPage(
      newestFirst.map(({ line }) => line),
      async (start, end) => previous?.rows.runOf(newestFirst.slice(start, end)),
    );
    await objects.write(layout.page(page.hash), stored);
    return { ...page, root };
  }

  async function endSegment(): Promise<void> {
    const rows = segmentRows;
    const pages = await Promise.all(segmentPages);
    segmentRows = [];
    segmentPages = [];
    const same = unchangedSegment(pages);
    const segment = same ?? (await writeSegment(pages, rows));
    const origins = (same && unchangedOrigins(same)) ?? holdOrigins(rows);
    written.segments.push({ ...segment, origins });
    written.pages += pages.length;
    written.markets += rows.length;
    progress(written.markets);
  }

  function unchangedSegment(pages: readonly Page[]): SegmentRef | undefined {
    const same = previous?.segmentOf(pages);
    if (!same) return undefined;
    objects.keep(layout.segment(same.hash), same.bytes);
    for (const [key, { bytes }] of besideSegment(same)) objects.keep(key, bytes);
    return same;
  }

  async function writeSegment(pages: readonly Page[], rows: readonly RowOrOrdinal[]): Promise<SegmentRef> {
    // Segments whose columns are taken over, with the positions that their rows have now, or -1.
    const taken: [StoredRows, positions: Int32Array][] = [];
    const fresh: NewRow[] = [];
    const places: number[] = [];
    const postings: Postings = new Map();
    let [start, positions] = [0, new Int32Array()];
    for (const [position, row] of rows.entries()) {
      if (typeof row !== "number") {
        fresh.push(row);
        places.push(position);
        addWords(postings, row.words, position);
        continue;
      }
      if (row >= start + positions.length) {
        const old = await previous!.rows.storedWith(row);
        [start, positions] = [old.start, new Int32Array(old.digests.length).fill(-1)];
        taken.push([old, positions]);
      }
      positions[row - start] = position;
    }
    for (const [{ words }, positions] of taken) addPostings(postings, words(), positions);
    const ofFresh: RowColumns = {
      digests: fresh.map(({ digest }) => digest),
      idHashes: fresh.map(({ idHash }) => idHash),
      index: columnsOf(fresh),
    };
    const parts: [RowColumns, positions: ArrayLike<number>][] = [...taken, [ofFresh, places]];
    const gathered = <T>(of: (part: RowColumns) => ArrayLike<T>): T[] => {
      const all = new Array<T>(rows.length);
      for (const [part, positions] of parts) {
        const values = of(part);
        for (let ordinal = 0; ordinal < positions.length; ordinal += 1)
          if (positions[ordinal]! >= 0) all[positions[ordinal]!] = values[ordinal]!;
      }
      return all;
    };
    const digests = BigUint64Array.from(gathered((part) => part.digests));
    const stored = await put(layout.rows, Buffer.from(digests.buffer));
    const idBytes = encodeIds(gathered((part) => part.idHashes));
    const ids = { ...(await put(layout.ids, idBytes)), root: sectionRootOf(idBytes, chunkBytes.ids) };
    const words = await put(layout.words, encodePostings(postings, rows.length));
    const columns: IndexColumns = {
      times: gathered((part) => part.index.times),
      values: (name) => gathered((part) => part.index.values(name)),
    };
    const bytes = encodeSegment(pages, columns, { ...words, unicode: unicodeVersion });
    const segment = await put(layout.segment, bytes);
    return {
      ...segment,
      markets: rows.length,
      root: rootOver("segment", pages).toString("hex"),
      index: referTo(readIndexHeader("segment", bytes)),
      rows: stored,
      ids,
      words,
    };
  }

  function unchangedOrigins({ hash }: SegmentRef): ObjectRef | undefined {
    const same = sameOrigins.get(hash);
    return same && objects.keep(layout.origins(same.hash), same.bytes) ? same : undefined;
  }

  function holdOrigins(rows: readonly RowOrOrdinal[]): ObjectRef {
    const numbers = rows.map((row) => (typeof row === "number" ? kept[row]! : row.file));
    const hashes = sources.files.map(({ hash }) => hash);
    const bytes = encodeOrigins(numbers, hashes);
    const ref = referTo(bytes);
    objects.hold(layout.origins(ref.hash), bytes);
    return ref;
  }

  async function put(keyOf: (hash: string) => string, bytes: Buffer): Promise<ObjectRef> {
    const ref = referTo(bytes);
    await objects.write(keyOf(ref.hash), bytes);
    return ref;
  }

  return {
    /** Markets come from the oldest to the newest. */
    async add(market: Market): Promise<void> {
      pageMarkets.push(market);
      segmentRows.push(market.ordinal === undefined ? rowOf(market) : market.ordinal);
      written.newestResolvedAt = market.resolvedAt;
      const cut = cutter.next(crc32(market.id));
      if (cut !== "none") await endPage();
      if (cut === "segment") await endSegment();
    },
    /**
     * Adds a whole page of the current snapshot. Returns false, and adds nothing, when the page is gone or would be cut
     * differently.
     */
    async addPage(page: PreviousPage): Promise<boolean> {
      const { start, markets, endsSegment } = page;
      if (!cutter.atPageStart || endsSegment === undefined) return false;
      if (!objects.keep(layout.page(page.hash), page.bytes)) return false;
      for (let position = 0; position < markets; position += 1) segmentRows.push(start + position);
      written.newestResolvedAt = page.newest;
      segmentPages.push(Promise.resolve(page));
      if (cutter.page(markets, endsSegment) === "segment") await endSegment();
      return true;
    },
    async finish(): Promise<WrittenArchive> {
      if (pageMarkets.length > 0) await endPage();
      if (segmentRows.length > 0) await endSegment();
      return written;
    },
    /** Waits for pages under way, after a failure too. */
    async close(): Promise<void> {
      await Promise.allSettled(inFlight);
    },
  };
}

/** Drops the text, which the page holds: a segment has too many markets to keep all texts in memory. */
function rowOf({ resolvedAt, values, digest, file, id, line }: RenderedMarket): NewRow {
  return { resolvedAt, values, digest, file, idHash: idHash(id), words: wordsOf(textOf(line, "question")) };
}
