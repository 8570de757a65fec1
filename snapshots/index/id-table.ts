import { hash } from "node:crypto";
import { firstWhere } from "../format/first-where.ts";
import { CorruptObjectError } from "../store/errors.ts";

// The hashes of all ids in ascending order, 32 bits each, and behind them the ordinals in the same order, 16 bits each.
const hashBytes = 4;
const entryBytes = hashBytes + 2;

/** The first 32 bits of the SHA-256 of an id. Ids may be chosen by anyone, but hashes cannot be made to cluster. */
export function idHash(id: string): number {
  return shortHash(longIdHash(id));
}

/** The first 48 bits: two of a hundred million ids share 32, but hardly two share these. */
export function longIdHash(id: string): number {
  return hash("sha256", id, "buffer").readUIntBE(0, 6);
}

const shortHash = (long: number) => Math.floor(long / 2 ** 16);

/** The ids object of a segment (snapshots/SPEC.md, "Ids"). Takes the hash of each id, by ordinal. */
export function encodeIds(hashes: readonly number[]): Buffer {
  // As floating point numbers, which sort without calling back: the ordinal fits below the hash.
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

/** Throws CorruptObjectError unless an ids object is of so many markets. `key` is the object's. */
export function requireIds(key: string, stored: Buffer, markets: number): void {
  if (stored.length !== markets * entryBytes)
    throw new CorruptObjectError(key, `it does not have ${entryBytes} bytes for each of ${markets} markets`);
  for (let index = 0; index < markets; index += 1)
    if (ordinalAt(stored, index) >= markets)
      throw new CorruptObjectError(key, `it names a market beyond the last of ${markets}`);
}

/** The hash of each id, by ordinal, from an ids object. */
export function decodeIds(stored: Buffer): Uint32Array {
  const hashes = new Uint32Array(countOf(stored));
  for (let index = 0; index < hashes.length; index += 1)
    hashes[ordinalAt(stored, index)] = hashAt(stored, index);
  return hashes;
}

/** Where the entries of this hash are among all `entries`: from (inclusive) to (exclusive). */
export function entriesOf(stored: Buffer, wanted: number): { from: number; to: number; entries: number } {
  const entries = countOf(stored);
  const from = firstWhere(0, entries, (index) => hashAt(stored, index) >= wanted);
  const to = firstWhere(from, entries, (index) => hashAt(stored, index) > wanted);
  return { from, to, entries };
}

/** The ordinals of the markets whose ids have this hash; two ids may share one. */
export function ordinalsOf(stored: Buffer, wanted: number): number[] {
  const { from, to } = entriesOf(stored, wanted);
  return Array.from({ length: to - from }, (_, index) => ordinalAt(stored, from + index));
}

/** The chunks of a section of ids that hold these entries, from `first` to `last` (inclusive). */
export function chunksOfEntries(first: number, last: number, chunkBytes: number): number[] {
  const chunk = Math.floor((first * hashBytes) / chunkBytes);
  const count = Math.floor(((last + 1) * hashBytes - 1) / chunkBytes) - chunk + 1;
  return Array.from({ length: count }, (_, index) => chunk + index);
}

/** The ordinals of those markets whose ids may have one of these long hashes, which ascend. */
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

/** The memory that the filter of so many ids takes. */
export const filterBytes = (ids: number): number => Math.ceil(ids / 2) * 4;

/** A Bloom filter over the ids of a segment: it knows every id of the segment, and one of 1,700 others. */
export class IdFilter {
  readonly #words: Uint32Array;
  readonly #bits: number;

  constructor(stored: Buffer) {
    const ids = countOf(stored);
    this.#words = new Uint32Array(filterBytes(ids) / 4);
    this.#bits = ids * bitsPerId;
    for (let index = 0; index < ids; index += 1) {
      const hash = hashAt(stored, index);
      for (let probe = 0; probe < probes; probe += 1) {
        const bit = this.#bitOf(hash, probe);
        this.#words[bit >>> 5]! |= 1 << (bit & 31);
      }
    }
  }

  mayHold(hash: number): boolean {
    for (let probe = 0; probe < probes; probe += 1) {
      const bit = this.#bitOf(hash, probe);
      if (((this.#words[bit >>> 5]! >>> (bit & 31)) & 1) === 0) return false;
    }
    return true;
  }

  /** One of eight places, by a step that the upper bits of a product make: they depend on all bits of the hash. */
  #bitOf(hash: number, probe: number): number {
    const step = (Math.imul(hash, 0x9e3779b1) >>> 8) | 1;
    return (hash + probe * step) % this.#bits;
  }
}
