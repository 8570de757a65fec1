import { LRUCache } from "lru-cache";
import type { DeflatePiece } from "../format/gzip.ts";

// An id and its key are some 200 bytes.
const idBytes = 200;

/**
 * What was worked out from stored pages and is asked for again: those who pull the archive with the same page size
 * cut its pages at the same places. Named by the page's hash, so nothing in it ever goes stale.
 */
export class DerivedCache {
  readonly #pieces: LRUCache<string, DeflatePiece, () => Promise<DeflatePiece>>;
  readonly #ids: LRUCache<string, string>;

  constructor(maxBytes: number) {
    this.#pieces = new LRUCache<string, DeflatePiece, () => Promise<DeflatePiece>>({
      maxSize: maxBytes,
      // What the compressor allotted is held, not only what it filled.
      sizeCalculation: ({ bytes }) => bytes.buffer.byteLength + idBytes,
      fetchMethod: (_name, _stale, { context: make }) => make(),
      // Several answers share one piece; an eviction meanwhile must not take it from them.
      ignoreFetchAbort: true,
    });
    this.#ids = new LRUCache({ max: Math.ceil(maxBytes / 8 / idBytes) });
  }

  /** The piece of a name, made once at a time. */
  async piece(name: string, make: () => Promise<DeflatePiece>): Promise<DeflatePiece> {
    return (await this.#pieces.fetch(name, { context: make })) ?? make();
  }

  /** The id of a name. */
  async id(name: string, find: () => Promise<string>): Promise<string> {
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    const id = await find();
    this.#ids.set(name, id);
    return id;
  }
}
