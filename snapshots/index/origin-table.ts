import { hashBytes } from "../format/hash-trees.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { wordsFor } from "./bitmap.ts";
import { buildIntegerColumn, decodeIntegers, sliceCount } from "./columns.ts";

const countBytes = 4;

/**
 * The origins object of a segment (snapshots/PUBLISHING.md, "Sources"). `numbers` are the files of the rows by ordinal,
 * counted from 1 in `hashes`.
 */
export function encodeOrigins(numbers: readonly number[], hashes: readonly string[]): Buffer {
  const files = [...new Set(numbers)].map((number) => ({ number, hash: hashes[number - 1]! }));
  files.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const places = new Map(files.map(({ number }, place) => [number, place]));
  const { slices } = buildIntegerColumn(
    numbers.map((number) => places.get(number)!),
    0,
    files.length - 1,
  );
  const count = Buffer.alloc(countBytes);
  count.writeUInt32LE(files.length);
  const table = Buffer.from(files.map(({ hash }) => hash).join(""), "hex");
  return Buffer.concat([count, table, Buffer.from(slices.buffer)]);
}

/** The source files of a segment: their hashes, ascending, and by ordinal the place of the row's file among these. */
export interface Origins {
  hashes: readonly string[];
  places: Uint32Array;
}

/** Adds the number of rows of each file to `rows`, by the file's hash. */
export function addRowsByFile(rows: Map<string, number>, { hashes, places }: Origins): void {
  const counts = new Uint32Array(hashes.length);
  for (const place of places) counts[place]! += 1;
  for (const [place, hash] of hashes.entries()) rows.set(hash, (rows.get(hash) ?? 0) + counts[place]!);
}

export function decodeOrigins(key: string, stored: Buffer, markets: number): Origins {
  const files = stored.length < countBytes ? 0 : stored.readUInt32LE();
  const table = countBytes + files * hashBytes;
  const slices = files > 0 ? sliceCount(files - 1) : 0;
  if (files === 0 || stored.length !== table + slices * wordsFor(markets) * 4)
    throw new CorruptObjectError(key, "it does not tell the file of every market");
  const hashes = Array.from({ length: files }, (_, file) => {
    const start = countBytes + file * hashBytes;
    return stored.toString("hex", start, start + hashBytes);
  });
  const bits = new Uint32Array(new Uint8Array(stored.subarray(table)).buffer);
  const places = decodeIntegers({ min: 0, max: files - 1, slices: bits }, markets);
  if (places.some((place) => place >= files))
    throw new CorruptObjectError(key, "it names a file that it does not list");
  return { hashes, places };
}
