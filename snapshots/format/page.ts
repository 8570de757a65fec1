import { crc32, inflateRawSync } from "node:zlib";
import { CorruptObjectError } from "../store/errors.ts";
import { maxRunBytes, sha256 } from "../store/layout.ts";
import type { ByteRange } from "../store/storage.ts";
import { combineCrc } from "./crc.ts";
import {
  compressPieceSync,
  type DeflatePiece,
  gzipHeader,
  inflateOptions,
  inflatePieces,
  joinGzip,
  storedHeaderBytes,
  storedPiece,
} from "./gzip.ts";

/**
 * Markets per run; the last run of a page may have fewer (snapshots/SPEC.md, "Pages"). Runs of 32 would make pages 8 %
 * smaller, but reading a single market twice as expensive.
 */
export const runMarkets = 16;
/** The zlib level at which runs are compressed. */
const runLevel = 6;

/** The bytes between two markets, both in pages and in responses. */
export const separator = Buffer.from(",\n");
/** Raw bytes of a run of a page at most. */
export const maxPageRunBytes = maxRunBytes(runMarkets, separator.length);
const separatorCrc = crc32(separator);
const opening = Buffer.from("[\n");
const closing = Buffer.from("\n]");

/** A run of a page: its compressed and raw length in bytes, and the CRC-32 of its raw bytes. */
export interface Run {
  compressedBytes: number;
  rawBytes: number;
  crc: number;
}

/** A page's entry in the page table, as far as reading the page needs it. */
export interface StoredPage {
  markets: number;
  /** The SHA-256 of the stored bytes. */
  hash: string;
  /** The stored size in bytes. */
  bytes: number;
  runs: Run[];
}

/** The bytes of a run's hash: the first half of the SHA-256 of its compressed bytes. */
export const runHashBytes = 16;

/** A page as it was compressed, with the hashes of its runs one after the other, in hexadecimal. */
export interface CompressedPage extends StoredPage {
  runHashes: string;
}

/** A page's whole entry in the page table of its segment. */
export interface Page extends CompressedPage {
  /** The root of the tree over its markets (snapshots/SPEC.md, "Roots"), in hexadecimal. */
  root: string;
}

/**
 * The JSON text of a page: an array of markets, newest first, one per line. The buffer shares its memory with no other
 * buffer, so it can be transferred to another thread.
 */
export function pageText(lines: readonly Buffer[]): Buffer<ArrayBuffer> {
  const between = Math.max(0, lines.length - 1) * separator.length;
  const bytes = lines.reduce((sum, line) => sum + line.length, opening.length + between + closing.length);
  const text = Buffer.allocUnsafeSlow(bytes);
  let end = opening.copy(text);
  lines.forEach((line, position) => {
    if (position > 0) end += separator.copy(text, end);
    end += line.copy(text, end);
  });
  closing.copy(text, end);
  return text;
}

/** A page's table entry, except for its root, and the bytes to store. */
export interface BuiltPage {
  page: CompressedPage;
  stored: Buffer;
}

/** Compresses a page's text on the calling thread, which takes about 5 ms. */
export function compressPage(text: Buffer): BuiltPage {
  const { markets, raws } = runTexts(text);
  const pieces = raws.map((raw) => compressPieceSync(raw, runLevel));
  const joint = storedPiece(separator);
  const between = pieces.flatMap((piece, position) => (position === 0 ? [piece] : [joint, piece]));
  const stored = joinGzip([storedPiece(opening), ...between, storedPiece(closing, true)]);
  const runs = pieces.map(({ bytes, rawBytes, crc }) => ({ compressedBytes: bytes.length, rawBytes, crc }));
  const runHashes = runHashesOf(stored, runs);
  return { page: { markets, hash: sha256(stored), bytes: stored.length, runs, runHashes }, stored };
}

/**
 * Splits a page's text into the texts of its runs, without the separators between runs. A market's JSON text never
 * contains a line break.
 */
function runTexts(text: Buffer): { markets: number; raws: Buffer[] } {
  const raws: Buffer[] = [];
  let markets = 0;
  let start = opening.length;
  const last = text.length - closing.length;
  for (let end = start; end < last; end += 1) {
    end = text.indexOf(10, end);
    markets += 1;
    if (end === last) raws.push(text.subarray(start, last));
    else if (markets % runMarkets === 0) {
      raws.push(text.subarray(start, end - 1));
      start = end + 1;
    }
  }
  return { markets, raws };
}

const firstRunOffset = gzipHeader.length + storedHeaderBytes + opening.length;
const betweenRuns = storedHeaderBytes + separator.length;

/** Where the runs from `first` to `last` (inclusive) are in a stored page, with the separators between them. */
export function rangeOfRuns(runs: readonly Run[], first: number, last = first): ByteRange {
  const lengthOf = (some: readonly Run[]) =>
    some.reduce((sum, { compressedBytes }) => sum + compressedBytes + betweenRuns, 0);
  const offset = firstRunOffset + lengthOf(runs.slice(0, first));
  return { offset, bytes: lengthOf(runs.slice(first, last + 1)) - betweenRuns };
}

/**
 * The runs from `first` to `last` (inclusive) of a stored page as one deflate piece, with the separators between them.
 */
export function runsPiece(stored: Buffer, runs: readonly Run[], first: number, last = first): DeflatePiece {
  const { offset, bytes } = rangeOfRuns(runs, first, last);
  let { rawBytes, crc } = runs[first]!;
  for (const run of runs.slice(first + 1, last + 1)) {
    crc = combineCrc(combineCrc(crc, separatorCrc, separator.length), run.crc, run.rawBytes);
    rawBytes += separator.length + run.rawBytes;
  }
  return { bytes: stored.subarray(offset, offset + bytes), rawBytes, crc };
}

const runHashOf = (bytes: Buffer) => sha256(bytes).slice(0, 2 * runHashBytes);

/** The hashes of a stored page's runs. */
export function runHashesOf(stored: Buffer, runs: readonly Run[]): string {
  return runs.map((_, run) => runHashOf(runsPiece(stored, runs, run).bytes)).join("");
}

/** Whether bytes are those of a page's run, by its hash. */
export function isRun({ runHashes }: CompressedPage, index: number, bytes: Buffer): boolean {
  return runHashOf(bytes) === runHashes.slice(2 * runHashBytes * index, 2 * runHashBytes * (index + 1));
}

/** The JSON texts of a run's markets, newest first. `key` is the page's, for errors. */
export function readRun(key: string, stored: Buffer, runs: readonly Run[], index: number): Buffer[] {
  return splitLines(inflatePiece(key, index, runsPiece(stored, runs, index)));
}

/** The raw bytes of a run, checked against its entry in the table. */
export function inflatePiece(key: string, index: number, { bytes, rawBytes, crc }: DeflatePiece): Buffer {
  const raw = inflate(key, index, bytes, rawBytes);
  if (raw.length !== rawBytes || crc32(raw) !== crc) {
    throw new CorruptObjectError(key, `run ${index} is not what its table says`);
  }
  return raw;
}

/** A run of a page, for errors with the page's key, and its compressed bytes. */
export interface StoredRun {
  key: string;
  index: number;
  piece: DeflatePiece;
}

/**
 * The raw bytes of runs, one after the other, inflated at once on Node's thread pool. Their CRCs are not checked, so
 * their hashes or their pages' must have been.
 */
export async function inflateRuns(runs: readonly StoredRun[]): Promise<Buffer> {
  const pieces = runs.map(({ piece }) => piece);
  const raw = await inflatePieces(pieces).catch(() => undefined);
  if (raw && fitsRuns(raw, pieces)) return raw;
  // One of them is not what its table says, and is named here.
  return Buffer.concat(runs.map(({ key, index, piece }) => inflatePiece(key, index, piece)));
}

const [brace, endBrace] = Buffer.from("{}");

/** Whether each run begins and ends where its table says. */
function fitsRuns(raw: Buffer, pieces: readonly DeflatePiece[]): boolean {
  let end = 0;
  const each = pieces.every(({ rawBytes }) => {
    const start = end;
    end += rawBytes;
    return raw[start] === brace && raw[end - 1] === endBrace;
  });
  return each && end === raw.length;
}

// The first markets take a larger share of a run's compressed bytes, because later ones refer back to them. With this
// many extra markets in the estimate, one read in thirty inflates too little and has to be repeated.
const headStart = 8;

/**
 * At least the first `count` of the `markets` in a run, as readRun returns them. Inflates only the start of the run
 * when that suffices, which saves a quarter of the work for one market. The run's CRC is then not checked, so its hash
 * or the page's must have been.
 */
export function readRunStart({ key, index, piece }: StoredRun, markets: number, count: number): Buffer[] {
  const share = (count + headStart) / (markets + headStart);
  if (share < 1) {
    const { bytes, rawBytes } = piece;
    const start = inflate(key, index, bytes.subarray(0, Math.ceil(bytes.length * share)), rawBytes, share);
    const lines = splitLines(start);
    // The last line may be cut off.
    if (lines.length > count) return lines.slice(0, -1);
  }
  return splitLines(inflatePiece(key, index, piece));
}

function inflate(key: string, index: number, bytes: Buffer, rawBytes: number, share = 1): Buffer {
  try {
    return inflateRawSync(bytes, inflateOptions(rawBytes, Math.ceil(rawBytes * share)));
  } catch (error) {
    throw new CorruptObjectError(key, `run ${index} cannot be inflated`, { cause: error });
  }
}

/** Splits the first lines off at `,\n`. A market's JSON text never contains a line break. */
export function splitLines(raw: Buffer, count = Number.POSITIVE_INFINITY): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = raw.indexOf(10); end >= 0 && lines.length < count; end = raw.indexOf(10, start)) {
    lines.push(raw.subarray(start, end - 1));
    start = end + 1;
  }
  if (lines.length < count) lines.push(raw.subarray(start));
  return lines;
}
