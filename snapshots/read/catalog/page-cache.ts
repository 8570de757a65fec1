import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Spliced } from "../../format/gzip.ts";
import type { Snapshot } from "./snapshot.ts";

/** The part of an archive page that is the same for every caller. */
export interface PlannedPage {
  snapshot: Snapshot;
  etag: string;
  /** Members of the envelope (INTERFACE 2.7). */
  numbers: { count: number; total: number; page: number; pageSize: number; nextCursor: string | null };
  /** Ordinals of its markets, descending. */
  ordinals: readonly number[];
}

/** A page with its markets compressed. */
type SplicedPage = PlannedPage & { spliced: Spliced };

// The name, the numbers and the LRU bookkeeping of an entry.
const entryBytes = 1000;
// A part is a Buffer object beside the bytes it views.
const partBytes = 200;

/** An entry must not keep a superseded snapshot alive: its indexes are many times as large as the entry. */
type Entry = Omit<SplicedPage, "snapshot"> & { snapshot: WeakRef<Snapshot>; bytes: number };

/**
 * Caches pages by what was requested, since all clients that walk the archive with the same page size request the same
 * ones. Most bytes of an entry are views of stored pages, which it keeps in memory.
 */
export class PageCache {
  readonly #pages: LRUCache<string, Entry>;

  constructor(maxBytes: number) {
    this.#pages = new LRUCache({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });
  }

  get(name: string): SplicedPage | undefined {
    const entry = this.#pages.get(shortened(name));
    const snapshot = entry?.snapshot.deref();
    return snapshot && entry && { ...entry, snapshot };
  }

  set(name: string, page: SplicedPage): void {
    const { ordinals, numbers, spliced } = page;
    const buffers = new Set(spliced.parts.map(({ buffer }) => buffer));
    // A part keeps the whole buffer under it in memory.
    const held = buffers.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
    const small = spliced.parts.length * partBytes + ordinals.length * 8 + (numbers.nextCursor?.length ?? 0);
    const bytes = held + small + entryBytes;
    this.#pages.set(shortened(name), { ...page, snapshot: new WeakRef(page.snapshot), bytes });
  }

  /** Drops all entries, for use when a new snapshot becomes current. */
  clear(): void {
    this.#pages.clear();
  }
}

/** A name contains what the caller sent, which may be longer than the page itself. */
function shortened(name: string): string {
  return hash("sha256", name, "base64url");
}
