/**
 * Where pages and segments are cut: the smallest and largest numbers of markets, and the moduli for the hashes of ids
 * (snapshots/SPEC.md, "Cuts").
 */
export const cuts = {
  pageMin: 32,
  pageMax: 512,
  pageModulus: 96,
  segmentModulus: 160,
  segmentMax: 65_536,
} as const;
