import { closeSync, openSync, writeSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { firstWhere } from "../format/first-where.ts";
import { compareKeys, type MarketKey } from "../format/market-line.ts";
import type { RenderedMarket } from "../sources/sources.ts";

/** A rendered market in archive order; `line` is its JSON text. */
export interface SortedMarket extends Omit<RenderedMarket, "json"> {
  line: Buffer;
}

/** Bytes that the write buffers of all buckets take together, at most. */
const bufferBytes = 16 * 1024 * 1024;

/** Bytes of one bucket's write buffer, at most: a larger one makes writes no faster. */
const bucketBufferBytes = 256 * 1024;

/**
 * A fast level: markets still become four to six times as small. The checksum tells of a disk that returns other bytes.
 */
const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: -3, [constants.ZSTD_c_checksumFlag]: 1 },
};

/** The length of a block, before it. */
const lengthBytes = 4;
const lineBreak = 10;

/**
 * Sorts markets by key with little memory: distributes them over bucket files between cut points, then sorts one bucket
 * at a time in memory. DuckDB's own sort runs out of memory on nested rows of this size.
 */
export class ExternalSort {
  readonly #folder: string;
  readonly #cutPoints: readonly MarketKey[];
  readonly #buckets: Bucket[];

  private constructor(folder: string, cutPoints: readonly MarketKey[]) {
    this.#folder = folder;
    this.#cutPoints = cutPoints;
    const count = cutPoints.length + 1;
    this.#buckets = Array.from({ length: count }, (_, number) => {
      return new Bucket(
        join(folder, String(number)),
        Math.min(Math.floor(bufferBytes / count), bucketBufferBytes),
      );
    });
  }

  /** `cutPoints` ascend; n of them make n + 1 buckets. The files go to a new folder in `temporaryDirectory`. */
  static async create(temporaryDirectory: string, cutPoints: readonly MarketKey[]): Promise<ExternalSort> {
    return new ExternalSort(await mkdtemp(join(temporaryDirectory, "prs-sort-")), cutPoints);
  }

  add(rows: readonly RenderedMarket[]): void {
    for (const row of rows) {
      const { resolvedAt, id } = row;
      const head = JSON.stringify([resolvedAt, id, String(row.digest), row.file, row.values]);
      this.#buckets[this.#bucketOf(row)]!.add(head, row.json);
    }
  }

  /** All markets from the oldest to the newest, one bucket at a time. Call it once, after the last `add`. */
  async *sorted(): AsyncGenerator<SortedMarket[]> {
    for (const bucket of this.#buckets) bucket.flush();
    for (const { path } of this.#buckets) {
      const markets = readBlocks(await readFile(path)).flatMap(parseBlock);
      await rm(path);
      yield markets.sort(compareKeys);
    }
  }

  /** Removes the files. The sort cannot be used afterwards. */
  async close(): Promise<void> {
    for (const bucket of this.#buckets.splice(0)) bucket.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #bucketOf(key: MarketKey): number {
    const points = this.#cutPoints;
    return firstWhere(0, points.length, (index) => compareKeys(points[index]!, key) > 0);
  }
}

/** A file of compressed blocks with its own write buffer. */
class Bucket {
  readonly path: string;
  readonly #file: number;
  #buffer: Buffer;
  #buffered = 0;

  constructor(path: string, bytes: number) {
    this.path = path;
    this.#file = openSync(path, "wx", 0o600);
    this.#buffer = Buffer.allocUnsafeSlow(bytes);
  }

  /** Adds a market as two lines. A block holds whole markets. */
  add(head: string, json: Uint8Array): void {
    // A character takes at most three bytes.
    const most = head.length * 3 + json.length + 2;
    if (this.#buffered + most > this.#buffer.length) {
      this.flush();
      if (most > this.#buffer.length) this.#buffer = Buffer.allocUnsafeSlow(most);
    }
    const buffer = this.#buffer;
    let end = this.#buffered + buffer.write(head, this.#buffered);
    buffer[end] = lineBreak;
    buffer.set(json, end + 1);
    end += 1 + json.length;
    buffer[end] = lineBreak;
    this.#buffered = end + 1;
  }

  flush(): void {
    if (this.#buffered === 0) return;
    const block = zstdCompressSync(this.#buffer.subarray(0, this.#buffered), compression);
    const length = Buffer.alloc(lengthBytes);
    length.writeUInt32LE(block.length);
    this.#write(Buffer.concat([length, block]));
    this.#buffered = 0;
  }

  close(): void {
    closeSync(this.#file);
  }

  #write(bytes: Uint8Array): void {
    // A write may be short: at 2 GiB, or when the disk fills up.
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#file, bytes, done);
  }
}

function readBlocks(stored: Buffer): Buffer[] {
  const blocks: Buffer[] = [];
  for (let start = 0; start < stored.length; ) {
    const end = start + lengthBytes + stored.readUInt32LE(start);
    blocks.push(zstdDecompressSync(stored.subarray(start + lengthBytes, end)));
    start = end;
  }
  return blocks;
}

/**
 * Parses a block. Each market takes two lines: key, digest, file and values, then its record. JSON text holds no line
 * break.
 */
function parseBlock(bytes: Buffer): SortedMarket[] {
  const markets: SortedMarket[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(lineBreak, start);
    const [resolvedAt, id, digest, file, values] = JSON.parse(bytes.toString("utf8", start, end));
    const lineEnd = bytes.indexOf(lineBreak, end + 1);
    const line = bytes.subarray(end + 1, lineEnd);
    markets.push({ id, resolvedAt, digest: BigInt(digest), file, values, line });
    start = lineEnd + 1;
  }
  return markets;
}
