import type { SegmentRef } from "../../schemas/snapshot.ts";
import { Cutter } from "../format/order.ts";
import { compressPage, type Page, pageText } from "../format/page.ts";
import { encodeSegment, type IndexRow } from "../index/segment.ts";
import { layout } from "../layout.ts";
import { sha256 } from "../seal.ts";
import type { SortedMarket } from "./external-sort.ts";
import type { ObjectWriter } from "./object-writer.ts";

/** Pages compressed and stored at the same time; each holds a few MB. */
const pagesInFlight = 8;

/** What an archive consists of, from the oldest segment up. */
export interface WrittenArchive {
  segments: SegmentRef[];
  pageDigests: string[];
  markets: number;
  newestResolvedAt: number;
}

/** Cuts markets that arrive in order into pages and segments, and writes both; holds one segment's index at a time. */
export class ArchiveWriter {
  readonly #objects: ObjectWriter;
  readonly #known: ReadonlyMap<string, Page>;
  readonly #cutter = new Cutter();
  readonly #written: WrittenArchive = { segments: [], pageDigests: [], markets: 0, newestResolvedAt: 0 };
  readonly #inFlight = new Set<Promise<Page>>();
  #lines: Buffer[] = [];
  #rows: IndexRow[] = [];
  #pages: Promise<Page>[] = [];

  /** `known`: pages of the current snapshot by the digest of their text, to be reused as they are stored. */
  constructor(objects: ObjectWriter, known: ReadonlyMap<string, Page>) {
    this.#objects = objects;
    this.#known = known;
  }

  /** Takes the next markets, from the oldest up. */
  async add(markets: readonly SortedMarket[]): Promise<void> {
    for (const { line, ...row } of markets) {
      const last = this.#rows.at(-1);
      if (last && last.resolvedAt === row.resolvedAt && last.id === row.id)
        throw new Error(`market ${row.id} came twice`);
      this.#lines.push(line);
      this.#rows.push(row);
      const cut = this.#cutter.next(row.id);
      if (cut !== "none") await this.#endPage();
      if (cut === "segment") await this.#endSegment();
    }
  }

  async finish(): Promise<WrittenArchive> {
    if (this.#lines.length > 0) await this.#endPage();
    if (this.#rows.length > 0) await this.#endSegment();
    return this.#written;
  }

  async #endPage(): Promise<void> {
    const lines = this.#lines.reverse();
    this.#lines = [];
    while (this.#inFlight.size >= pagesInFlight) await Promise.race(this.#inFlight);
    const page = this.#writePage(lines);
    this.#inFlight.add(page);
    // The failure is reported where the page is awaited; here it only must not count as unhandled.
    page.catch(() => {}).finally(() => this.#inFlight.delete(page));
    this.#pages.push(page);
  }

  async #writePage(lines: Buffer[]): Promise<Page> {
    const text = pageText(lines);
    const known = this.#known.get(sha256(text));
    if (known && this.#objects.keep(layout.page(known.hash), known.bytes)) return known;
    const { page, stored } = await compressPage(text, lines);
    await this.#objects.write(layout.page(page.hash), stored);
    return page;
  }

  async #endSegment(): Promise<void> {
    const pages = await Promise.all(this.#pages);
    const stored = encodeSegment(pages, this.#rows);
    const hash = sha256(stored);
    await this.#objects.write(layout.segment(hash), stored);
    const written = this.#written;
    written.segments.push({ hash, bytes: stored.length, markets: this.#rows.length, pages: pages.length });
    for (const page of pages) written.pageDigests.push(page.rawDigest);
    written.markets += this.#rows.length;
    written.newestResolvedAt = this.#rows.at(-1)?.resolvedAt ?? written.newestResolvedAt;
    this.#rows = [];
    this.#pages = [];
  }
}
