import { CorruptObjectError } from "../store/errors.ts";
import { encodeWords } from "./encode-words.ts";
import { unicodeVersion } from "./unicode.ts";
import { WordTable } from "./word-table.ts";
import { isSettled, settledWordsOf, wordsOf } from "./words.ts";

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
  const told = questions.map((): string[] => []);
  // No question has as many words, and a hostile object would take all memory.
  for (const [word, ordinals] of table.words())
    for (const ordinal of ordinals)
      if (told[ordinal]!.push(word) > longestForm * questions[ordinal]!.length) throw wrong;
  if (!encodeWords(told, unicode).equals(stored)) throw wrong;
  for (const [ordinal, question] of questions.entries()) {
    const [words, settled] = [new Set(told[ordinal]), settledWordsOf(question)];
    const others = words.size > settled.length && isSettled(question);
    if (others || !settled.every((word) => words.has(word))) throw wrong;
  }
  return "unjudged";
}
