import { closeSync, openSync, writeSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { compareKeys, type MarketKey } from "../format/market-key.ts";
import type { RenderedMarket } from "../sources/sources.ts";

/** A rendered market in archive order; `line` is its JSON text. */
export interface SortedMarket extends Omit<RenderedMarket, "json"> {
  line: Buffer;
}

/** Bytes that the write buffers of all buckets take together, at most. */
const bufferBytes = 16 * 1024 * 1024;

/** Bytes of one bucket's write buffer, at most: a larger one makes writes no faster. */
const bucketBufferBytes = 256 * 1024;

const lineBreak = Buffer.from("\n");

/**
 * Sorts markets by key with little memory: distributes them over bucket files between cut points, then sorts one bucket at
 * a time in memory. DuckDB's own sort runs out of memory on nested rows of this size.
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
      const bucket = this.#buckets[this.#bucketOf(row)]!;
      bucket.add(Buffer.from(`${JSON.stringify([resolvedAt, id, String(row.digest), row.values])}\n`));
      bucket.add(row.json);
      bucket.add(lineBreak);
    }
  }

  /** All markets from the oldest to the newest, one bucket at a time. Call it once, after the last `add`. */
  async *sorted(): AsyncGenerator<SortedMarket[]> {
    for (const bucket of this.#buckets) bucket.flush();
    for (const { path } of this.#buckets) {
      const markets = parseBucket(await readFile(path));
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
    let [from, to] = [0, this.#cutPoints.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (compareKeys(this.#cutPoints[middle]!, key) <= 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

/** A file with its own write buffer. */
class Bucket {
  readonly path: string;
  readonly #file: number;
  readonly #buffer: Buffer;
  #buffered = 0;

  constructor(path: string, bytes: number) {
    this.path = path;
    this.#file = openSync(path, "wx", 0o600);
    this.#buffer = Buffer.allocUnsafeSlow(bytes);
  }

  add(bytes: Uint8Array): void {
    if (this.#buffered + bytes.length > this.#buffer.length) this.flush();
    if (bytes.length > this.#buffer.length) {
      this.#write(bytes);
    } else {
      this.#buffer.set(bytes, this.#buffered);
      this.#buffered += bytes.length;
    }
  }

  flush(): void {
    this.#write(this.#buffer.subarray(0, this.#buffered));
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

/** Parses a bucket. Each market takes two lines: key, digest and values, then its record. JSON text holds no line break. */
function parseBucket(bytes: Buffer): SortedMarket[] {
  const markets: SortedMarket[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(10, start);
    const [resolvedAt, id, digest, values] = JSON.parse(bytes.toString("utf8", start, end));
    const lineEnd = bytes.indexOf(10, end + 1);
    markets.push({ id, resolvedAt, digest: BigInt(digest), values, line: bytes.subarray(end + 1, lineEnd) });
    start = lineEnd + 1;
  }
  return markets;
}
