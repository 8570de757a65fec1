const word = /[\p{L}\p{M}\p{N}]+/gu;

/** A text as its words are cut from it (INTERFACE 4.5). */
export function normalised(text: string): string {
  return text.normalize("NFKC").toLowerCase();
}

/** The words of a text, each once (INTERFACE 4.5). */
export function wordsOf(text: string): string[] {
  return [...new Set(normalised(text).match(word) ?? [])];
}
