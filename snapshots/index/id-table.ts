import { hash } from "node:crypto";
import { firstWhere } from "../format/first-where.ts";

// An entry is a uint64: 48 bits of an id's hash above the 16 bits of an ordinal.
const entryBytes = 8;
const ordinalBytes = 2;
const ordinals = 2n ** 16n;

/** The first 48 bits of the SHA-256 of an id. Ids may be chosen by anyone, but hashes cannot be made to cluster. */
export function idHash(id: string): number {
  return hash("sha256", id, "buffer").readUIntBE(0, 6);
}

/** The ids object of a segment (snapshots/SPEC.md, "Ids"). Takes the hash of each id, by ordinal. */
export function encodeIds(hashes: readonly number[]): Buffer {
  const entries = BigUint64Array.from(hashes, (hash, ordinal) => BigInt(hash) * ordinals + BigInt(ordinal));
  return Buffer.from(entries.sort().buffer);
}

const hashAt = (stored: Buffer, index: number) => stored.readUIntLE(index * entryBytes + ordinalBytes, 6);

/** The hash of each id, by ordinal, from an ids object. */
export function decodeIds(stored: Buffer): Float64Array {
  const hashes = new Float64Array(stored.length / entryBytes);
  for (let index = 0; index < hashes.length; index += 1)
    hashes[stored.readUInt16LE(index * entryBytes)] = hashAt(stored, index);
  return hashes;
}

/** The ordinals of the markets whose ids have this hash; two ids may share one. */
export function ordinalsOf(stored: Buffer, wanted: number): number[] {
  const entries = stored.length / entryBytes;
  const from = firstWhere(0, entries, (index) => hashAt(stored, index) >= wanted);
  const found: number[] = [];
  for (let index = from; index < entries && hashAt(stored, index) === wanted; index += 1)
    found.push(stored.readUInt16LE(index * entryBytes));
  return found;
}

/** Whether an id of these ordinals has one of these hashes, which ascend. */
export function sharesHash(
  stored: Buffer,
  ascending: Float64Array,
  isWanted: (ordinal: number) => boolean,
): boolean {
  let place = 0;
  for (let index = 0; index < stored.length / entryBytes; index += 1) {
    const hash = hashAt(stored, index);
    while (place < ascending.length && ascending[place]! < hash) place += 1;
    if (place === ascending.length) return false;
    if (ascending[place] === hash && isWanted(stored.readUInt16LE(index * entryBytes))) return true;
  }
  return false;
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
    const ids = stored.length / entryBytes;
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

  /** One of eight places made of the two halves of a hash, which is nearly as good as eight hashes. */
  #bitOf(hash: number, probe: number): number {
    return ((hash % 2 ** 24) + probe * (Math.floor(hash / 2 ** 24) | 1)) % this.#bits;
  }
}
