import { promisify } from "node:util";
import { constants, crc32, deflateRaw, deflateRawSync, inflateRaw } from "node:zlib";
import { combineCrc } from "./crc.ts";

const [deflateAsync, inflateAsync] = [promisify(deflateRaw), promisify(inflateRaw)];

/** The header of every gzip member that this project writes: no name, no time, unknown operating system. */
export const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/** The length in bytes of a stored deflate block's header. */
export const storedHeaderBytes = 5;
const maxStoredBytes = 0xffff;

/**
 * A piece of a deflate stream that starts and ends on a byte boundary and refers to no data before it, so that it can
 * be placed anywhere in a stream.
 */
export interface DeflatePiece {
  bytes: Buffer;
  rawBytes: number;
  /** CRC-32 of the raw bytes. */
  crc: number;
}

/** Compresses on Node's thread pool, at a zlib level from 0 to 9. */
export async function compressPiece(raw: Buffer, level: number): Promise<DeflatePiece> {
  return pieceOf(raw, await deflateAsync(raw, optionsOf(level)));
}

/** Compresses on the calling thread, with the same result as compressPiece. */
export function compressPieceSync(raw: Buffer, level: number): DeflatePiece {
  return pieceOf(raw, deflateRawSync(raw, optionsOf(level)));
}

const optionsOf = (level: number) => ({ level, finishFlush: constants.Z_SYNC_FLUSH });

const pieceOf = (raw: Buffer, bytes: Buffer): DeflatePiece => ({
  bytes,
  rawBytes: raw.length,
  crc: crc32(raw),
});

/** The smallest output chunk that zlib accepts. */
const minChunkBytes = 64;

/**
 * How to inflate a piece, or several one after the other, into so many raw bytes at most. One buffer for the whole
 * output: zlib's default of small chunks, copied together at the end, takes twice as long.
 */
export const inflateOptions = (rawBytes: number, chunkBytes = rawBytes) => ({
  finishFlush: constants.Z_SYNC_FLUSH,
  maxOutputLength: Math.max(1, rawBytes),
  chunkSize: chunkBytes + minChunkBytes,
});

/**
 * The raw bytes of pieces, one after the other, inflated at once on Node's thread pool. Throws an error of zlib. Pieces
 * that are not what they say may give other bytes, also more or fewer.
 */
export async function inflatePieces(pieces: readonly DeflatePiece[]): Promise<Buffer> {
  const rawBytes = pieces.reduce((sum, piece) => sum + piece.rawBytes, 0);
  const together = Buffer.concat(pieces.map(({ bytes }) => bytes));
  try {
    return await inflateAsync(together, inflateOptions(rawBytes));
  } finally {
    release(together);
  }
}

/**
 * Frees the memory of buffers that nothing else uses. Left to the garbage collector, megabytes a request would make it
 * collect the whole heap every few requests.
 */
export function release(...buffers: readonly Buffer[]): void {
  for (const { buffer } of buffers) {
    // Small buffers lie in a pool of Node, beside those of others.
    if (buffer instanceof ArrayBuffer && buffer.byteLength > Buffer.poolSize) buffer.transfer(0);
  }
}

/** Wraps raw bytes in one stored (uncompressed) block. Throws RangeError beyond 65,535 bytes. */
export function storedPiece(raw: Buffer, final = false): DeflatePiece {
  if (raw.length > maxStoredBytes)
    throw new RangeError(`a stored block holds ${maxStoredBytes} bytes, not ${raw.length}`);
  const header = Buffer.alloc(storedHeaderBytes);
  header[0] = final ? 1 : 0;
  header.writeUInt16LE(raw.length, 1);
  header.writeUInt16LE(raw.length ^ maxStoredBytes, 3);
  return pieceOf(raw, Buffer.concat([header, raw]));
}

/** Consecutive pieces, kept as separate buffers to save a copy. */
export interface Spliced {
  parts: Buffer[];
  rawBytes: number;
  /** CRC-32 of the raw bytes. */
  crc: number;
}

/** Puts pieces one after another and combines their lengths and CRCs. */
export function splice(pieces: readonly DeflatePiece[]): Spliced {
  let crc = 0;
  let rawBytes = 0;
  for (const piece of pieces) {
    crc = combineCrc(crc, piece.crc, piece.rawBytes);
    rawBytes += piece.rawBytes;
  }
  return { parts: pieces.map((piece) => piece.bytes), rawBytes, crc };
}

/** Makes one gzip member of pieces. The last piece, and no other, must be final. */
export function joinGzip(pieces: readonly DeflatePiece[]): Buffer {
  const { parts, rawBytes, crc } = splice(pieces);
  return Buffer.concat([gzipHeader, ...parts, trailer(crc, rawBytes)]);
}

/**
 * Makes one gzip member of the raw bytes `head`, the spliced pieces, and the raw bytes `tail`. Returns its parts, not
 * copied together. Throws RangeError when `head` or `tail` is longer than 65,535 bytes.
 */
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

/** Puts a gzip member together from pieces as they come. */
export class GzipMember {
  #rawBytes = 0;
  #crc = 0;
  #begun = false;

  /** The bytes to send for a piece, which must not be final. */
  add({ bytes, rawBytes, crc }: DeflatePiece): Buffer {
    this.#crc = combineCrc(this.#crc, crc, rawBytes);
    this.#rawBytes += rawBytes;
    return this.#after(bytes);
  }

  /** The bytes that end the member. */
  end(): Buffer {
    const { bytes } = storedPiece(Buffer.alloc(0), true);
    return this.#after(Buffer.concat([bytes, trailer(this.#crc, this.#rawBytes)]));
  }

  #after(bytes: Buffer): Buffer {
    const sent = this.#begun ? bytes : Buffer.concat([gzipHeader, bytes]);
    this.#begun = true;
    return sent;
  }
}
