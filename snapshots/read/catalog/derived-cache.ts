import { LRUCache } from "lru-cache";
import type { DeflatePiece } from "../../format/gzip.ts";

// An id with its key takes about 200 bytes.
const idBytes = 200;

/**
 * Caches recompressed pieces and market ids. Clients that walk the archive with the same page size cut the stored pages
 * at the same places, so they need the same ones. Names contain the page's hash, so no entry ever goes stale.
 */
export class DerivedCache {
  readonly #pieces: LRUCache<string, DeflatePiece, () => Promise<DeflatePiece>>;
  readonly #ids: LRUCache<string, string>;

  constructor(maxBytes: number) {
    this.#pieces = new LRUCache<string, DeflatePiece, () => Promise<DeflatePiece>>({
      maxSize: maxBytes,
      // The piece keeps the compressor's whole buffer in memory, not only the bytes it filled.
      sizeCalculation: ({ bytes }) => bytes.buffer.byteLength + idBytes,
      fetchMethod: (_name, _stale, { context: make }) => make(),
      // Several requests may wait for this piece; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
    this.#ids = new LRUCache({ max: Math.ceil(maxBytes / 8 / idBytes) });
  }

  /** The piece of this name. Concurrent calls share one `make`. */
  async piece(name: string, make: () => Promise<DeflatePiece>): Promise<DeflatePiece> {
    return (await this.#pieces.fetch(name, { context: make })) ?? make();
  }

  /** The id of this name. */
  async id(name: string, find: () => Promise<string>): Promise<string> {
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    const id = await find();
    this.#ids.set(name, id);
    return id;
  }
}
