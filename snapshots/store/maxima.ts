import { cuts } from "../format/cuts.ts";
import { tooLarge } from "./corrupt-object.ts";
import { layout } from "./layout.ts";

// Everything here stands in the table of snapshots/SPEC.md, "Maxima". A hash shows only that an object is what somebody
// named, so each bound is checked before memory is taken.

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

// 512 markets, in runs that a bad compressor may have made a little longer than they are.
const pageBytes = cuts.pageMax * maxMarketBytes + mebibyte;

const maxBytes: readonly (readonly [prefix: string, bytes: number, suffix?: string])[] = [
  [layout.manifests, 16 * mebibyte],
  [layout.publicObjects, 64 * mebibyte],
  [layout.privateObjects, 16 * mebibyte],
  [layout.segments, 128 * mebibyte],
  [layout.rows, 8 * cuts.segmentMax],
  [layout.ids, 8 * cuts.segmentMax],
  [layout.origins, 4 * mebibyte],
  [layout.sourceFiles, 64 * mebibyte],
  [layout.words, 256 * mebibyte],
  [layout.pages, pageBytes],
  [layout.changes, 4 * mebibyte, ".json"],
  [layout.changes, pageBytes],
  [layout.exportChunks, mebibyte],
];

/** Refuses an object that is larger than one of its kind can be. Throws CorruptObjectError. */
export function requireSize(key: string, bytes: number): void {
  const [, most] =
    maxBytes.find(([prefix, _, suffix = ""]) => key.startsWith(prefix) && key.endsWith(suffix)) ?? [];
  if (most !== undefined && bytes > most) throw tooLarge(key, bytes, most);
}
