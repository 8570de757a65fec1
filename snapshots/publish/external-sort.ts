import { randomUUID } from "node:crypto";
import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { firstWhere } from "../format/bytes.ts";
import { release } from "../format/gzip.ts";
import { compareKeys, idOfLine } from "../format/market-line.ts";
import type { RenderedMarket } from "../sources/sources.ts";

/** Bytes of records that are sorted in memory, and written as a run. */
const runBytes = 16 * 1024 * 1024;

/** Bytes of a run's blocks, before compression: the most, and the most of all runs' first blocks up to this one. */
const blockBytes = { most: 256 * 1024, together: 32 * 1024 * 1024 };

/**
 * A fast level: markets still shrink to between a quarter and a sixth. The checksum reveals a disk that returns other
 * bytes.
 */
const compression = {
  params: { [constants.ZSTD_c_compressionLevel]: -3, [constants.ZSTD_c_checksumFlag]: 1 },
};

/** A market's time, digest, file, and the lengths of its values and record stand before these. */
const headerBytes = 8 + 8 + 4 + 4 + 4;

/** zlib ends a stream in the buffer that it began only if that has room to spare. */
const spareBytes = 64;

/** Whole markets in the file: where they are, and how long they are there and before compression. */
interface Block {
  at: number;
  stored: number;
  raw: number;
}

/**
 * Sorts markets by key with little memory: writes sorted runs to a file, and merges them. DuckDB's own sort runs out of
 * memory on nested rows of this size.
 */
export class ExternalSort {
  readonly #directory: string;
  /** Without a name, so that nothing is left when the process is killed. */
  #file: number | undefined;
  #fileBytes = 0;
  /** The run in memory, not sorted yet. */
  #rows: RenderedMarket[] = [];
  #rowBytes = 0;
  readonly #runs: Block[][] = [];

  constructor(temporaryDirectory: string) {
    this.#directory = temporaryDirectory;
  }

  add(rows: readonly RenderedMarket[]): void {
    for (const row of rows) {
      this.#rows.push(row);
      this.#rowBytes += row.line.length;
      if (this.#rowBytes >= runBytes) this.#endRun();
    }
  }

  /** From the oldest to the newest. Call it once, after the last `add`. */
  *sorted(): Generator<RenderedMarket, undefined> {
    const runs = [...this.#runs.map((blocks) => this.#read(blocks)), this.#rows.sort(compareKeys).values()];
    // The newest first.
    const heads: { market: RenderedMarket; run: Iterator<RenderedMarket> }[] = [];
    const place = (run: Iterator<RenderedMarket>) => {
      const { done, value: market } = run.next();
      if (done) return;
      const at = firstWhere(0, heads.length, (index) => compareKeys(heads[index]!.market, market) < 0);
      heads.splice(at, 0, { market, run });
    };
    runs.forEach(place);
    for (let head = heads.pop(); head; head = heads.pop()) {
      yield head.market;
      place(head.run);
    }
    return undefined;
  }

  async close(): Promise<void> {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #endRun(): void {
    // One block of each run is in memory while they are merged. Of many runs, later ones have smaller blocks.
    const share = Math.floor(blockBytes.together / (this.#runs.length + 1));
    const bytes = Math.min(blockBytes.most, share);
    const blocks: Block[] = [];
    let [buffer, used] = [Buffer.allocUnsafe(bytes), 0];
    const endBlock = () => {
      blocks.push(this.#write(buffer.subarray(0, used)));
      used = 0;
    };
    for (const { resolvedAt, digest, file, values, line } of this.#rows.sort(compareKeys)) {
      const text = JSON.stringify(values);
      // A character takes at most three bytes.
      const most = headerBytes + text.length * 3 + line.length;
      if (used > 0 && used + most > buffer.length) endBlock();
      if (most > buffer.length) buffer = Buffer.allocUnsafe(most);
      const valuesBytes = buffer.write(text, used + headerBytes);
      buffer.writeDoubleLE(resolvedAt, used);
      buffer.writeBigUInt64LE(digest, used + 8);
      buffer.writeUInt32LE(file, used + 16);
      buffer.writeUInt32LE(valuesBytes, used + 20);
      buffer.writeUInt32LE(line.length, used + 24);
      used += headerBytes + valuesBytes;
      buffer.set(line, used);
      used += line.length;
    }
    endBlock();
    this.#runs.push(blocks);
    this.#rows = [];
    this.#rowBytes = 0;
  }

  #write(bytes: Buffer): Block {
    // Room for the whole output, since zlib would copy small chunks together.
    const chunkSize = Math.ceil(bytes.length / 2) + spareBytes;
    const block = zstdCompressSync(bytes, { ...compression, chunkSize });
    const [at, stored] = [this.#fileBytes, block.length];
    this.#file ??= openUnnamed(this.#directory);
    // A write may be short: at 2 GiB, or when the disk fills up.
    for (let done = 0; done < stored; ) done += writeSync(this.#file, block, done);
    release(block);
    this.#fileBytes += stored;
    return { at, stored, raw: bytes.length };
  }

  *#read(blocks: readonly Block[]): Generator<RenderedMarket, undefined> {
    for (const { at, stored, raw } of blocks) {
      const block = Buffer.allocUnsafe(stored);
      for (let done = 0; done < stored; ) {
        const read = readSync(this.#file!, block, done, stored - done, at + done);
        if (read === 0) throw new Error("a temporary file became shorter while it was used");
        done += read;
      }
      yield* marketsIn(zstdDecompressSync(block, { chunkSize: raw + spareBytes }));
    }
    return undefined;
  }
}

function openUnnamed(directory: string): number {
  const path = join(directory, `prs-sort-${randomUUID()}`);
  const file = openSync(path, "wx+", 0o600);
  rmSync(path);
  return file;
}

function* marketsIn(bytes: Buffer): Generator<RenderedMarket> {
  for (let start = 0; start < bytes.length; ) {
    const values = start + headerBytes;
    const lineStart = values + bytes.readUInt32LE(start + 20);
    const end = lineStart + bytes.readUInt32LE(start + 24);
    const line = bytes.subarray(lineStart, end);
    yield {
      id: idOfLine(line),
      resolvedAt: bytes.readDoubleLE(start),
      digest: bytes.readBigUInt64LE(start + 8),
      file: bytes.readUInt32LE(start + 16),
      values: JSON.parse(bytes.toString("utf8", values, lineStart)),
      line,
    };
    start = end;
  }
}
