import type { DeflatePiece } from "../../format/gzip.ts";
import { type CompressedPage, isRun, rangeOfRuns, runsPiece, type StoredRun } from "../../format/page.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { requireSize } from "../../store/objects.ts";
import { joined } from "../../store/storage.ts";
import type { ObjectCache } from "../catalog/caches.ts";
import { awaitBudget } from "../effort.ts";

// The S3 client has this many connections.
const fetchedAtOnce = 128;

// From this share of a page on, all of it is read, since the next request is likely to need the rest.
const wholeShare = 1 / 2;

interface RunOf {
  page: CompressedPage;
  run: number;
}

/** Runs of pages as they are stored, checked against their hashes or that of their page. */
export class StoredRuns {
  readonly #objects: ObjectCache;
  readonly #pages = new Map<string, Buffer>();
  readonly #runs = new Map<string, Buffer>();

  private constructor(objects: ObjectCache) {
    this.#objects = objects;
  }

  /** The runs of one page must ascend, and may be named more than once. */
  static async read(objects: ObjectCache, needed: readonly RunOf[]): Promise<StoredRuns> {
    const pages = new Map<string, { page: CompressedPage; runs: number[] }>();
    for (const { page, run } of needed) {
      const known = pages.get(page.hash);
      if (!known) pages.set(page.hash, { page, runs: [run] });
      else if (known.runs.at(-1) !== run) known.runs.push(run);
    }
    const stored = new StoredRuns(objects);
    await inParallel(pages.values(), ({ page, runs }) => stored.#fetch(page, runs), fetchedAtOnce);
    return stored;
  }

  run({ page, run }: RunOf): StoredRun {
    const [piece] = this.pieces(page, run) as [DeflatePiece];
    return { key: layout.page(page.hash), index: run, piece };
  }

  /** From `first` to `last` (inclusive), in pieces that follow each other. */
  pieces(page: CompressedPage, first: number, last = first): DeflatePiece[] {
    const stored = this.#pages.get(page.hash);
    if (stored) return [runsPiece(stored, page.runs, first, last)];
    return page.runs.slice(first, last + 1).map(({ rawBytes, crc }, position) => {
      const bytes = this.#runs.get(nameOfRun(page, first + position))!;
      return { bytes, rawBytes, crc };
    });
  }

  async #fetch(page: CompressedPage, runs: readonly number[]): Promise<void> {
    await awaitBudget();
    const key = layout.page(page.hash);
    const [first, last] = [runs[0]!, runs.at(-1)!];
    const range = rangeOfRuns(page.runs, first, last);
    if (this.#objects.has(key) || range.bytes > page.bytes * wholeShare) {
      this.#pages.set(page.hash, await this.#objects.get(key, page));
      return;
    }
    requireSize(key, range.bytes);
    let reading: Promise<Buffer> | undefined;
    const readRun = async (run: number) => {
      reading ??= this.#objects.range(key, range);
      const part = await reading;
      const { offset, bytes } = rangeOfRuns(page.runs, run);
      const stored = part.subarray(offset - range.offset, offset - range.offset + bytes);
      // A cache on the disk returns parts of pages unchecked. It hashes a page that is read whole, and mends it.
      if (!isRun(page, run, stored)) {
        const whole = await this.#objects.get(key, page);
        return joined([whole.subarray(offset, offset + bytes)]);
      }
      // A cached run must not keep the other runs in memory.
      return bytes === part.length ? part : joined([stored]);
    };
    for (const run of runs) {
      const name = nameOfRun(page, run);
      this.#runs.set(name, await this.#objects.part(name, () => readRun(run)));
    }
  }
}

const nameOfRun = ({ hash }: CompressedPage, run: number) => `${layout.page(hash)}/${run}`;
