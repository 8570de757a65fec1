import { formatVersion } from "../../schemas/versions.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { setBit, wordsFor } from "./bitmap.ts";
import { encodeSections } from "./sections.ts";
import { blockWords, isSettled, settledWordsOf, WordTable, wordsMagic, wordsOf } from "./word-table.ts";

/** Decides what is a letter and how texts are normalised: words of another version may differ. */
export const unicodeVersion = process.versions.unicode ?? "none";

/** Adds a number as LEB128: seven bits a byte, the lowest first. All bytes but the last have the highest bit set. */
function addNumber(bytes: number[], number: number): void {
  let rest = number;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  bytes.push(rest);
}

/** The ordinals of the markets with a word, in any order. */
export type Postings = Map<string, number[]>;

export function addWords(postings: Postings, words: readonly string[], ordinal: number): void {
  for (const word of words) {
    const posting = postings.get(word);
    if (posting) posting.push(ordinal);
    else postings.set(word, [ordinal]);
  }
}

/** Adds words with the positions of their markets; those at -1 are left out. */
export function addPostings(
  postings: Postings,
  words: Iterable<readonly [word: string, ordinals: readonly number[]]>,
  positions: Int32Array,
): void {
  for (const [word, ordinals] of words) {
    const posting = postings.get(word) ?? [];
    for (const ordinal of ordinals) if (positions[ordinal]! >= 0) posting.push(positions[ordinal]!);
    if (posting.length > 0) postings.set(word, posting);
  }
}

/** As encodePostings, from the words of each market by ordinal. */
export function encodeWords(markets: readonly (readonly string[])[], unicode?: string): Buffer {
  const postings: Postings = new Map();
  for (const [ordinal, words] of markets.entries()) addWords(postings, words, ordinal);
  return encodePostings(postings, markets.length, unicode);
}

/** The words object of a segment (snapshots/SPEC.md, "Words"). The words were made with this version of Unicode. */
export function encodePostings(byWord: Postings, markets: number, unicode = unicodeVersion): Buffer {
  // Strings with one character for each byte compare, and share beginnings, as the bytes do.
  const words = Array.from(byWord, ([text, ordinals]) => ({
    bytes: Buffer.from(text).toString("latin1"),
    ordinals: ordinals.sort((a, b) => a - b),
  })).sort((a, b) => (a.bytes < b.bytes ? -1 : 1));
  const [dictionary, postings, blocks]: [number[], number[], number[]] = [[], [], []];
  let before = "";
  for (const [index, { bytes, ordinals }] of words.entries()) {
    const first = index % blockWords === 0;
    const postingStart = postings.length;
    if (first) blocks.push(dictionary.length, postingStart);
    const shared = first ? 0 : sharedLength(before, bytes);
    addPosting(postings, ordinals, markets);
    for (const number of [shared, bytes.length - shared, postings.length - postingStart])
      addNumber(dictionary, number);
    for (let at = shared; at < bytes.length; at += 1) dictionary.push(bytes.charCodeAt(at));
    before = bytes;
  }
  const header = { formatVersion, markets, words: words.length, unicode };
  const object = encodeSections(wordsMagic, header, [
    ["blocks", Uint32Array.from(blocks)],
    ["dictionary", new Uint8Array(dictionary)],
    ["postings", new Uint8Array(postings)],
  ]);
  return Buffer.from(object.buffer);
}

function sharedLength(a: string, b: string): number {
  let shared = 0;
  while (shared < a.length && a.charCodeAt(shared) === b.charCodeAt(shared)) shared += 1;
  return shared;
}

/**
 * Adds the gaps between ascending ordinals, or a bitmap where that is no longer. Its length tells which of the two a
 * posting is.
 */
function addPosting(postings: number[], ordinals: readonly number[], markets: number): void {
  const [start, bitmapWords] = [postings.length, wordsFor(markets)];
  let next = 0;
  for (const ordinal of ordinals) {
    addNumber(postings, ordinal - next);
    next = ordinal + 1;
  }
  if (postings.length - start < bitmapWords * 4) return;
  postings.length = start;
  const bitmap = new Uint32Array(bitmapWords);
  for (const ordinal of ordinals) setBit(bitmap, ordinal);
  for (const byte of new Uint8Array(bitmap.buffer)) postings.push(byte);
}

/** NFKC makes at most this many characters of one. */
const longestForm = 18;

/**
 * Compares a words object with the questions of a segment, by ordinal. Words that every version of Unicode finds are
 * compared whichever version made the object. "unjudged": there are others, which only that version can judge.
 */
export function checkWords(
  key: string,
  stored: Uint8Array,
  { segment, questions }: { segment: string; questions: readonly string[] },
): "right" | "unjudged" {
  const table = new WordTable(key, stored);
  const { unicode } = table;
  if (encodeWords(questions.map(wordsOf), unicode).equals(stored)) return "right";
  const wrong = new CorruptObjectError(key, `it does not match the questions of the markets of ${segment}`);
  if (unicode === unicodeVersion || table.markets !== questions.length) throw wrong;
  const wordLists = questions.map((): string[] => []);
  // No question has words of as many characters, and a hostile object would take all memory.
  const room = questions.map(({ length }) => longestForm * length + 1);
  for (const [word, ordinals] of table.words())
    for (const ordinal of ordinals) {
      room[ordinal]! -= word.length + 1;
      if (room[ordinal]! < 0) throw wrong;
      wordLists[ordinal]!.push(word);
    }
  if (!encodeWords(wordLists, unicode).equals(stored)) throw wrong;
  for (const [ordinal, question] of questions.entries()) {
    const [words, settled] = [new Set(wordLists[ordinal]), settledWordsOf(question)];
    const others = words.size > settled.length && isSettled(question);
    if (others || !settled.every((word) => words.has(word))) throw wrong;
  }
  return "unjudged";
}
