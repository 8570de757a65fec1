import type { ObjectRef, SegmentRef } from "../../schemas/snapshot.ts";
import { Cutter } from "../format/order.ts";
import { type Page, pageText } from "../format/page.ts";
import { encodeSegment, type IndexRow } from "../index/segment.ts";
import { layout } from "../layout.ts";
import { sha256 } from "../seal.ts";
import type { KnownMarket, RenderedMarket } from "../sources/sources.ts";
import type { SortedMarket } from "./external-sort.ts";
import type { ObjectWriter } from "./object-writer.ts";
import { PageBuilder } from "./page-builder.ts";
import type { PreviousSnapshot } from "./previous.ts";

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

/** A market of the segment at work, without its text. */
type Row = KnownMarket | Omit<RenderedMarket, "json">;

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
  readonly #inFlight = new Set<Promise<PlacedPage>>();
  #markets: SortedMarket[] = [];
  #rows: Row[] = [];
  #pages: Promise<PlacedPage>[] = [];

  constructor(objects: ObjectWriter, previous: PreviousSnapshot | undefined) {
    this.#objects = objects;
    this.#previous = previous;
  }

  /** Takes the next markets, from the oldest up. */
  async add(markets: readonly SortedMarket[]): Promise<void> {
    for (const market of markets) {
      this.#markets.push(market);
      this.#rows.push(market.ordinal === undefined ? withoutLine(market) : market);
      const cut = this.#cutter.next(market.id);
      if (cut !== "none") await this.#endPage();
      if (cut === "segment") await this.#endSegment();
    }
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

  async #writePage(markets: readonly SortedMarket[]): Promise<PlacedPage> {
    const same = this.#previous?.pageOf(markets.map((market) => market.ordinal));
    if (same && this.#objects.keep(layout.page(same.page.hash), same.page.bytes)) return same;
    const lines: Buffer[] = [];
    for (const market of markets.toReversed()) lines.push(await this.#lineOf(market));
    const text = pageText(lines);
    const known = this.#previous?.pageWithText(sha256(text));
    // Another zlib may give other bytes: a stored page goes with the table entry that was made with it.
    if (known && this.#objects.keep(layout.page(known.hash), known.bytes))
      return { page: known, index: undefined };
    const { page, stored } = await this.#builder.build(text);
    await this.#objects.write(layout.page(page.hash), stored);
    return { page, index: undefined };
  }

  async #lineOf(market: SortedMarket): Promise<Buffer> {
    return market.ordinal === undefined ? market.line : this.#previous!.line(market.ordinal);
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
    written.newestResolvedAt = rows.at(-1)!.resolvedAt;
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
      const { id, resolvedAt } = row;
      const { values, digest } = row.ordinal === undefined ? row : await this.#previous!.row(row.ordinal);
      index.push({ id, resolvedAt, values });
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
function withoutLine({ line: _, ...row }: Extract<SortedMarket, { line: Buffer }>): Row {
  return row;
}
