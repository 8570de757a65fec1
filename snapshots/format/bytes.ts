// Texts in bytes, as every JavaScript has them: the index is read outside Node too.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A text in UTF-8. */
export const bytesOf = (text: string): Uint8Array => encoder.encode(text);

/** Writes a text in UTF-8 into `bytes`, which must have room for it, and returns where it ends. */
export function writeText(text: string, bytes: Uint8Array, start: number): number {
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit > 127) return start + encoder.encodeInto(text, bytes.subarray(start)).written;
    bytes[start + at] = unit;
  }
  return start + text.length;
}

/** The text of bytes in UTF-8. What is not UTF-8 becomes U+FFFD. */
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes);

/**
 * Whether the first `length` bytes of `a` come before `b` (below 0), are `b` (0), or come after it. A beginning comes
 * before what it begins.
 */
export function compareBytes(a: Uint8Array, length: number, b: Uint8Array): number {
  const both = Math.min(length, b.length);
  for (let index = 0; index < both; index += 1) if (a[index] !== b[index]) return a[index]! - b[index]!;
  return length - b.length;
}
