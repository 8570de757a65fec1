import { crc32 } from "node:zlib";
import { cuts } from "./cuts.ts";

/**
 * Decides after which markets a page or segment ends. It looks at ids only: when a market is added, removed or changed,
 * only the cuts near it move and most pages stay as they were.
 */
export class Cutter {
  #page = 0;
  #segment = 0;

  /** Takes the next market, oldest first. Returns what ends after it; the end of a segment ends a page too. */
  next(id: string | Uint8Array): "none" | "page" | "segment" {
    const hash = crc32(id);
    this.#page += 1;
    const wanted = this.#page >= cuts.pageMin && hash % cuts.pageModulus === 0;
    if (!wanted && this.#page < cuts.pageMax) return "none";
    return this.page(this.#page, wanted && Math.floor(hash / cuts.pageModulus) % cuts.segmentModulus === 0);
  }

  get atPageStart(): boolean {
    return this.#page === 0;
  }

  /** Takes a whole page whose end is already known. `rare` says whether the hash of its newest id ends a segment. */
  page(markets: number, rare: boolean): "page" | "segment" {
    this.#page = 0;
    this.#segment += markets;
    // Segment ordinals must fit into 16 bits, even if the next page is as large as a page can be.
    if (!rare && this.#segment + cuts.pageMax <= cuts.segmentMax) return "page";
    this.#segment = 0;
    return "segment";
  }
}
