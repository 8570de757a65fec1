import { promisify } from "node:util";
import { constants, crc32, deflateRaw } from "node:zlib";
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
  const bytes = await deflateAsync(raw, { level, finishFlush: constants.Z_SYNC_FLUSH });
  return { bytes, rawBytes: raw.length, crc: crc32(raw) };
}

/** The raw bytes as one stored block of at most 65,535 bytes. */
export function storedPiece(raw: Buffer, final = false): DeflatePiece {
  if (raw.length > maxStoredBytes)
    throw new RangeError(`a stored block holds ${maxStoredBytes} bytes, not ${raw.length}`);
  const header = Buffer.alloc(storedHeaderBytes);
  header[0] = final ? 1 : 0;
  header.writeUInt16LE(raw.length, 1);
  header.writeUInt16LE(raw.length ^ maxStoredBytes, 3);
  return { bytes: Buffer.concat([header, raw]), rawBytes: raw.length, crc: crc32(raw) };
}

/** One gzip member around pieces of which the last, and only it, is final. */
export function joinGzip(pieces: readonly DeflatePiece[]): Buffer {
  return Buffer.concat(gzipParts(pieces));
}

/** The same as the parts it consists of, none of them copied. */
export function gzipParts(pieces: readonly DeflatePiece[]): Buffer[] {
  let crc = 0;
  let rawBytes = 0;
  for (const piece of pieces) {
    crc = combineCrc(crc, piece.crc, piece.rawBytes);
    rawBytes += piece.rawBytes;
  }
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(crc, 0);
  trailer.writeUInt32LE(rawBytes % 2 ** 32, 4);
  return [gzipHeader, ...pieces.map((piece) => piece.bytes), trailer];
}
