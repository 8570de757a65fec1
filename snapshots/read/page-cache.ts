import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Spliced } from "../format/gzip.ts";
import type { Snapshot } from "./catalog.ts";

/** A page of a response as far as it does not depend on who asks, and when. */
export interface PlannedPage {
  snapshot: Snapshot;
  etag: string;
  /** Members of the envelope (INTERFACE 2.7). */
  numbers: { count: number; total: number; page: number; pageSize: number; nextCursor: string | null };
  /** Of its markets, descending. */
  ordinals: readonly number[];
}

/** A page with its markets ready to be sent. */
type SplicedPage = PlannedPage & { spliced: Spliced };

// Its name, numbers and places.
const entryBytes = 1000;
// A part is an object beside the bytes it shows.
const partBytes = 200;

/** An entry does not keep a superseded snapshot, whose indexes are many times as large, in memory. */
type Entry = Omit<SplicedPage, "snapshot"> & { snapshot: WeakRef<Snapshot>; bytes: number };

/**
 * Pages as they were sent, by what was asked for: everyone who pulls the archive with the same page size asks for the
 * same ones. Their bytes are mostly those of stored pages, which stay in memory with them.
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
    // What a part lies in is held, not the part alone.
    const held = buffers.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
    const small = spliced.parts.length * partBytes + ordinals.length * 8 + (numbers.nextCursor?.length ?? 0);
    const bytes = held + small + entryBytes;
    this.#pages.set(shortened(name), { ...page, snapshot: new WeakRef(page.snapshot), bytes });
  }

  /** Lets go of snapshots that were superseded. */
  clear(): void {
    this.#pages.clear();
  }
}

/** A name holds what was asked for in the caller's own spelling, which may be longer than the page. */
function shortened(name: string): string {
  return hash("sha256", name, "base64url");
}
