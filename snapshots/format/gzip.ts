import { promisify } from "node:util";
import { constants, crc32, deflateRaw, inflateRaw } from "node:zlib";

// Computes the CRC-32 of a concatenation from the CRCs of its parts. The polynomial is that of RFC 1952, bit-reversed
// as in zlib.
const polynomial = 0xedb88320;

/** a * b modulo the CRC polynomial, as an integer of 32 bits with a sign. Bit 31 is the coefficient of x^0. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = 0x80000000; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ polynomial : shifted >>> 1;
  }
  return product;
}

/** x^(2^n) for n = 0..31. */
const powersOfTwo = (() => {
  const powers = [0x40000000];
  while (powers.length < 32) powers.push(multiply(powers.at(-1)!, powers.at(-1)!));
  return powers;
})();

/** x^(8 * byte * 256^place) for every byte at every place of a length. They are needed thousands of times a second. */
const shiftTables = Array.from({ length: 5 }, (_, index) =>
  Uint32Array.from({ length: 256 }, (_, byte) => shiftBySquaring(byte * 256 ** index)),
);

function shiftBySquaring(length: number): number {
  let power = 0x80000000;
  for (let rest = length, n = 3; rest > 0; rest = Math.floor(rest / 2), n = (n + 1) % 32) {
    if (rest % 2 === 1) power = multiply(powersOfTwo[n]!, power);
  }
  return power;
}

/** x^(8 * length) modulo the polynomial, the factor by which appending `length` bytes (below 2^40) multiplies a CRC. */
function shiftOf(length: number): number {
  let power = shiftTables[0]![length % 256]!;
  for (let rest = Math.floor(length / 256), index = 1; rest > 0; rest = Math.floor(rest / 256), index += 1) {
    power = multiply(shiftTables[index]![rest % 256]!, power);
  }
  return power;
}

/** The CRC-32 of A followed by B, given the CRC-32 of each and B's length in bytes. */
export function combineCrc(crcA: number, crcB: number, lengthB: number): number {
  return (multiply(shiftOf(lengthB), crcA) ^ crcB) >>> 0;
}

const [deflateAsync, inflateAsync] = [promisify(deflateRaw), promisify(inflateRaw)];

/** No name, no time, unknown operating system (RFC 1952, 2.3). */
export const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/** A header with a table of ours, in an extra field (RFC 1952, 2.3.1.1), which other programs skip. */
export function headerWith(table: Buffer): Buffer {
  const flagged = Buffer.from(gzipHeader).fill(extraFlag, 3, 4);
  const [name, idAndLength] = [Buffer.from("PR").readUInt16LE(), 4];
  const field = Uint16Array.of(idAndLength + table.length, name, table.length);
  return Buffer.concat([flagged, Buffer.from(field.buffer), table]);
}

const extraFlag = 4;
const tableStart = headerWith(Buffer.alloc(0)).length;

/** The table of so many bytes in the header of a member; undefined when it has no such table. */
export function tableIn(stored: Buffer, bytes: number): Buffer | undefined {
  const header = stored.subarray(0, tableStart + bytes);
  const table = header.subarray(tableStart);
  return table.length === bytes && header.equals(headerWith(table)) ? table : undefined;
}

export const storedHeaderBytes = 5;
const maxStoredBytes = 0xffff;

/** How many raw bytes there are, and their CRC-32. */
export interface Measure {
  rawBytes: number;
  crc: number;
}

/**
 * A piece of a deflate stream that starts and ends on a byte boundary and refers to no data before it, so that it can
 * be placed anywhere in a stream.
 */
export interface DeflatePiece extends Measure {
  bytes: Buffer;
}

/** Of what follows each other. */
export function measureOf(pieces: readonly Measure[]): Measure {
  let [rawBytes, crc] = [0, 0];
  for (const piece of pieces) {
    crc = combineCrc(crc, piece.crc, piece.rawBytes);
    rawBytes += piece.rawBytes;
  }
  return { rawBytes, crc };
}

/** Compresses on Node's thread pool, at a zlib level from 0 to 9. */
export async function compressPiece(raw: Buffer, level: number): Promise<DeflatePiece> {
  return pieceOf(raw, await deflateAsync(raw, { level, finishFlush: constants.Z_SYNC_FLUSH }));
}

const pieceOf = (raw: Buffer, bytes: Buffer): DeflatePiece => ({
  bytes,
  rawBytes: raw.length,
  crc: crc32(raw),
});

/** zlib accepts no smaller output chunk. */
const minChunkBytes = 64;

/**
 * Inflates one or more pieces into at most `rawBytes`. One buffer for all output: zlib's small default chunks, copied
 * together at the end, take twice as long.
 */
export const inflateOptions = (rawBytes: number, chunkBytes = rawBytes) => ({
  finishFlush: constants.Z_SYNC_FLUSH,
  maxOutputLength: Math.max(1, rawBytes),
  chunkSize: chunkBytes + minChunkBytes,
});

/** As one stream, on Node's thread pool. Pieces that are not what they say may give other bytes, more or fewer. */
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
 * Frees the memory of buffers that nothing else uses. If the garbage collector had to free megabytes a request, it
 * would collect the whole heap every few requests.
 */
export function release(...buffers: readonly Buffer[]): void {
  for (const { buffer } of buffers) {
    // Node takes buffers of less than half of this size from pools of this size, where they lie beside those of others.
    const alone = buffer.byteLength >= Buffer.poolSize / 2 && buffer.byteLength !== Buffer.poolSize;
    if (alone && buffer instanceof ArrayBuffer) buffer.transfer(0);
  }
}

/** Wraps at most 65,535 raw bytes in one stored (uncompressed) block. */
export function storedPiece(raw: Buffer, final = false): DeflatePiece {
  if (raw.length > maxStoredBytes)
    throw new RangeError(`a stored block holds ${maxStoredBytes} bytes, not ${raw.length}`);
  const header = Buffer.alloc(storedHeaderBytes);
  header[0] = final ? 1 : 0;
  header.writeUInt16LE(raw.length, 1);
  header.writeUInt16LE(raw.length ^ maxStoredBytes, 3);
  return pieceOf(raw, Buffer.concat([header, raw]));
}

export const withBetween = <Item>(items: readonly Item[], joint: Item): Item[] =>
  items.flatMap((item, position) => (position === 0 ? [item] : [joint, item]));

/** Consecutive pieces, not copied together. */
export interface Spliced extends Measure {
  parts: Buffer[];
}

export const splice = (pieces: readonly (DeflatePiece | Spliced)[]): Spliced => ({
  parts: pieces.flatMap((piece) => ("parts" in piece ? piece.parts : piece.bytes)),
  ...measureOf(pieces),
});

/** The last piece must be final, and no other. `header` is gzipHeader, or one with a field. */
export const joinGzip = (pieces: readonly DeflatePiece[], header?: Buffer): Buffer =>
  Buffer.concat(memberOf(pieces, header));

function memberOf(pieces: readonly (DeflatePiece | Spliced)[], header: Buffer = gzipHeader): Buffer[] {
  const { parts, ...measure } = splice(pieces);
  return [header, ...parts, trailer(measure)];
}

/**
 * One gzip member of the raw bytes `head`, the spliced pieces, and the raw bytes `tail`, as parts that are not copied
 * together. `head` and `tail` have at most 65,535 bytes.
 */
export const gzipAround = (head: Buffer, between: Spliced, tail: Buffer): Buffer[] =>
  memberOf([storedPiece(head), between, storedPiece(tail, true)]);

const trailerBytes = 8;

function trailer({ rawBytes, crc }: Measure): Buffer {
  const bytes = Buffer.alloc(trailerBytes);
  bytes.writeUInt32LE(crc, 0);
  bytes.writeUInt32LE(rawBytes % 2 ** 32, 4);
  return bytes;
}

/** The CRC-32 that a member says its raw bytes have. */
export const crcIn = (member: Buffer) => member.readUInt32LE(member.length - trailerBytes);

/** Ends a gzip member whose pieces were sent as they came, none of them final. */
export const gzipEnd = (sent: Measure): Buffer =>
  Buffer.concat([storedPiece(Buffer.alloc(0), true).bytes, trailer(sent)]);
