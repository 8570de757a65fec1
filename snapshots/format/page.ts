import { randomBytes } from "node:crypto";
import { crc32, inflateRawSync } from "node:zlib";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";
import { maxRunBytes, sha256 } from "../store/layout.ts";
import type { ByteRange } from "../store/storage.ts";
import {
  compressPiece,
  type DeflatePiece,
  gzipHeader,
  inflateOptions,
  inflatePieces,
  joinGzip,
  type Measure,
  measureOf,
  release,
  storedHeaderBytes,
  storedPiece,
  withBetween,
} from "./gzip.ts";

/**
 * The last run of a page may have fewer (snapshots/SPEC.md, "Pages"). Runs of 32 would make pages 8 % smaller, but
 * reading one market twice as expensive.
 */
export const runMarkets = 16;
export const runsOf = (markets: number) => Math.ceil(markets / runMarkets);
/** The markets of a run, of a page that has so many. */
export const marketsInRun = (markets: number, run: number) =>
  Math.min(runMarkets, markets - run * runMarkets);
const runLevel = 6;

/** Stands between two markets, in pages and in responses. */
export const separator = Buffer.from(",\n");
/** The most raw bytes of a run. */
export const maxPageRunBytes = maxRunBytes(runMarkets, separator.length);

/** What stands around the lines of a text, and between every two. */
interface Frame {
  opening: Buffer;
  separator: Buffer;
  closing: Buffer;
}

const pageFrame: Frame = { opening: Buffer.from("[\n"), separator, closing: Buffer.from("\n]") };

export interface Run extends Measure {
  compressedBytes: number;
}

/** The part of a page's table entry that reading the page needs. */
export interface CompressedPage {
  markets: number;
  /** SHA-256 of the stored bytes. */
  hash: string;
  /** Stored bytes. */
  bytes: number;
  runs: Run[];
  /** The hashes of the runs one after the other, in hexadecimal. */
  runHashes: string;
}

/** Half a SHA-256, of the run's compressed bytes. */
export const runHashBytes = 16;

/** The whole entry in the page table of a segment. */
export interface Page extends CompressedPage {
  /** Hexadecimal (snapshots/SPEC.md, "Roots"). */
  root: string;
}

/** A JSON array of markets, newest first, one a line. */
export function pageText(lines: readonly Buffer[]): Buffer {
  return Buffer.concat([pageFrame.opening, ...withBetween(lines, separator), pageFrame.closing]);
}

/** Gives the run with the lines from `start` to `end` (exclusive) where it is compressed already. */
type KnownRun = (start: number, end: number) => Promise<DeflatePiece | undefined>;

/** Compresses lines in runs, except those that `knownRun` has. `headerOf` gives another header than gzipHeader. */
export async function compressLines(
  lines: readonly Buffer[],
  frame: Frame,
  {
    headerOf,
    knownRun,
  }: { headerOf?: (runs: readonly Run[]) => Buffer; knownRun?: KnownRun | undefined } = {},
): Promise<{ runs: Run[]; stored: Buffer }> {
  const pieces = await Promise.all(
    Array.from({ length: runsOf(lines.length) }, async (_, run) => {
      const [start, end] = [run * runMarkets, Math.min((run + 1) * runMarkets, lines.length)];
      const compressed = await knownRun?.(start, end);
      if (compressed) return compressed;
      const raw = Buffer.concat(withBetween(lines.slice(start, end), frame.separator));
      const piece = await compressPiece(raw, runLevel);
      release(raw);
      return piece;
    }),
  );
  const runs = pieces.map(({ bytes, rawBytes, crc }) => ({ compressedBytes: bytes.length, rawBytes, crc }));
  return { runs, stored: joinRuns(pieces, frame, headerOf?.(runs)) };
}

export function joinRuns(
  pieces: readonly DeflatePiece[],
  { opening, separator, closing }: Frame,
  header?: Buffer,
): Buffer {
  const between = withBetween(pieces, storedPiece(separator));
  return joinGzip([storedPiece(opening), ...between, storedPiece(closing, true)], header);
}

/** Takes markets newest first. */
export async function compressPage(
  lines: readonly Buffer[],
  knownRun?: KnownRun,
): Promise<{ page: CompressedPage; stored: Buffer }> {
  const { runs, stored } = await compressLines(lines, pageFrame, { knownRun });
  const runHashes = runHashesOf(stored, runs);
  const page = { markets: lines.length, hash: sha256(stored), bytes: stored.length, runs, runHashes };
  return { page, stored };
}

/** Three uint32 for each run. */
export const runTable = (runs: readonly Run[]): Uint32Array =>
  Uint32Array.from(runs.flatMap((run) => [run.compressedBytes, run.rawBytes, run.crc]));

export const runTableBytes = 12;

export const readRunTable = (table: Buffer): Run[] =>
  Array.from({ length: table.length / runTableBytes }, (_, run) => {
    const [compressedBytes, rawBytes, crc] = [0, 4, 8].map((at) =>
      table.readUInt32LE(run * runTableBytes + at),
    );
    return { compressedBytes: compressedBytes!, rawBytes: rawBytes!, crc: crc! };
  });

/** Whether every run but the last holds 16 of these lines, and the last the rest, judged by their bytes. */
export function areWholeRuns(runs: readonly Run[], lines: readonly Buffer[]): boolean {
  const bytesOf = (some: readonly Buffer[]) =>
    some.reduce((sum, line) => sum + line.length, (some.length - 1) * separator.length);
  return (
    runs.length === runsOf(lines.length) &&
    runs.every(
      ({ rawBytes }, run) => rawBytes === bytesOf(lines.slice(run * runMarkets, (run + 1) * runMarkets)),
    )
  );
}

/** From `first` to `last` (inclusive), with the separators between them. */
export function rangeOfRuns(
  runs: readonly Run[],
  first: number,
  last = first,
  { opening, separator } = pageFrame,
): ByteRange {
  const betweenRuns = storedHeaderBytes + separator.length;
  const lengthOf = (some: readonly Run[]) =>
    some.reduce((sum, { compressedBytes }) => sum + compressedBytes + betweenRuns, 0);
  const firstRunOffset = gzipHeader.length + storedHeaderBytes + opening.length;
  const offset = firstRunOffset + lengthOf(runs.slice(0, first));
  return { offset, bytes: lengthOf(runs.slice(first, last + 1)) - betweenRuns };
}

/** From `first` to `last` (inclusive) as one piece, with the separators between them. */
export function runsPiece(
  stored: Buffer,
  runs: readonly Run[],
  first: number,
  last = first,
  frame = pageFrame,
): DeflatePiece {
  const { offset, bytes } = rangeOfRuns(runs, first, last, frame);
  const joint = { rawBytes: frame.separator.length, crc: crc32(frame.separator) };
  const measure = measureOf(withBetween<Measure>(runs.slice(first, last + 1), joint));
  return { bytes: stored.subarray(offset, offset + bytes), ...measure };
}

const runHashOf = (bytes: Buffer) => sha256(bytes).slice(0, 2 * runHashBytes);

export function runHashesOf(stored: Buffer, runs: readonly Run[]): string {
  return runs.map((_, run) => runHashOf(runsPiece(stored, runs, run).bytes)).join("");
}

export function isRun({ runHashes }: CompressedPage, index: number, bytes: Buffer): boolean {
  return runHashOf(bytes) === runHashes.slice(2 * runHashBytes * index, 2 * runHashBytes * (index + 1));
}

/** Newest first, as many as the table says: callers find markets by their places. `key` is the page's, for errors. */
export function readRun(
  key: string,
  stored: Buffer,
  { markets, runs }: Pick<CompressedPage, "markets" | "runs">,
  index: number,
): Buffer[] {
  const lines = splitLines(inflatePiece(key, index, runsPiece(stored, runs, index)));
  if (lines.length === marketsInRun(markets, index)) return lines;
  throw new CorruptObjectError(key, `run ${index} does not have as many markets as its table says`);
}

/** Put behind a run before it is inflated. It is random, so that no run can contain it on purpose. */
const mark = randomBytes(16);
const markPiece = storedPiece(mark);

/**
 * The lines of a page, newest first. Undefined unless the page is its runs in their frame, and every run gives what its
 * table says and then what follows it. Any program can then unpack both the runs and the page, and each run is inflated
 * only once to know that.
 */
export function readWholePage(stored: Buffer, runs: readonly Run[]): Buffer[] | undefined {
  const pieces = runs.map((_, run) => runsPiece(stored, runs, run));
  if (!joinRuns(pieces, pageFrame).equals(stored)) return undefined;
  const lines: Buffer[] = [];
  for (const { bytes, rawBytes, crc } of pieces) {
    const followed = Buffer.concat([bytes, markPiece.bytes]);
    const all = unlessSync(Error, () => inflateRawSync(followed, inflateOptions(rawBytes + mark.length)));
    if (!all?.subarray(rawBytes).equals(mark)) return undefined;
    const raw = all.subarray(0, rawBytes);
    const own = splitLines(raw);
    const parted = own.every(
      (line, place) => place === 0 || raw[line.byteOffset - raw.byteOffset - 2] === comma,
    );
    if (crc32(raw) !== crc || !parted) return undefined;
    lines.push(...own);
  }
  return lines;
}

/** Checks the raw bytes against the table. */
export function inflatePiece(key: string, index: number, { bytes, rawBytes, crc }: DeflatePiece): Buffer {
  const raw = inflate(key, index, bytes, rawBytes);
  if (raw.length !== rawBytes || crc32(raw) !== crc) {
    throw new CorruptObjectError(key, `run ${index} is not what its table says`);
  }
  return raw;
}

/** `key` is the page's, for errors. */
export interface StoredRun {
  key: string;
  index: number;
  piece: DeflatePiece;
}

/** Works on Node's thread pool. CRCs are not checked, so the hashes of the runs or of their pages must have been. */
export async function inflateRuns(runs: readonly StoredRun[]): Promise<Buffer> {
  const pieces = runs.map(({ piece }) => piece);
  const raw = await inflatePieces(pieces).catch(() => undefined);
  if (raw && fitsRuns(raw, pieces)) return raw;
  // One of them is not what its table says; this names it.
  return Buffer.concat(runs.map(({ key, index, piece }) => inflatePiece(key, index, piece)));
}

const [brace, endBrace, comma] = Buffer.from("{},");

function fitsRuns(raw: Buffer, pieces: readonly DeflatePiece[]): boolean {
  let end = 0;
  const each = pieces.every(({ rawBytes }) => {
    const start = end;
    end += rawBytes;
    return raw[start] === brace && raw[end - 1] === endBrace;
  });
  return each && end === raw.length;
}

// The first markets of a run take more compressed bytes, because later ones refer back to them. With this many extra
// markets in the estimate, one read in thirty inflates too little and is repeated.
const headStart = 8;

/**
 * At least the first `count` of the `markets` in a run, as readRun returns them. Inflates only the start of the run
 * when that suffices, which saves a quarter of the work for one market. The CRC is then not checked, so the hash of the
 * run or its page must have been.
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

/** The first `count` lines, split at `,\n`. A market's JSON text never contains a line break. */
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
