import { LRUCache } from "lru-cache";
import type { DeflatePiece } from "../format/gzip.ts";

// An id and its key are some 200 bytes.
const idBytes = 200;

/**
 * What was worked out from stored pages and is asked for again: those who pull the archive with the same page size
 * cut its pages at the same places. Named by the page's hash, so nothing in it ever goes stale.
 */
export class DerivedCache {
  readonly #pieces: LRUCache<string, DeflatePiece>;
  readonly #ids: LRUCache<string, string>;
  readonly #underway = new Map<string, Promise<DeflatePiece>>();

  constructor(maxBytes: number) {
    this.#pieces = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes }) => bytes.length + idBytes,
    });
    this.#ids = new LRUCache({ max: Math.ceil(maxBytes / 8 / idBytes) });
  }

  /** The piece of a name, made at most once at a time. */
  piece(name: string, make: () => Promise<DeflatePiece>): DeflatePiece | Promise<DeflatePiece> {
    return this.#pieces.get(name) ?? this.#underway.get(name) ?? this.#make(name, make);
  }

  /** The id of a name. */
  id(name: string, find: () => string): string {
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    const id = find();
    this.#ids.set(name, id);
    return id;
  }

  #make(name: string, make: () => Promise<DeflatePiece>): Promise<DeflatePiece> {
    const made = make()
      .then((piece) => {
        this.#pieces.set(name, piece);
        return piece;
      })
      .finally(() => this.#underway.delete(name));
    this.#underway.set(name, made);
    return made;
  }
}
