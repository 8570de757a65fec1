/** Sizes of pages and segments in markets, and the moduli for hashes of ids (snapshots/PUBLISHING.md, "Cuts"). */
export const cuts = {
  pageMin: 32,
  pageMax: 512,
  pageModulus: 96,
  segmentModulus: 160,
  segmentMax: 65_536,
} as const;

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
