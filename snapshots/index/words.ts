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
