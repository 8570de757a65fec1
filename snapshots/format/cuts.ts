/** Sizes of pages and segments in markets, and the moduli for hashes of ids (snapshots/PUBLISHING.md, "Cuts"). */
export const cuts = {
  pageMin: 32,
  pageMax: 512,
  pageModulus: 96,
  segmentModulus: 160,
  segmentMax: 65_536,
} as const;

/**
 * A chunk of an export, which has a hash of its own; one unit pays for as many bytes. The last one of a file may be
 * shorter.
 */
export const chunkBytes = 256 * 1024;
