/** Control characters, and characters that are invisible or change the direction of text. A space is none of them. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Escapes text for a terminal. Text that others chose, such as a key's owner, could otherwise move the cursor, forge
 * lines or hide itself.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
