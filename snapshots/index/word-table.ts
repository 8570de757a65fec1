import type { QueryWord } from "../../schemas/filters.ts";
import { bytesOf, compareBytes, cuts, enlarged, firstWhere, textOf } from "../format/bytes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import type { Turn } from "../store/in-parallel.ts";
import { addBits, type Bitmap, hasBit, keepBits, setBit, wordsFor } from "./bitmap.ts";
import { openSections, sectionViews, uint32s } from "./sections.ts";

export const wordsMagic = "PRSWRD\r\n";
/** Bytes of postings that are read in 0.1 ms, and the bytes that count for a word beside its posting. */
const [pieceBytes, entryBytes] = [4096, 32];
/** Only the first word of a block is stored whole. */
export const blockWords = 16;

interface Entry {
  /** The word is the first `length` bytes, valid until the next word is read. */
  bytes: Uint8Array;
  length: number;
  postingStart: number;
  postingBytes: number;
}

/** The words of a segment in memory, as they are stored. */
export class WordTable {
  readonly markets: number;
  /** The version of Unicode that the words were made with. */
  readonly unicode: string;
  readonly residentBytes: number;
  readonly #key: string;
  readonly #words: number;
  readonly #blocks: Uint32Array;
  readonly #dictionary: Uint8Array;
  readonly #postings: Uint8Array;

  /** The bytes must have been checked against their hash; `key` is the object's, for errors. */
  constructor(key: string, stored: Uint8Array) {
    const { header, sections, body } = openSections(key, stored, wordsMagic);
    this.#key = key;
    this.markets = header.member("markets").integer(1, cuts.segmentMax);
    this.#words = header.member("words").integer(0);
    this.unicode = header.member("unicode").text();
    // A copy is aligned for typed arrays.
    const copy = new Uint8Array(body);
    const section = sectionViews(key, sections, copy);
    this.#blocks = uint32s(section("blocks", Math.ceil(this.#words / blockWords) * 8));
    this.#dictionary = section("dictionary");
    this.#postings = section("postings");
    this.residentBytes = copy.length;
  }

  /**
   * Clears in `result` every ordinal whose market lacks one of the words. Waits for a `turn` before each word and each
   * piece of about 0.1 ms.
   */
  async keepWords(words: readonly QueryWord[], result: Bitmap, turn: Turn): Promise<void> {
    for (const { text, prefix } of words) {
      const wanted = bytesOf(text);
      const kept = new Uint32Array(result.length);
      let read = 0;
      await turn();
      for (const entry of this.#entries(this.#blockOf(wanted))) {
        read += entryBytes + entry.postingBytes;
        if (read >= pieceBytes) await turn();
        read %= pieceBytes;
        const order = compareBytes(
          entry.bytes,
          prefix ? Math.min(entry.length, wanted.length) : entry.length,
          wanted,
        );
        if (order > 0) break;
        if (order === 0) this.#addPosting(entry, kept);
      }
      keepBits(result, kept);
    }
  }

  /** Ascending, each with the ordinals of its markets. */
  *words(): Generator<[word: string, ordinals: readonly number[]], void> {
    for (const entry of this.#entries(0))
      yield [textOf(entry.bytes.subarray(0, entry.length)), this.#ordinals(entry)];
  }

  /** The last block that begins no later than the wanted word; the first when all begin later. */
  #blockOf(wanted: Uint8Array): number {
    const isBehind = (block: number) => {
      const [first] = this.#entries(block);
      return compareBytes(first!.bytes, first!.length, wanted) > 0;
    };
    return firstWhere(1, this.#blocks.length / 2, isBehind) - 1;
  }

  /** From a block on, ascending. */
  *#entries(block: number): Generator<Entry, void> {
    const numbers = new Numbers(
      () => this.#corrupt("dictionary is cut off"),
      this.#dictionary,
      this.#blocks[block * 2] ?? 0,
    );
    let postingStart = this.#blocks[block * 2 + 1] ?? 0;
    let [bytes, length] = [new Uint8Array(64), 0];
    for (let index = block * blockWords; index < this.#words; index += 1) {
      const [shared, more, postingBytes] = [numbers.next(), numbers.next(), numbers.next()];
      // Otherwise each of millions of words could repeat the same megabytes.
      if (index % blockWords === 0) length = 0;
      if (shared > length || more > numbers.bytesLeft) throw this.#corrupt("dictionary is cut off");
      length = shared + more;
      if (length > bytes.length) bytes = enlarged(bytes, length * 2);
      numbers.read(bytes, shared, length);
      // Gaps longer than a bitmap are stored as one, so no word takes longer to read.
      if (postingBytes > wordsFor(this.markets) * 4) throw this.#corrupt("dictionary has too long a posting");
      yield { bytes, length, postingStart, postingBytes };
      postingStart += postingBytes;
    }
  }

  #addPosting(entry: Entry, result: Bitmap): void {
    if (entry.postingBytes === result.byteLength) addBits(result, this.#bitmap(entry));
    else for (const ordinal of this.#gaps(entry)) setBit(result, ordinal);
  }

  #ordinals(entry: Entry): number[] {
    if (entry.postingBytes !== wordsFor(this.markets) * 4) return this.#gaps(entry);
    const [bits, ordinals] = [this.#bitmap(entry), [] as number[]];
    for (let ordinal = 0; ordinal < this.markets; ordinal += 1)
      if (hasBit(bits, ordinal)) ordinals.push(ordinal);
    return ordinals;
  }

  #posting({ postingStart, postingBytes }: Entry): Uint8Array {
    const end = postingStart + postingBytes;
    if (end > this.#postings.length) throw this.#corrupt("postings is cut off");
    return this.#postings.subarray(postingStart, end);
  }

  #corrupt(fault: string): CorruptObjectError {
    return new CorruptObjectError(this.#key, `its section ${fault}`);
  }

  /** Copies, because postings are not aligned. */
  #bitmap(entry: Entry): Bitmap {
    return new Uint32Array(new Uint8Array(this.#posting(entry)).buffer);
  }

  #gaps(entry: Entry): number[] {
    const numbers = new Numbers(() => this.#corrupt("postings is cut off"), this.#posting(entry));
    const ordinals: number[] = [];
    for (let next = 0; numbers.bytesLeft > 0; next += 1) {
      next += numbers.next();
      if (next >= this.markets) throw this.#corrupt("postings names a market beyond the last");
      ordinals.push(next);
    }
    return ordinals;
  }
}

/** Reads numbers as encodePostings writes them. */
class Numbers {
  readonly #cutOff: () => CorruptObjectError;
  readonly #from: Uint8Array;
  #at: number;

  /** `cutOff` makes the error for a number that does not end. */
  constructor(cutOff: () => CorruptObjectError, from: Uint8Array, at = 0) {
    this.#cutOff = cutOff;
    this.#from = from;
    this.#at = at;
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
    throw this.#cutOff();
  }

  get bytesLeft(): number {
    return Math.max(0, this.#from.length - this.#at);
  }

  /** Fills `result` between two places. */
  read(result: Uint8Array, from: number, to: number): void {
    for (let at = from; at < to; at += 1) result[at] = this.#from[this.#at++]!;
  }
}

const word = /[\p{L}\p{M}\p{N}]+/gu;

/**
 * Characters that every version of Unicode from 12.0 on treats the same: as parts of words or not, and in what they
 * become, folded or in lower case (snapshots/SPEC.md, "Words").
 */
const settledRanges =
  "\\t\\n\\r -\\u0377\\u037a-\\u037f\\u0384-\\u038a\\u038c\\u038e-\\u03a1\\u03a3-\\u052f\\u05d0-\\u05ea" +
  "\\u061e-\\u070d\\u0900-\\u0983\\u0e01-\\u0e3a\\u0e3f-\\u0e5b\\u1e00-\\u1eff\\u2000-\\u2064" +
  "\\u20a0-\\u20bf\\u2100-\\u218b\\u2190-\\u2426\\u2460-\\u2b73\\u3000-\\u303f\\u3041-\\u3096" +
  "\\u3099-\\u30ff\\u3400-\\u4db5\\u4e00-\\u9fef\\uac00-\\ud7a3\\ufb00-\\ufb06\\ufe00-\\ufe0f" +
  "\\uff01-\\uffbe\\u{1f1e6}-\\u{1f1ff}\\u{1f300}-\\u{1f6d5}\\u{1f90d}-\\u{1f971}";
const unsettled = new RegExp(`[^${settledRanges}]`, "u");

/**
 * Words are cut from this form (INTERFACE 4.5). Whether a sigma is final depends on what follows, which the beginning
 * of a word does not tell: so all have one form.
 */
export function normalised(text: string): string {
  return text.normalize("NFKC").toLowerCase().replaceAll("ς", "σ");
}

/** Each word once (INTERFACE 4.5). */
export function wordsOf(text: string): string[] {
  return [...new Set(normalised(text).match(word) ?? [])];
}

/** Whether every version of Unicode from 12.0 on finds the same words. */
export const isSettled = (text: string) => !unsettled.test(text);

/** The words that every version finds, whatever it takes the other characters for. */
export function settledWordsOf(text: string): string[] {
  if (isSettled(text)) return wordsOf(text);
  const pieces = text.split(unsettled).map(normalised);
  // A word may go on with a character beside it that is not settled.
  const whole = pieces.map((piece, at) => {
    const from = at === 0 ? piece : piece.replace(/^[\p{L}\p{M}\p{N}]+/u, "");
    return at === pieces.length - 1 ? from : from.replace(/[\p{L}\p{M}\p{N}]+$/u, "");
  });
  return [...new Set(whole.flatMap((piece) => piece.match(word) ?? []))];
}
