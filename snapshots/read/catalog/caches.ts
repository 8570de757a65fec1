import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { NamedObject } from "../../../schemas/store/stored-objects.ts";
import type { DeflatePiece, Spliced } from "../../format/gzip.ts";
import { MissingObjectError } from "../../store/errors.ts";
import { readObject } from "../../store/objects.ts";
import type { ByteRange, Storage } from "../../store/storage.ts";
import { awaitBudget } from "../effort.ts";
import { cacheShares, Memo, type MemoCounts } from "../memo.ts";
import type { Snapshot } from "./snapshots.ts";

/** Caches immutable objects by key, and parts of them. Each is verified when it is read. */
export class ObjectCache {
  readonly #storage: Storage;
  readonly #kept: Memo<Buffer>;

  constructor(storage: Storage, maxBytes: number) {
    this.#storage = storage;
    this.#kept = new Memo({ most: maxBytes }, ({ length }) => length);
  }

  /** The stored bytes of an object. */
  get(key: string, ref: NamedObject): Promise<Buffer> {
    return this.#kept.get(key, () => readObject(this.#storage, key, ref, awaitBudget));
  }

  has(key: string): boolean {
    return this.#kept.has(key);
  }

  /** A part of an object, by a name of its own, with memory of its own. `read` verifies it. */
  part(name: string, read: () => Promise<Buffer>): Promise<Buffer> {
    return this.#kept.get(name, read);
  }

  /** Bytes of an object as the store has them. */
  async range(key: string, range: ByteRange): Promise<Buffer> {
    const bytes = await this.#storage.get(key, { range });
    if (bytes) return bytes;
    throw new MissingObjectError(key);
  }

  counts(): MemoCounts {
    return this.#kept.counts();
  }
}

/** The part of an archive page that is the same for every caller. */
export interface PlannedPage {
  snapshot: Snapshot;
  etag: string;
  /** Members of the envelope (INTERFACE 2.7). */
  numbers: { count: number; total: number; page: number; pageSize: number; nextCursor: string | null };
  /** Ordinals of its markets, descending. */
  ordinals: readonly number[];
}

type SplicedPage = PlannedPage & { spliced: Spliced };

// The name, the numbers and the LRU bookkeeping of an entry.
const entryBytes = 1000;
// A part is a Buffer object beside the bytes it views.
const partBytes = 200;

/** An entry must not keep a superseded snapshot alive: its indexes are many times as large as the entry. */
type Entry = Omit<SplicedPage, "snapshot"> & { snapshot: WeakRef<Snapshot>; bytes: number };

/**
 * Caches pages of the API by what was requested, since all clients that walk the archive with the same page size
 * request the same ones. Most bytes of an entry are views of stored pages, which it keeps in memory.
 */
export class AnswerCache {
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

// An id with its key takes about 200 bytes.
const idBytes = 200;

/**
 * Recompressed pieces, market ids and hashes. Clients that walk the archive with the same page size cut the stored
 * pages at the same places, so they need the same ones. Names contain the page's hash.
 */
export interface Derived {
  pieces: Memo<DeflatePiece>;
  ids: Memo<string>;
  hashes: Memo<Buffer>;
}

/** `shareOf` gives the bytes of a share. */
export const createDerived = (shareOf: (part: number) => number): Derived => ({
  // A piece keeps the compressor's whole buffer in memory, not only the bytes it filled.
  pieces: new Memo({ most: shareOf(cacheShares.pieces) }, ({ bytes }) => bytes.buffer.byteLength + idBytes),
  ids: new Memo({ most: shareOf(cacheShares.ids) }, () => idBytes),
  hashes: new Memo({ most: shareOf(cacheShares.hashes) }, ({ length }) => length + idBytes),
});
