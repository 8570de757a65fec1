import { closeSync, openSync, writeSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { compareKeys, type MarketKey } from "../format/order.ts";

import type { KnownMarket, MarketRow, RenderedMarket } from "../sources/sources.ts";

/** A market on its way into a page: either one the current snapshot has too, or one with its text and values. */
export type SortedMarket =
  | KnownMarket
  | (Omit<RenderedMarket, "json"> & {
      line: Buffer;
    });

/** Buffered bytes over all buckets before they are written out. */
const bufferBytes = 8 * 1024 * 1024;

/**
 * Orders markets by key with little memory: rows are spread over bucket files between cut points, then one bucket at a
 * time is sorted in memory. DuckDB's own sorter runs out of memory on nested rows of this size.
 */
export class ExternalSort {
  readonly #folder: string;
  readonly #cutPoints: readonly MarketKey[];
  readonly #files: number[];
  readonly #buffers: string[][];
  #buffered = 0;

  private constructor(folder: string, cutPoints: readonly MarketKey[]) {
    this.#folder = folder;
    this.#cutPoints = cutPoints;
    const buckets = Array.from({ length: cutPoints.length + 1 }, (_, bucket) => bucket);
    this.#files = buckets.map((bucket) => openSync(this.#path(bucket), "wx", 0o600));
    this.#buffers = buckets.map(() => []);
  }

  /** `cutPoints` ascend; n of them make n + 1 buckets. Files go to a fresh folder below `temporaryDirectory`. */
  static async create(temporaryDirectory: string, cutPoints: readonly MarketKey[]): Promise<ExternalSort> {
    return new ExternalSort(await mkdtemp(join(temporaryDirectory, "prs-sort-")), cutPoints);
  }

  add(rows: readonly MarketRow[]): void {
    for (const row of rows) {
      const { resolvedAt, id } = row;
      const record =
        row.ordinal === undefined
          ? `${JSON.stringify([resolvedAt, id, String(row.digest), row.values])}\n${row.json}\n`
          : `${resolvedAt} ${row.ordinal} ${id}\n`;
      this.#buffers[this.#bucketOf(row)]!.push(record);
      this.#buffered += record.length;
    }
    if (this.#buffered > bufferBytes) this.#flush();
  }

  /** All markets from the oldest up, a bucket at a time. Call once, after the last add. */
  async *sorted(): AsyncGenerator<SortedMarket[]> {
    this.#flush();
    for (let bucket = 0; bucket < this.#buffers.length; bucket += 1) {
      const markets = parseBucket(await readFile(this.#path(bucket)));
      await rm(this.#path(bucket));
      yield markets.sort(compareKeys);
    }
  }

  /** Removes the files; the sort is of no use afterwards. */
  async close(): Promise<void> {
    for (const file of this.#files.splice(0)) closeSync(file);
    await rm(this.#folder, { recursive: true, force: true });
  }

  #path(bucket: number): string {
    return join(this.#folder, String(bucket));
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

  #flush(): void {
    this.#buffers.forEach((records, bucket) => {
      const bytes = Buffer.from(records.splice(0).join(""));
      // A single write may be cut short, at 2 GiB or by a full disk's last block.
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#files[bucket]!, bytes, done);
    });
    this.#buffered = 0;
  }
}

const bracket = "[".charCodeAt(0);

/** Takes apart lines: a known market has one, any other its key and then its record; JSON text holds no line break. */
function parseBucket(bytes: Buffer): SortedMarket[] {
  const markets: SortedMarket[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(10, start);
    if (bytes[start] !== bracket) {
      const [resolvedAt, ordinal, id] = bytes.toString("latin1", start, end).split(" ") as [
        string,
        string,
        string,
      ];
      markets.push({ id, resolvedAt: Number(resolvedAt), ordinal: Number(ordinal) });
      start = end + 1;
      continue;
    }
    const [resolvedAt, id, digest, values] = JSON.parse(bytes.toString("utf8", start, end));
    const lineEnd = bytes.indexOf(10, end + 1);
    markets.push({ id, resolvedAt, digest: BigInt(digest), values, line: bytes.subarray(end + 1, lineEnd) });
    start = lineEnd + 1;
  }
  return markets;
}
