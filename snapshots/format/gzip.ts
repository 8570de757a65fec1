import { promisify } from "node:util";
import { constants, crc32, deflateRaw, deflateRawSync } from "node:zlib";
import { combineCrc } from "./crc.ts";

const deflateAsync = promisify(deflateRaw);

/** Bytes before the first block of a gzip member as this project writes it: no name, no time, unknown system. */
export const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/** Header bytes of a stored deflate block. */
export const storedHeaderBytes = 5;
const maxStoredBytes = 0xffff;

/** A piece of a deflate stream that starts and ends on a byte and refers to nothing before it. */
export interface DeflatePiece {
  bytes: Buffer;
  rawBytes: number;
  /** CRC-32 of the raw bytes. */
  crc: number;
}

/** Compresses on the thread pool, to a piece that can stand anywhere in a deflate stream. */
export async function compressPiece(raw: Buffer, level: number): Promise<DeflatePiece> {
  return pieceOf(raw, await deflateAsync(raw, optionsOf(level)));
}

/** The same piece, compressed on this thread. */
export function compressPieceSync(raw: Buffer, level: number): DeflatePiece {
  return pieceOf(raw, deflateRawSync(raw, optionsOf(level)));
}

const optionsOf = (level: number) => ({ level, finishFlush: constants.Z_SYNC_FLUSH });

const pieceOf = (raw: Buffer, bytes: Buffer): DeflatePiece => ({
  bytes,
  rawBytes: raw.length,
  crc: crc32(raw),
});

/** The raw bytes as one stored block of at most 65,535 bytes. */
export function storedPiece(raw: Buffer, final = false): DeflatePiece {
  if (raw.length > maxStoredBytes)
    throw new RangeError(`a stored block holds ${maxStoredBytes} bytes, not ${raw.length}`);
  const header = Buffer.alloc(storedHeaderBytes);
  header[0] = final ? 1 : 0;
  header.writeUInt16LE(raw.length, 1);
  header.writeUInt16LE(raw.length ^ maxStoredBytes, 3);
  return pieceOf(raw, Buffer.concat([header, raw]));
}

/** Pieces one after another, not copied together. */
export interface Spliced {
  parts: Buffer[];
  rawBytes: number;
  /** CRC-32 of the raw bytes. */
  crc: number;
}

export function splice(pieces: readonly DeflatePiece[]): Spliced {
  let crc = 0;
  let rawBytes = 0;
  for (const piece of pieces) {
    crc = combineCrc(crc, piece.crc, piece.rawBytes);
    rawBytes += piece.rawBytes;
  }
  return { parts: pieces.map((piece) => piece.bytes), rawBytes, crc };
}

/** One gzip member of pieces of which the last, and only it, is final. */
export function joinGzip(pieces: readonly DeflatePiece[]): Buffer {
  const { parts, rawBytes, crc } = splice(pieces);
  return Buffer.concat([gzipHeader, ...parts, trailer(crc, rawBytes)]);
}

/** The same of what is spliced already, between raw bytes, as the parts it consists of. */
export function gzipAround(head: Buffer, { parts, rawBytes, crc }: Spliced, tail: Buffer): Buffer[] {
  const [opening, closing] = [storedPiece(head), storedPiece(tail, true)];
  const begun = combineCrc(opening.crc, crc, rawBytes);
  const ended = combineCrc(begun, closing.crc, closing.rawBytes);
  const total = opening.rawBytes + rawBytes + closing.rawBytes;
  return [gzipHeader, opening.bytes, ...parts, closing.bytes, trailer(ended, total)];
}

function trailer(crc: number, rawBytes: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(crc, 0);
  bytes.writeUInt32LE(rawBytes % 2 ** 32, 4);
  return bytes;
}
