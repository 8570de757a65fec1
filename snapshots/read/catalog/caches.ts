import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { NamedObject, ObjectRef } from "../../../schemas/store/stored-objects.ts";
import type { DeflatePiece, Spliced } from "../../format/gzip.ts";
import { IdFilter, idHash, ordinalsOf, requireIds } from "../../index/id-table.ts";
import { WordTable } from "../../index/word-table.ts";
import { MissingObjectError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { ByteRange, Storage } from "../../store/storage.ts";
import { awaitBudget, cacheShares, Memo, SingleFlight } from "../budgets.ts";
import type { Snapshot } from "./snapshots.ts";

/** Caches immutable objects by key, and parts of them. Each is verified when it is read. */
export class ObjectCache {
  readonly #storage: Storage;
  /** Parts have names of their own, and memory of their own. */
  readonly kept: Memo<Buffer>;

  constructor(storage: Storage, maxBytes: number) {
    this.#storage = storage;
    this.kept = new Memo({ most: maxBytes }, ({ length }) => length);
  }

  get(key: string, ref: NamedObject): Promise<Buffer> {
    return this.kept.get(key, () => readObject(this.#storage, key, ref, awaitBudget));
  }

  /** As the store has them: the caller verifies them. */
  async range(key: string, range: ByteRange): Promise<Buffer> {
    const bytes = await this.#storage.get(key, { range });
    if (bytes) return bytes;
    throw new MissingObjectError(key);
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
type Entry = Omit<SplicedPage, "snapshot"> & { snapshot: WeakRef<Snapshot> };

/**
 * Caches pages of the API by what was requested, since all clients that walk the archive with the same page size
 * request the same ones. Most bytes of an entry are views of stored pages, which it keeps in memory.
 */
export class AnswerCache {
  readonly #pages: LRUCache<string, Entry>;

  constructor(maxBytes: number) {
    this.#pages = new LRUCache({ maxSize: maxBytes });
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
    const size = held + small + entryBytes;
    this.#pages.set(shortened(name), { ...page, snapshot: new WeakRef(page.snapshot) }, { size });
  }

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

export const createDerived = (shareOf: (part: number) => number): Derived => ({
  // A piece keeps the compressor's whole buffer in memory, not only the bytes it filled.
  pieces: new Memo({ most: shareOf(cacheShares.pieces) }, ({ bytes }) => bytes.buffer.byteLength + idBytes),
  ids: new Memo({ most: shareOf(cacheShares.ids) }, () => idBytes),
  hashes: new Memo({ most: shareOf(cacheShares.hashes) }, ({ length }) => length + idBytes),
});

// Each takes at most half a megabyte, until its filter is made.
const readAtOnce = 8;

// Making the filter of a large segment takes as long as inflating this many runs.
const stepsPerFilter = 32;

/**
 * Finds markets by id. The first search in a snapshot reads the ids of all its segments once and keeps a filter of
 * each, two bytes a market, with the segment. From then on only segments that may hold an id are asked, so that ids
 * that no market has cost no reading.
 */
export function idIndex(storage: Storage, objects: Pick<ObjectCache, "get">) {
  const making = new SingleFlight<IdFilter>();
  /** Ordinals of markets that may have this id: nearly always one or none. */
  return async (
    { archive, manifest }: Pick<Snapshot, "archive" | "manifest">,
    id: string,
  ): Promise<number[]> => {
    const hash = idHash(id);
    const segments = archive.segments.map((segment, place) => {
      return { segment, ids: manifest.segments[place]!.ids, start: archive.starts[place]! };
    });
    const make = async ({ segment, ids }: (typeof segments)[number]) => {
      segment.idFilter = await making.run(ids.hash, async () => {
        const key = layout.ids(ids.hash);
        // Bypasses the cache: these ids would evict the pages.
        const stored = await readObject(storage, key, ids, awaitBudget);
        await awaitBudget(stepsPerFilter);
        requireIds(key, stored, segment.markets);
        return new IdFilter(stored);
      });
    };
    const without = segments.filter(({ segment }) => !segment.idFilter);
    await inParallel(without, make, readAtOnce);
    const ordinals: number[] = [];
    for (const { segment, ids, start } of segments) {
      if (!segment.idFilter!.mayHold(hash)) continue;
      const stored = await objects.get(layout.ids(ids.hash), ids);
      for (const ordinal of ordinalsOf(stored, hash)) ordinals.push(start + ordinal);
    }
    return ordinals;
  };
}

// Words of common questions take half of this. With the ids there are less than 30 bytes a market.
const bytesPerMarket = 26;

/**
 * Finds markets by words. Reads the words of a segment when somebody first looks for some there. `largest` returns the
 * number of markets in the largest snapshot in memory, whose words all fit.
 */
export function wordIndex(storage: Storage, largest: () => number) {
  /** By hash. A small archive may hold one segment of long questions. */
  const tables = new Memo<WordTable>({ most: Number.MAX_SAFE_INTEGER }, ({ residentBytes }) => residentBytes);
  return {
    get residentBytes(): number {
      return tables.counts().bytes;
    },
    /** The words of a segment in a snapshot of this many markets. */
    async read(ref: ObjectRef, markets: number): Promise<WordTable> {
      const table = await tables.get(ref.hash, async () => {
        const key = layout.words(ref.hash);
        // Opening words takes longer than hashing them.
        const turn = (steps = 1) => awaitBudget(3 * steps);
        return new WordTable(key, await readObject(storage, key, ref, turn));
      });
      // A search in a small snapshot leaves the words of a large one.
      tables.trim(bytesPerMarket * Math.max(markets, largest()));
      return table;
    },
  };
}
