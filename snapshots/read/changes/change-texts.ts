import { LRUCache } from "lru-cache";
import type { ChangePartRef } from "../../../schemas/store/snapshot.ts";
import { ChangePart, partLines, putLine, runLines } from "../../format/change-part.ts";
import { cuts } from "../../format/cuts.ts";
import type { DeflatePiece } from "../../format/gzip.ts";
import { readRun, runMarkets, type StoredPage } from "../../format/page.ts";
import { layout } from "../../store/layout.ts";
import type { ObjectCache } from "../catalog/caches.ts";
import { awaitBudget } from "../event-loop-budget.ts";

/** Where the texts of changed markets are stored: in objects of at most 512 lines, in runs. */
export interface ChangeTexts {
  /** The last run of an object may have fewer. */
  readonly runLines: number;
  /** Bytes of memory. */
  readonly bytes: number;
  lines(source: number): number;
  /** Each line is a put with its line feed. */
  run(source: number, run: number): Promise<Buffer[]>;
  /** The compressed lines of a run, where they are stored in this form. */
  piece?(source: number, run: number): Promise<DeflatePiece>;
}

const most = Math.max(partLines, cuts.pageMax);

/** One number for a line of an object. */
export const tagOf = (source: number, line: number) => source * most + line;
/** The inverse of tagOf. */
export const sourceOf = (tag: number) => ({ source: Math.floor(tag / most), line: tag % most });

// Bytes of memory for a part, and for a page table entry with up to 32 runs.
const [partBytes, pageBytes] = [300, 4000];
/** Each has about 200 kB. */
const keptRuns = 16;

export class PartTexts implements ChangeTexts {
  readonly runLines = runLines;
  readonly #objects: ObjectCache;
  readonly #parts: ChangePartRef[] = [];

  constructor(objects: ObjectCache) {
    this.#objects = objects;
  }

  get bytes(): number {
    return this.#parts.length * partBytes;
  }

  add(part: ChangePartRef): number {
    return this.#parts.push(part) - 1;
  }

  lines(source: number): number {
    return this.#parts[source]!.lines;
  }

  async run(source: number, run: number): Promise<Buffer[]> {
    return (await this.#part(source)).runLines(run);
  }

  async piece(source: number, run: number): Promise<DeflatePiece> {
    return (await this.#part(source)).run(run);
  }

  async #part(source: number): Promise<ChangePart> {
    const ref = this.#parts[source]!;
    const key = layout.changePart(ref.hash);
    const stored = await this.#objects.get(key, ref);
    await awaitBudget();
    return new ChangePart(key, stored);
  }
}

export class PageTexts implements ChangeTexts {
  readonly runLines = runMarkets;
  readonly #objects: ObjectCache;
  readonly #pages: StoredPage[] = [];

  constructor(objects: ObjectCache) {
    this.#objects = objects;
  }

  get bytes(): number {
    return this.#pages.length * pageBytes;
  }

  /** Returns the place of the page. Adds it unless it is the one that was added last. */
  add(page: StoredPage): number {
    if (this.#pages.at(-1) !== page) this.#pages.push(page);
    return this.#pages.length - 1;
  }

  lines(source: number): number {
    return this.#pages[source]!.markets;
  }

  async run(source: number, run: number): Promise<Buffer[]> {
    const page = this.#pages[source]!;
    const key = layout.page(page.hash);
    const stored = await this.#objects.get(key, page);
    return readRun(key, stored, page.runs, run).map(putLine);
  }
}

/** Keeps the runs that one answer has read last: several records may take turns. */
export class KeptRuns {
  readonly #texts: ChangeTexts;
  readonly #runs = new LRUCache<string, Buffer[]>({ max: keptRuns });

  constructor(texts: ChangeTexts) {
    this.#texts = texts;
  }

  async line(tag: number): Promise<Buffer> {
    const { source, line } = sourceOf(tag);
    const { runLines } = this.#texts;
    const run = Math.floor(line / runLines);
    const name = `${source}/${run}`;
    let lines = this.#runs.get(name);
    if (!lines) {
      await awaitBudget(4);
      lines = await this.#texts.run(source, run);
      this.#runs.set(name, lines);
    }
    return lines[line % runLines]!;
  }
}
