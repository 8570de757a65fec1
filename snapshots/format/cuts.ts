/** The fewest and most markets of pages and segments, and the moduli for hashes of ids (snapshots/SPEC.md, "Cuts"). */
export const cuts = {
  pageMin: 32,
  pageMax: 512,
  pageModulus: 96,
  segmentModulus: 160,
  segmentMax: 65_536,
} as const;
