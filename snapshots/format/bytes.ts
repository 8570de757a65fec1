// These functions need no Node, since browsers read the index too.

const encoder = new TextEncoder();
const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true });

export const bytesOf = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text);

/** `bytes` must have room for the text. Returns where the text ends. */
export function writeText(text: string, bytes: Uint8Array, start: number): number {
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit > 127) return start + encoder.encodeInto(text, bytes.subarray(start)).written;
    bytes[start + at] = unit;
  }
  return start + text.length;
}

/** Bytes that are not UTF-8 become U+FFFD. */
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes);

/** Lower case. */
export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Undefined for anything but 64 lower-case hex digits. */
export const hashFrom = (hex: unknown): Uint8Array | undefined =>
  typeof hex === "string" && /^[0-9a-f]{64}$/.test(hex)
    ? Uint8Array.from(hex.match(/../g)!, (digits) => Number.parseInt(digits, 16))
    : undefined;

/** One character for each byte. No TextDecoder does that: what it calls latin1 is windows-1252. */
export const toOctets = (bytes: ArrayLike<number>): string =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

export const fromOctets = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text, (octet) => octet.charCodeAt(0));

export const toBase64 = (bytes: Uint8Array): string => btoa(toOctets(bytes));

/** Undefined for any spelling but the one that toBase64 gives. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  let octets = "";
  try {
    octets = atob(text);
  } catch {}
  return btoa(octets) === text ? fromOctets(octets) : undefined;
}

/** Compares the first `length` bytes of `a` with `b`: below 0 if they come first, 0 if equal. A prefix comes first. */
export function compareBytes(a: Uint8Array, length: number, b: Uint8Array): number {
  const both = Math.min(length, b.length);
  for (let index = 0; index < both; index += 1) if (a[index] !== b[index]) return a[index]! - b[index]!;
  return length - b.length;
}

/** A copy with room for `size` numbers. */
export function enlarged<Numbers extends Uint8Array | Uint32Array | Float64Array>(
  numbers: Numbers,
  size: number,
): Numbers {
  const larger = new (numbers.constructor as new (size: number) => Numbers)(size);
  larger.set(numbers);
  return larger;
}

/** The first index in [from, to) where `holds` is true, or `to`. `holds` must stay true from there on. */
export function firstWhere(from: number, to: number, holds: (index: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Sizes of pages and segments in markets, and the moduli for hashes of ids (snapshots/PUBLISHING.md, "Cuts"). */
export const cuts = {
  pageMin: 32,
  pageMax: 512,
  pageModulus: 96,
  segmentModulus: 160,
  segmentMax: 65_536,
} as const;

/**
 * Decides after which markets a page or segment ends. It looks at ids only: when a market is added, removed or changed,
 * only the cuts near it move and most pages stay as they were.
 */
export class Cutter {
  #page = 0;
  #segment = 0;

  /** Takes the CRC-32 of each market's id, oldest first. Returns what ends after it: a segment ends its page too. */
  next(hash: number): "none" | "page" | "segment" {
    this.#page += 1;
    const wanted = this.#page >= cuts.pageMin && hash % cuts.pageModulus === 0;
    if (!wanted && this.#page < cuts.pageMax) return "none";
    return this.page(this.#page, wanted && Math.floor(hash / cuts.pageModulus) % cuts.segmentModulus === 0);
  }

  get atPageStart(): boolean {
    return this.#page === 0;
  }

  /** Takes a whole page whose end is already known. `rare` says whether the hash of its newest id ends a segment. */
  page(markets: number, rare: boolean): "page" | "segment" {
    this.#page = 0;
    this.#segment += markets;
    // Segment ordinals must fit into 16 bits, even if the next page is as large as a page can be.
    if (!rare && this.#segment + cuts.pageMax <= cuts.segmentMax) return "page";
    this.#segment = 0;
    return "segment";
  }
}

/** The bytes of a chunk, which has a hash of its own. The last one may have fewer (snapshots/SPEC.md, "Index root"). */
export const chunkBytes = {
  section: 4096,
  /** A proof that an id is absent holds a chunk of each segment. */
  ids: 256,
  /** Of a file of an export. One unit pays for as many bytes. */
  file: 256 * 1024,
} as const;

export const chunksOf = (whole: Uint8Array, size: number): Uint8Array[] =>
  Array.from({ length: Math.ceil(whole.length / size) }, (_, chunk) =>
    whole.subarray(chunk * size, (chunk + 1) * size),
  );

// Bounds that readers outside Node need too (snapshots/SPEC.md, "Maxima"). store/layout.ts has the others.

/** The most bytes of the JSON header of a segment, an index or words. */
export const maxHeaderBytes = 2 ** 20;
/** The most bytes of an object that a reader takes whole. */
export const maxObjectBytes = 256 * 2 ** 20;
