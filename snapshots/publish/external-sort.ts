import { closeSync, openSync, writeSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { firstWhere } from "../format/bytes.ts";
import { release } from "../format/gzip.ts";
import { compareKeys, idOfLine, type MarketKey } from "../format/market-line.ts";
import type { RenderedMarket } from "../sources/sources.ts";

/** The most bytes that the write buffers of all buckets take together. */
const bufferBytes = 16 * 1024 * 1024;

/** The most bytes of one bucket's write buffer. A larger one makes writes no faster. */
const bucketBufferBytes = 256 * 1024;

/**
 * A fast level: markets still shrink to between a quarter and a sixth. The checksum reveals a disk that returns other
 * bytes.
 */
const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: -3, [constants.ZSTD_c_checksumFlag]: 1 },
};

/** A block's stored and raw length stand before it. */
const blockHeaderBytes = 8;

/** A market's time, digest, file, and the lengths of its values and record stand before these. */
const marketHeaderBytes = 8 + 8 + 4 + 4 + 4;

/** zlib ends a stream in the buffer that it began only if that has room to spare. */
const spareBytes = 64;

/**
 * Sorts markets by key with little memory: distributes them over bucket files between cut points, then sorts one bucket
 * at a time in memory. DuckDB's own sort runs out of memory on nested rows of this size.
 */
export class ExternalSort {
  readonly #folder: string;
  readonly #cutPoints: readonly MarketKey[];
  readonly #buckets: ReturnType<typeof bucketAt>[];

  private constructor(folder: string, cutPoints: readonly MarketKey[]) {
    this.#folder = folder;
    this.#cutPoints = cutPoints;
    const count = cutPoints.length + 1;
    const bytes = Math.min(Math.floor(bufferBytes / count), bucketBufferBytes);
    this.#buckets = Array.from({ length: count }, (_, place) => bucketAt(join(folder, String(place)), bytes));
  }

  /** `cutPoints` ascend; n of them make n + 1 buckets. The files go to a new folder in `temporaryDirectory`. */
  static async create(temporaryDirectory: string, cutPoints: readonly MarketKey[]): Promise<ExternalSort> {
    return new ExternalSort(await mkdtemp(join(temporaryDirectory, "prs-sort-")), cutPoints);
  }

  add(rows: readonly RenderedMarket[]): void {
    for (const row of rows) this.#buckets[this.#bucketOf(row)]!.add(row);
  }

  /** From the oldest to the newest, one bucket at a time. Call it once, after the last `add`. */
  async *sorted(): AsyncGenerator<RenderedMarket[]> {
    for (const bucket of this.#buckets) bucket.flush();
    for (const { path } of this.#buckets) {
      const markets = readBlocks(await readFile(path)).flatMap(parseBlock);
      await rm(path);
      yield markets.sort(compareKeys);
    }
  }

  /** The sort cannot be used afterwards. */
  async close(): Promise<void> {
    for (const bucket of this.#buckets.splice(0)) bucket.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #bucketOf(key: MarketKey): number {
    const points = this.#cutPoints;
    return firstWhere(0, points.length, (index) => compareKeys(points[index]!, key) > 0);
  }
}

/** A file of compressed blocks, with its own write buffer of so many bytes. */
function bucketAt(path: string, bytes: number) {
  const file = openSync(path, "wx", 0o600);
  let buffer = Buffer.allocUnsafeSlow(bytes);
  let buffered = 0;

  function write(bytes: Uint8Array): void {
    // A write may be short: at 2 GiB, or when the disk fills up.
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
  }

  function flush(): void {
    if (buffered === 0) return;
    const raw = buffer.subarray(0, buffered);
    // Room for the whole output, since zlib would copy small chunks together.
    const chunkSize = Math.ceil(raw.length / 2) + spareBytes;
    const block = zstdCompressSync(raw, { ...compression, chunkSize });
    const header = Buffer.alloc(blockHeaderBytes);
    header.writeUInt32LE(block.length, 0);
    header.writeUInt32LE(raw.length, 4);
    write(header);
    write(block);
    release(block);
    buffered = 0;
  }

  return {
    path,
    flush,
    close: () => closeSync(file),
    /** A block holds whole markets. */
    add({ resolvedAt, digest, file, values, line }: RenderedMarket): void {
      const text = JSON.stringify(values);
      // A character takes at most three bytes.
      const most = marketHeaderBytes + text.length * 3 + line.length;
      if (buffered + most > buffer.length) {
        flush();
        if (most > buffer.length) buffer = Buffer.allocUnsafeSlow(most);
      }
      const valuesBytes = buffer.write(text, buffered + marketHeaderBytes);
      const lineStart = buffered + marketHeaderBytes + valuesBytes;
      buffer.set(line, lineStart);
      buffer.writeDoubleLE(resolvedAt, buffered);
      buffer.writeBigUInt64LE(digest, buffered + 8);
      buffer.writeUInt32LE(file, buffered + 16);
      buffer.writeUInt32LE(valuesBytes, buffered + 20);
      buffer.writeUInt32LE(line.length, buffered + 24);
      buffered = lineStart + line.length;
    },
  };
}

function readBlocks(stored: Buffer): Buffer[] {
  const blocks: Buffer[] = [];
  for (let start = 0; start < stored.length; ) {
    const first = start + blockHeaderBytes;
    const end = first + stored.readUInt32LE(start);
    const chunkSize = stored.readUInt32LE(start + 4) + spareBytes;
    blocks.push(zstdDecompressSync(stored.subarray(first, end), { chunkSize }));
    start = end;
  }
  return blocks;
}

function parseBlock(bytes: Buffer): RenderedMarket[] {
  const markets: RenderedMarket[] = [];
  for (let start = 0; start < bytes.length; ) {
    const values = start + marketHeaderBytes;
    const lineStart = values + bytes.readUInt32LE(start + 20);
    const end = lineStart + bytes.readUInt32LE(start + 24);
    const line = bytes.subarray(lineStart, end);
    markets.push({
      id: idOfLine(line),
      resolvedAt: bytes.readDoubleLE(start),
      digest: bytes.readBigUInt64LE(start + 8),
      file: bytes.readUInt32LE(start + 16),
      values: JSON.parse(bytes.toString("utf8", values, lineStart)),
      line,
    });
    start = end;
  }
  return markets;
}
