import type { ObjectRef, SegmentRef } from "../../schemas/snapshot.ts";
import { Cutter } from "../format/cuts.ts";
import { type Page, pageText } from "../format/page.ts";
import { encodeSegment, type IndexRow } from "../index/segment.ts";
import { layout } from "../store/layout.ts";
import { sha256 } from "../store/sha256.ts";
import type { SortedMarket } from "./external-sort.ts";
import type { ObjectWriter } from "./object-writer.ts";
import { PageBuilder } from "./page-builder.ts";
import type { KeptMarket, PreviousSnapshot } from "./previous-snapshot.ts";

/** Pages compressed and stored at the same time; each holds a few MB. */
const pagesInFlight = 8;

/** What an archive consists of, from the oldest segment up. */
export interface WrittenArchive {
  segments: SegmentRef[];
  pageDigests: string[];
  markets: number;
  newestResolvedAt: number;
}

/** A page that was written or found: `index` is its place in the current snapshot when it is that very page. */
interface PlacedPage {
  page: Page;
  index: number | undefined;
}

/** What the segment at work keeps of a market; of one that the current snapshot has, its ordinal there. */
type Row = number | Omit<SortedMarket, "line">;

/** A market on its way into a page: one that the current snapshot has, or a fresh one. */
type Market = KeptMarket | (SortedMarket & { ordinal?: undefined });

/**
 * Cuts markets that arrive in order into pages and segments, and writes what the current snapshot does not have. Holds
 * one segment's index at a time.
 */
export class ArchiveWriter {
  readonly #objects: ObjectWriter;
  readonly #previous: PreviousSnapshot | undefined;
  readonly #builder = new PageBuilder();
  readonly #cutter = new Cutter();
  readonly #written: WrittenArchive = { segments: [], pageDigests: [], markets: 0, newestResolvedAt: 0 };
  readonly #progress: (markets: number) => void;
  readonly #inFlight = new Set<Promise<PlacedPage>>();
  #markets: Market[] = [];
  #rows: Row[] = [];
  #pages: Promise<PlacedPage>[] = [];

  /** `progress` is told how many markets there were so far, a segment at a time. */
  constructor(
    objects: ObjectWriter,
    previous: PreviousSnapshot | undefined,
    progress: (markets: number) => void,
  ) {
    this.#objects = objects;
    this.#previous = previous;
    this.#progress = progress;
  }

  /** Takes the next market, from the oldest up. */
  async add(market: Market): Promise<void> {
    this.#markets.push(market);
    this.#rows.push(market.ordinal === undefined ? withoutLine(market) : market.ordinal);
    this.#written.newestResolvedAt = market.resolvedAt;
    const cut = this.#cutter.next(market.id);
    if (cut !== "none") await this.#endPage();
    if (cut === "segment") await this.#endSegment();
  }

  /** Takes a page of the current snapshot as it is; false when it would be cut otherwise, or is not there. */
  async addPage(index: number): Promise<boolean> {
    const { page, start, newest, rare } = this.#previous!.pages[index]!;
    if (!this.#cutter.atPageStart || rare === undefined) return false;
    if (!this.#objects.keep(layout.page(page.hash), page.bytes)) return false;
    for (let place = 0; place < page.markets; place += 1) this.#rows.push(start + place);
    this.#written.newestResolvedAt = newest;
    this.#pages.push(Promise.resolve({ page, index }));
    if (this.#cutter.page(page.markets, rare) === "segment") await this.#endSegment();
    return true;
  }

  async finish(): Promise<WrittenArchive> {
    if (this.#markets.length > 0) await this.#endPage();
    if (this.#rows.length > 0) await this.#endSegment();
    return this.#written;
  }

  /** Ends the threads, also of a run that failed. */
  close(): Promise<void> {
    return this.#builder.close();
  }

  async #endPage(): Promise<void> {
    const markets = this.#markets;
    this.#markets = [];
    while (this.#inFlight.size >= pagesInFlight) await Promise.race(this.#inFlight);
    const page = this.#writePage(markets);
    this.#inFlight.add(page);
    // The failure is reported where the page is awaited; here it only must not count as unhandled.
    page.catch(() => {}).finally(() => this.#inFlight.delete(page));
    this.#pages.push(page);
  }

  async #writePage(markets: readonly Market[]): Promise<PlacedPage> {
    const same = this.#previous?.pageOf(markets.map((market) => market.ordinal));
    if (same && this.#objects.keep(layout.page(same.page.hash), same.page.bytes)) return same;
    const text = pageText(markets.map(({ line }) => line).toReversed());
    const known = this.#previous?.pageWithText(sha256(text));
    // Another zlib may give other bytes: a stored page goes with the table entry that was made with it.
    if (known && this.#objects.keep(layout.page(known.hash), known.bytes))
      return { page: known, index: undefined };
    const { page, stored } = await this.#builder.build(text);
    await this.#objects.write(layout.page(page.hash), stored);
    return { page, index: undefined };
  }

  async #endSegment(): Promise<void> {
    const rows = this.#rows;
    const placed = await Promise.all(this.#pages);
    this.#rows = [];
    this.#pages = [];
    const written = this.#written;
    written.segments.push(this.#unchangedSegment(placed) ?? (await this.#writeSegment(placed, rows)));
    for (const { page } of placed) written.pageDigests.push(page.rawDigest);
    written.markets += rows.length;
    this.#progress(written.markets);
  }

  #unchangedSegment(placed: readonly PlacedPage[]): SegmentRef | undefined {
    const same = this.#previous?.segmentOf(placed.map(({ index }) => index));
    if (!same) return undefined;
    this.#objects.keep(layout.segment(same.hash), same.bytes);
    this.#objects.keep(layout.rowsOf(same.rows.hash), same.rows.bytes);
    return same;
  }

  async #writeSegment(placed: readonly PlacedPage[], rows: readonly Row[]): Promise<SegmentRef> {
    const pages = placed.map(({ page }) => page);
    const index: IndexRow[] = [];
    const digests = new BigUint64Array(rows.length);
    for (const [place, row] of rows.entries()) {
      const { resolvedAt, values, digest } = typeof row === "number" ? await this.#previous!.row(row) : row;
      index.push({ resolvedAt, values });
      digests[place] = digest;
    }
    const put = async (keyOf: (hash: string) => string, bytes: Buffer): Promise<ObjectRef> => {
      const hash = sha256(bytes);
      await this.#objects.write(keyOf(hash), bytes);
      return { hash, bytes: bytes.length };
    };
    const stored = await put(layout.rowsOf, Buffer.from(digests.buffer));
    const segment = await put(layout.segment, encodeSegment(pages, index));
    return { ...segment, markets: rows.length, pages: pages.length, rows: stored };
  }
}

/** Lets go of the text: it goes into the page, and the segment holds many. */
function withoutLine({ line: _, ...row }: SortedMarket): Row {
  return row;
}
