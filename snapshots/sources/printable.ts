/** Control characters, and those that are invisible or turn the direction of text; a space is none of them. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Text as a terminal may show it. What others chose, such as a key's owner, could otherwise move the cursor, forge lines or
 * hide itself.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
