import { z } from "zod";
import type { QueryWord } from "../../schemas/filters.ts";
import { formatVersion } from "../../schemas/snapshot.ts";
import { firstWhere } from "../format/first-where.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { addBits, type Bitmap, hasBit, keepBits, setBit, wordsFor } from "./bitmap.ts";
import {
  openSections,
  SectionTable,
  SectionWriter,
  sealSections,
  sectionLookup,
  uint32s,
} from "./sections.ts";
import { unicodeVersion } from "./words.ts";

const magic = Buffer.from("PRSWRD\r\n");
/** What is read of postings in a tenth of a millisecond, and how much of that time a word takes. */
const [pieceBytes, entryBytes] = [4096, 32];
/** Words of a block. Only the first of them is stored whole. */
const blockWords = 16;

const WordsHeader = z.object({
  formatVersion: z.literal(formatVersion),
  markets: z.int().min(1).max(65_536),
  words: z.int().min(0),
  unicode: z.string(),
  sections: SectionTable,
});

/** Growing bytes. */
class Bytes {
  #bytes = Buffer.alloc(1024);
  length = 0;

  add(more: Uint8Array): void {
    this.#reserve(more.length);
    this.#bytes.set(more, this.length);
    this.length += more.length;
  }

  /** Adds a string whose characters stand for a byte each. */
  addLatin1(text: string): void {
    this.#reserve(text.length);
    this.length += this.#bytes.write(text, this.length, "latin1");
  }

  /** LEB128: seven bits a byte, the lowest first; all bytes but the last have the highest bit set. */
  addNumber(number: number): void {
    this.#reserve(5);
    let rest = number;
    for (; rest > 127; rest >>>= 7) this.#push((rest & 127) | 128);
    this.#push(rest);
  }

  get all(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  #push(byte: number): void {
    this.#bytes[this.length] = byte;
    this.length += 1;
  }

  #reserve(more: number): void {
    while (this.length + more > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes], this.#bytes.length * 2);
  }
}

/**
 * The words object of a segment (snapshots/SPEC.md, "Words"). Takes the words of each market, by ordinal, and the
 * version of Unicode that they were made by.
 */
export function encodeWords(markets: readonly (readonly string[])[], unicode = unicodeVersion): Buffer {
  const words = sortedWords(markets);
  const [dictionary, postings] = [new Bytes(), new Bytes()];
  const blocks: number[] = [];
  let before = "";
  for (const [index, { bytes, ordinals }] of words.entries()) {
    const first = index % blockWords === 0;
    const postingStart = postings.length;
    if (first) blocks.push(dictionary.length, postingStart);
    const shared = first ? 0 : sharedLength(before, bytes);
    addPosting(postings, ordinals, markets.length);
    for (const number of [shared, bytes.length - shared, postings.length - postingStart])
      dictionary.addNumber(number);
    dictionary.addLatin1(bytes.slice(shared));
    before = bytes;
  }
  const sections = new SectionWriter();
  sections.add("blocks", Uint32Array.from(blocks));
  sections.add("dictionary", dictionary.all);
  sections.add("postings", postings.all);
  const header = { formatVersion, markets: markets.length, words: words.length, unicode };
  return sealSections(magic, { ...header, sections: sections.sections }, sections.parts);
}

/** A word as a string of its bytes in UTF-8, a character each, and the markets that have it. */
interface Word {
  bytes: string;
  ordinals: number[];
}

/**
 * The words of all markets in the order of their bytes. Strings of bytes compare, and share beginnings, as the bytes
 * do.
 */
function sortedWords(markets: readonly (readonly string[])[]): Word[] {
  const found = new Map<string, number[]>();
  for (const [ordinal, words] of markets.entries()) {
    for (const text of words) {
      const known = found.get(text);
      if (known) known.push(ordinal);
      else found.set(text, [ordinal]);
    }
  }
  return Array.from(found, ([text, ordinals]) => ({
    bytes: Buffer.from(text).toString("latin1"),
    ordinals,
  })).sort((a, b) => (a.bytes < b.bytes ? -1 : 1));
}

function sharedLength(a: string, b: string): number {
  let shared = 0;
  while (shared < a.length && a.charCodeAt(shared) === b.charCodeAt(shared)) shared += 1;
  return shared;
}

/** Adds the gaps between ascending ordinals, or a bitmap where that is no longer. The length tells which. */
function addPosting(postings: Bytes, ordinals: readonly number[], markets: number): void {
  const [start, bitmapWords] = [postings.length, wordsFor(markets)];
  let next = 0;
  for (const ordinal of ordinals) {
    postings.addNumber(ordinal - next);
    next = ordinal + 1;
  }
  if (postings.length - start < bitmapWords * 4) return;
  postings.length = start;
  const bitmap = new Uint32Array(bitmapWords);
  for (const ordinal of ordinals) setBit(bitmap, ordinal);
  postings.add(new Uint8Array(bitmap.buffer));
}

/** A word of the table: its bytes, and its posting. */
interface Entry {
  bytes: Buffer;
  postingStart: number;
  postingBytes: number;
}

/** The words of a segment in memory, as they are stored. */
export class WordTable {
  readonly markets: number;
  /** The version of Unicode that the words were made by. */
  readonly unicode: string;
  readonly residentBytes: number;
  readonly #key: string;
  readonly #words: number;
  readonly #blocks: Uint32Array;
  readonly #dictionary: Buffer;
  readonly #postings: Buffer;

  /** Takes bytes that were checked against their hash; `key` is the object's, for errors. Throws CorruptObjectError. */
  constructor(key: string, stored: Buffer) {
    const { header, body } = openSections(key, stored, magic, WordsHeader);
    // A copy is aligned for typed arrays.
    const copy = new Uint8Array(body).buffer;
    const section = sectionLookup(key, header, copy.byteLength);
    this.#key = key;
    this.markets = header.markets;
    this.unicode = header.unicode;
    this.#words = header.words;
    this.#blocks = uint32s(copy, section("blocks", Math.ceil(header.words / blockWords) * 8));
    this.#dictionary = Buffer.from(copy, ...section("dictionary"));
    this.#postings = Buffer.from(copy, ...section("postings"));
    this.residentBytes = copy.byteLength;
  }

  /**
   * Clears every ordinal in `result` whose market lacks one of the words. Waits for a `turn` before each word and each
   * piece of about a tenth of a millisecond. Throws CorruptObjectError.
   */
  async keepWords(words: readonly QueryWord[], result: Bitmap, turn: () => Promise<void>): Promise<void> {
    for (const { text, prefix } of words) {
      const wanted = Buffer.from(text);
      const kept = new Uint32Array(result.length);
      let read = 0;
      await turn();
      for (const entry of this.#entries(this.#blockOf(wanted))) {
        read += entryBytes + entry.postingBytes;
        if (read >= pieceBytes) await turn();
        read %= pieceBytes;
        const order = Buffer.compare(entry.bytes.subarray(0, prefix ? wanted.length : undefined), wanted);
        if (order > 0) break;
        if (order === 0) this.#addPosting(entry, kept);
      }
      keepBits(result, kept);
    }
  }

  /** The words of each market, by ordinal. Throws CorruptObjectError. */
  decode(): string[][] {
    const markets = Array.from({ length: this.markets }, (): string[] => []);
    for (const entry of this.#entries(0)) {
      const text = entry.bytes.toString();
      for (const ordinal of this.#ordinals(entry)) markets[ordinal]!.push(text);
    }
    return markets;
  }

  /** The last block whose first word is not behind the wanted one; the first when all are. */
  #blockOf(wanted: Buffer): number {
    const isBehind = (block: number) => {
      const [first] = this.#entries(block);
      return Buffer.compare(first!.bytes, wanted) > 0;
    };
    return firstWhere(1, this.#blocks.length / 2, isBehind) - 1;
  }

  /** The words from a block on, in ascending order. */
  *#entries(block: number): Generator<Entry, void> {
    const numbers = new Numbers(this.#key, this.#dictionary, this.#blocks[block * 2] ?? 0);
    let postingStart = this.#blocks[block * 2 + 1] ?? 0;
    let bytes: Buffer = Buffer.alloc(0);
    for (let index = block * blockWords; index < this.#words; index += 1) {
      const [shared, more, postingBytes] = [numbers.next(), numbers.next(), numbers.next()];
      bytes = Buffer.concat([bytes.subarray(0, shared), numbers.bytes(more)]);
      yield { bytes, postingStart, postingBytes };
      postingStart += postingBytes;
    }
  }

  #addPosting(entry: Entry, result: Bitmap): void {
    if (entry.postingBytes === result.byteLength) addBits(result, this.#bitmap(entry));
    else for (const ordinal of this.#gaps(entry)) setBit(result, ordinal);
  }

  *#ordinals(entry: Entry): Generator<number, void> {
    if (entry.postingBytes !== wordsFor(this.markets) * 4) return yield* this.#gaps(entry);
    const bits = this.#bitmap(entry);
    for (let ordinal = 0; ordinal < this.markets; ordinal += 1) if (hasBit(bits, ordinal)) yield ordinal;
  }

  #posting({ postingStart, postingBytes }: Entry): Buffer {
    return this.#postings.subarray(postingStart, postingStart + postingBytes);
  }

  /** A copy, because postings are not aligned. */
  #bitmap(entry: Entry): Bitmap {
    return new Uint32Array(new Uint8Array(this.#posting(entry)).buffer);
  }

  *#gaps(entry: Entry): Generator<number, void> {
    const numbers = new Numbers(this.#key, this.#posting(entry));
    for (let next = 0; !numbers.ended; next += 1) {
      next += numbers.next();
      if (next >= this.markets) throw new CorruptObjectError(this.#key, "it names a market beyond the last");
      yield next;
    }
  }
}

/** Reads numbers as Bytes.addNumber writes them. */
class Numbers {
  readonly #key: string;
  readonly #from: Buffer;
  #at: number;

  constructor(key: string, from: Buffer, at = 0) {
    this.#key = key;
    this.#from = from;
    this.#at = at;
  }

  get ended(): boolean {
    return this.#at >= this.#from.length;
  }

  next(): number {
    let number = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#from[this.#at];
      if (byte === undefined) break;
      this.#at += 1;
      number |= (byte & 127) << shift;
      if (byte < 128) return number >>> 0;
    }
    throw new CorruptObjectError(this.#key, "its words are cut off");
  }

  bytes(length: number): Buffer {
    this.#at += length;
    return this.#from.subarray(this.#at - length, this.#at);
  }
}
