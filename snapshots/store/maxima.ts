import { cuts } from "../format/cuts.ts";

// Everything here and in the table of layout.ts stands in the table of snapshots/SPEC.md, "Maxima". A hash shows only
// that an object is what somebody named, so each bound is checked before memory is taken.

const mebibyte = 2 ** 20;

/** Bytes of a market's JSON text at most (INTERFACE 8.3). */
export const maxMarketBytes = 256 * 1024;
/** Bytes of a JSON header of a segment, or of words. */
export const maxHeaderBytes = mebibyte;
/** Bytes of those sections of a segment that queries need; those that this version knows have 2 MiB at most. */
export const maxResidentBytes = 4 * mebibyte;

/** The raw bytes of a run of so many markets at most; `around` is what stands beside each. */
export function maxRunBytes(markets: number, around: number): number {
  return markets * (maxMarketBytes + around);
}

/** Bytes of a page: 512 markets, in runs that a bad compressor may have made a little longer than they are. */
export const maxPageBytes = cuts.pageMax * maxMarketBytes + mebibyte;
