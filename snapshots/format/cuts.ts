import { crc32 } from "node:zlib";

/** Bounds of pages and segments, in markets (snapshots/SPEC.md, "Cuts"). */
export const cuts = {
  pageMin: 32,
  pageMax: 512,
  pageModulus: 96,
  segmentModulus: 160,
  segmentMax: 65_536,
} as const;

/**
 * Says after which markets a page or segment ends. The decision follows from ids alone, so a market that comes,
 * goes or changes moves only the cuts near it.
 */
export class Cutter {
  #page = 0;
  #segment = 0;

  /** Takes the next market, from the oldest up. */
  next(id: string): "none" | "page" | "segment" {
    const hash = crc32(id);
    this.#page += 1;
    const wanted = this.#page >= cuts.pageMin && hash % cuts.pageModulus === 0;
    if (!wanted && this.#page < cuts.pageMax) return "none";
    return this.page(this.#page, wanted && Math.floor(hash / cuts.pageModulus) % cuts.segmentModulus === 0);
  }

  /** Whether the next market begins a page. */
  get atPageStart(): boolean {
    return this.#page === 0;
  }

  /** Takes a whole page of so many markets, whose cuts are known; `rare`: its newest id alone would end a segment. */
  page(markets: number, rare: boolean): "page" | "segment" {
    this.#page = 0;
    this.#segment += markets;
    // The next page may be of the largest size; a segment's ordinals must fit 16 bits all the same.
    if (!rare && this.#segment + cuts.pageMax <= cuts.segmentMax) return "page";
    this.#segment = 0;
    return "segment";
  }
}
