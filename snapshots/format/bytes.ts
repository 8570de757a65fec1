// Texts in bytes, as every JavaScript has them: the index is read outside Node too.

const encoder = new TextEncoder();
const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true });

/** A text in UTF-8. */
export const bytesOf = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text);

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

/** Bytes in lower-case hexadecimal. */
export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The 32 bytes of a hash that stand for 64 hex digits; undefined for whatever else. */
export const hashFrom = (hex: unknown): Uint8Array | undefined =>
  typeof hex === "string" && /^[0-9a-f]{64}$/.test(hex)
    ? Uint8Array.from(hex.match(/../g)!, (digits) => Number.parseInt(digits, 16))
    : undefined;

/** Bytes as a text of one character each, which no TextDecoder makes. */
export const toOctets = (bytes: ArrayLike<number>): string =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

/** The bytes that the characters of a text are. */
export const fromOctets = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text, (octet) => octet.charCodeAt(0));

/** Bytes in base64. */
export const toBase64 = (bytes: Uint8Array): string => btoa(toOctets(bytes));

/** What a text of base64 has; undefined when it is none, or has another spelling. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  let octets = "";
  try {
    octets = atob(text);
  } catch {}
  return btoa(octets) === text ? fromOctets(octets) : undefined;
}

/**
 * Whether the first `length` bytes of `a` come before `b` (below 0), are `b` (0), or come after it. A beginning comes
 * before what it begins.
 */
export function compareBytes(a: Uint8Array, length: number, b: Uint8Array): number {
  const both = Math.min(length, b.length);
  for (let index = 0; index < both; index += 1) if (a[index] !== b[index]) return a[index]! - b[index]!;
  return length - b.length;
}
