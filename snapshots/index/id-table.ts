import { hash } from "node:crypto";
import { firstWhere } from "../format/bytes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { type Bitmap, hasBit, setBit } from "./bitmap.ts";

// All hashes of ids in ascending order, 32 bits each, then the ordinals in the same order, 16 bits each.
const hashBytes = 4;
const entryBytes = hashBytes + 2;

/** 32 bits of SHA-256. Anyone may choose ids, but nobody can make their hashes cluster. */
export function idHash(id: string): number {
  return shortHash(longIdHash(id));
}

/** 48 bits of SHA-256: among a hundred million ids some pairs share 32 bits, but hardly any share 48. */
export function longIdHash(id: string): number {
  return hash("sha256", id, "buffer").readUIntBE(0, 6);
}

const shortHash = (long: number) => Math.floor(long / 2 ** 16);

/** The ids object of a segment (snapshots/SPEC.md, "Ids") from the hash of each id by ordinal. */
export function encodeIds(hashes: readonly number[]): Buffer {
  // Numbers sort without calling back: the ordinal fits below the hash.
  const entries = Float64Array.from(hashes, (hash, ordinal) => hash * 2 ** 16 + ordinal).sort();
  const stored = Buffer.alloc(entries.length * entryBytes);
  entries.forEach((entry, index) => {
    stored.writeUInt32LE(Math.floor(entry / 2 ** 16), index * hashBytes);
    stored.writeUInt16LE(entry % 2 ** 16, entries.length * hashBytes + index * 2);
  });
  return stored;
}

const countOf = (stored: Buffer) => stored.length / entryBytes;
const hashAt = (stored: Buffer, index: number) => stored.readUInt32LE(index * hashBytes);
const ordinalAt = (stored: Buffer, index: number) =>
  stored.readUInt16LE(countOf(stored) * hashBytes + index * 2);

/** Throws CorruptObjectError unless the ids object is of this many markets. `key` is the object's. */
export function requireIds(key: string, stored: Buffer, markets: number): void {
  if (stored.length !== markets * entryBytes)
    throw new CorruptObjectError(key, `it does not have ${entryBytes} bytes for each of ${markets} markets`);
  for (let index = 0; index < markets; index += 1)
    if (ordinalAt(stored, index) >= markets)
      throw new CorruptObjectError(key, `it names a market beyond the last of ${markets}`);
}

/** The hash of each id by ordinal. */
export function decodeIds(stored: Buffer): Uint32Array {
  const hashes = new Uint32Array(countOf(stored));
  for (let index = 0; index < hashes.length; index += 1)
    hashes[ordinalAt(stored, index)] = hashAt(stored, index);
  return hashes;
}

/** The entries with this hash are `from` (inclusive) to `to` (exclusive) of `entries`. */
export function entriesOf(stored: Buffer, wanted: number): { from: number; to: number; entries: number } {
  const entries = countOf(stored);
  const from = firstWhere(0, entries, (index) => hashAt(stored, index) >= wanted);
  const to = firstWhere(from, entries, (index) => hashAt(stored, index) > wanted);
  return { from, to, entries };
}

/** Two ids may share a hash. */
export function ordinalsOf(stored: Buffer, wanted: number): number[] {
  const { from, to } = entriesOf(stored, wanted);
  return Array.from({ length: to - from }, (_, index) => ordinalAt(stored, from + index));
}

/** The chunks that hold the hashes of entries `first` to `last` (inclusive). */
export function chunksOfEntries(first: number, last: number, chunkBytes: number): number[] {
  const chunk = Math.floor((first * hashBytes) / chunkBytes);
  const count = Math.floor(((last + 1) * hashBytes - 1) / chunkBytes) - chunk + 1;
  return Array.from({ length: count }, (_, index) => chunk + index);
}

/** Yields ordinals of markets whose ids may have one of these long hashes. */
export function* mayShare(stored: Buffer, ascending: Float64Array): Generator<number> {
  let position = 0;
  for (let index = 0; index < countOf(stored); index += 1) {
    const hash = hashAt(stored, index);
    while (position < ascending.length && shortHash(ascending[position]!) < hash) position += 1;
    if (position === ascending.length) return;
    if (shortHash(ascending[position]!) === hash) yield ordinalAt(stored, index);
  }
}

const bitsPerId = 16;
const probes = 8;

export const filterBytes = (ids: number): number => Math.ceil(ids / 2) * 4;

/** A Bloom filter over the ids of a segment. One in 1,700 other ids passes it too. */
export class IdFilter {
  readonly #words: Bitmap;
  readonly #bits: number;

  constructor(stored: Buffer) {
    const ids = countOf(stored);
    this.#words = new Uint32Array(filterBytes(ids) / 4);
    this.#bits = ids * bitsPerId;
    for (let index = 0; index < ids; index += 1) {
      const hash = hashAt(stored, index);
      for (let probe = 0; probe < probes; probe += 1) setBit(this.#words, this.#bitOf(hash, probe));
    }
  }

  get residentBytes(): number {
    return this.#words.byteLength;
  }

  mayHold(hash: number): boolean {
    for (let probe = 0; probe < probes; probe += 1)
      if (!hasBit(this.#words, this.#bitOf(hash, probe))) return false;
    return true;
  }

  /** One of eight places, at steps from the upper bits of a product, which depend on all bits of the hash. */
  #bitOf(hash: number, probe: number): number {
    const step = (Math.imul(hash, 0x9e3779b1) >>> 8) | 1;
    return (hash + probe * step) % this.#bits;
  }
}
