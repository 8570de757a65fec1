import { constants, crc32, inflateRawSync } from "node:zlib";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { sha256 } from "../store/sha256.ts";
import { combineCrc } from "./crc.ts";
import {
  compressPieceSync,
  type DeflatePiece,
  gzipHeader,
  joinGzip,
  storedHeaderBytes,
  storedPiece,
} from "./gzip.ts";

/**
 * Markets per run; the last run of a page may have fewer (snapshots/SPEC.md, "Pages"). With 32 pages are 8 % smaller, and
 * a market on its own is twice the work.
 */
export const runMarkets = 16;
/** zlib level of runs. */
const runLevel = 6;

/** Between two markets, in pages and in responses alike. */
export const separator = Buffer.from(",\n");
const separatorCrc = crc32(separator);
/** The least that zlib takes for a chunk of output. */
const minChunkBytes = 64;
const opening = Buffer.from("[\n");
const closing = Buffer.from("\n]");

/** Where a run's compressed bytes lie in its page. */
export interface Run {
  compressedBytes: number;
  rawBytes: number;
  crc: number;
}

/** A page ready to be stored. */
export interface Page {
  markets: number;
  /** SHA-256 of the stored bytes. */
  hash: string;
  /** Stored size in bytes. */
  bytes: number;
  /** SHA-256 of the JSON text. */
  rawDigest: string;
  runs: Run[];
}

/**
 * The JSON text of a page: an array of markets, newest first, one per line. Its memory is shared with no other buffer,
 * so that another thread can take it over.
 */
export function pageText(lines: readonly Buffer[]): Buffer<ArrayBuffer> {
  const between = Math.max(0, lines.length - 1) * separator.length;
  const bytes = lines.reduce((sum, line) => sum + line.length, opening.length + between + closing.length);
  const text = Buffer.alloc(bytes);
  let end = opening.copy(text);
  lines.forEach((line, position) => {
    if (position > 0) end += separator.copy(text, end);
    end += line.copy(text, end);
  });
  closing.copy(text, end);
  return text;
}

/** A page and the bytes to store. */
export interface BuiltPage {
  page: Page;
  stored: Buffer;
}

/** Compresses a page, given its text, on this thread: some 5 ms. */
export function compressPage(text: Buffer): BuiltPage {
  const { markets, raws } = runTexts(text);
  const pieces = raws.map((raw) => compressPieceSync(raw, runLevel));
  const joint = storedPiece(separator);
  const between = pieces.flatMap((piece, position) => (position === 0 ? [piece] : [joint, piece]));
  const stored = joinGzip([storedPiece(opening), ...between, storedPiece(closing, true)]);
  const runs = pieces.map(({ bytes, rawBytes, crc }) => ({ compressedBytes: bytes.length, rawBytes, crc }));
  const page = { markets, hash: sha256(stored), bytes: stored.length, rawDigest: sha256(text), runs };
  return { page, stored };
}

/**
 * The texts of the runs: parts of the page's text, without the separators between runs. A line break never stands
 * inside a market's JSON text.
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

/** A part of the stored page, the runs from `first` to `last` with what lies between, ready to be spliced elsewhere. */
export function runsPiece(stored: Buffer, runs: readonly Run[], first: number, last = first): DeflatePiece {
  let offset = firstRunOffset;
  for (let before = 0; before < first; before += 1) offset += runs[before]!.compressedBytes + betweenRuns;
  let end = offset;
  let [rawBytes, crc] = [0, 0];
  for (let index = first; index <= last; index += 1) {
    const run = runs[index]!;
    if (index > first) {
      crc = combineCrc(crc, separatorCrc, separator.length);
      rawBytes += separator.length;
      end += betweenRuns;
    }
    crc = combineCrc(crc, run.crc, run.rawBytes);
    rawBytes += run.rawBytes;
    end += run.compressedBytes;
  }
  return { bytes: stored.subarray(offset, end), rawBytes, crc };
}

/** The markets of a run, one JSON text each, newest first. Throws CorruptObjectError naming the page by `key`. */
export function readRun(key: string, stored: Buffer, runs: readonly Run[], index: number): Buffer[] {
  const piece = runsPiece(stored, runs, index);
  const raw = inflate(key, index, piece.bytes, piece.rawBytes);
  if (raw.length !== piece.rawBytes || crc32(raw) !== piece.crc) {
    throw new CorruptObjectError(key, `run ${index} is not what the page table says`);
  }
  return splitLines(raw);
}

// Of a run's compressed bytes its first markets take the larger share, since the others repeat them. With so many markets
// more than are wanted, one look in thirty finds too little and has to be taken again.
const headStart = 8;

/**
 * At least the first `count` markets of a run that has `markets`, without inflating what follows them if that can be
 * helped: a quarter less work for one market of a run. Only for pages whose digest was checked.
 * Throws CorruptObjectError.
 */
export function readRunStart(
  key: string,
  stored: Buffer,
  { runs, index, markets }: { runs: readonly Run[]; index: number; markets: number },
  count: number,
): Buffer[] {
  const share = (count + headStart) / (markets + headStart);
  if (share < 1) {
    const { bytes, rawBytes } = runsPiece(stored, runs, index);
    const start = inflate(key, index, bytes.subarray(0, Math.ceil(bytes.length * share)), rawBytes, share);
    const lines = splitLines(start);
    // The last one is cut off somewhere.
    if (lines.length > count) return lines.slice(0, -1);
  }
  return readRun(key, stored, runs, index);
}

function inflate(key: string, index: number, bytes: Buffer, rawBytes: number, share = 1): Buffer {
  try {
    return inflateRawSync(bytes, {
      finishFlush: constants.Z_SYNC_FLUSH,
      maxOutputLength: Math.max(1, rawBytes),
      // One buffer for all; with the library's small ones, which it then copies together, it takes twice as long.
      chunkSize: Math.ceil(rawBytes * share) + minChunkBytes,
    });
  } catch (error) {
    throw new CorruptObjectError(key, `run ${index} cannot be inflated`, { cause: error });
  }
}

/** Splits at `,\n`; a line break never stands inside a market's JSON text. */
function splitLines(raw: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = raw.indexOf(10); end >= 0; end = raw.indexOf(10, start)) {
    lines.push(raw.subarray(start, end - 1));
    start = end + 1;
  }
  lines.push(raw.subarray(start));
  return lines;
}

/** The id of a market's JSON text: INTERFACE 2.4 puts it first. */
export function idOfLine(line: Buffer): string {
  return line.toString("latin1", '{"id":"'.length, '{"id":"'.length + 36);
}
