import { LRUCache } from "lru-cache";
import type { Snapshot } from "../catalog.ts";
import type { Spliced } from "../format/gzip.ts";

/** A page of a response as far as it does not depend on who asks, and when. */
export interface PlannedPage {
  snapshot: Snapshot;
  etag: string;
  /** Members of SPEC 2.7's envelope. */
  numbers: { count: number; total: number; page: number; pageSize: number; nextCursor: string | null };
  /** Of its markets, descending. */
  ordinals: readonly number[];
}

/** A page with its markets ready to be sent. */
type SplicedPage = PlannedPage & { spliced: Spliced };

// Its names, numbers and arrays.
const entryBytes = 2000;

/**
 * Pages as they were sent, by what was asked for: everyone who pulls the archive with the same page size asks for the
 * same ones. Their bytes are mostly those of stored pages, which stay in memory with them.
 */
export class PageCache {
  readonly #pages: LRUCache<string, SplicedPage & { bytes: number }>;

  constructor(maxBytes: number) {
    this.#pages = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes, ordinals }) => bytes + ordinals.length * 8 + entryBytes,
    });
  }

  get(name: string): SplicedPage | undefined {
    return this.#pages.get(name);
  }

  set(name: string, page: SplicedPage): void {
    const buffers = new Set(page.spliced.parts.map(({ buffer }) => buffer));
    // What a part lies in is held, not the part alone.
    const bytes = buffers.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#pages.set(name, { ...page, bytes });
  }

  /** Lets go of snapshots that were superseded. */
  clear(): void {
    this.#pages.clear();
  }
}
