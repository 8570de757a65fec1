import type { Manifest, SegmentRef } from "../../schemas/store/stored-objects.ts";
import { compareKeys, type MarketLine, marketOfLine } from "../format/market-line.ts";
import { type Page, readRun } from "../format/page.ts";
import { readPages } from "../index/segment.ts";
import type { Turn } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import type { ReadObject } from "../store/objects.ts";

/** A market whose text the other snapshot does not have. */
interface DifferingRow extends MarketLine {
  page: Page;
  /** Counted from the newest. */
  index: number;
}

/**
 * Walks two snapshots side by side from the oldest market up, and yields where they differ. Roots show which segments
 * and pages both have, and those are not read. Memory holds a few pages, and the roots of pages that only one has.
 * Pages of the older one whose roots are in `lost` are skipped.
 */
export async function* differingRows(
  read: ReadObject,
  older: Pick<Manifest, "segments">,
  newer: Pick<Manifest, "segments">,
  turn?: Turn,
  lost: ReadonlySet<string> = new Set(),
): AsyncGenerator<{ before?: DifferingRow; after?: DifferingRow }, void, void> {
  const [old, fresh] = [new Side(read, older, newer, turn), new Side(read, newer, older, turn)];
  const [rootsBefore, rootsAfter] = [await old.roots(), await fresh.roots()];
  const [before, after] = [new Ahead(old.rows(rootsAfter.union(lost))), new Ahead(fresh.rows(rootsBefore))];
  for (;;) {
    const [a, b] = [await before.first(), await after.first()];
    if (!a && !b) return;
    const order = !a ? 1 : !b ? -1 : compareKeys(a, b);
    if (order <= 0) before.drop();
    if (order >= 0) after.drop();
    if (order < 0) yield { before: a! };
    else if (order > 0) yield { after: b! };
    else if (!a!.line.equals(b!.line)) yield { before: a!, after: b! };
  }
}

/** Without the segments that the other snapshot has too. */
class Side {
  readonly #read: ReadObject;
  readonly #segments: readonly SegmentRef[];
  readonly #turn: Turn | undefined;

  constructor(
    read: ReadObject,
    manifest: Pick<Manifest, "segments">,
    other: Pick<Manifest, "segments">,
    turn: Turn | undefined,
  ) {
    this.#read = read;
    this.#turn = turn;
    const shared = new Set(other.segments.map(({ root }) => root));
    this.#segments = manifest.segments.filter(({ root }) => !shared.has(root));
  }

  async roots(): Promise<Set<string>> {
    const roots = new Set<string>();
    for (const ref of this.#segments) {
      const { key, stored } = await this.#open(ref);
      for (const { root } of readPages(key, stored)) roots.add(root);
    }
    return roots;
  }

  /** Skips the pages that the other snapshot has. Page by page, from the oldest. */
  async *rows(shared: ReadonlySet<string>): AsyncGenerator<DifferingRow[], void, void> {
    for (const ref of this.#segments) {
      const { key, stored } = await this.#open(ref);
      for (const page of readPages(key, stored))
        if (!shared.has(page.root)) yield (await this.#rows(page)).reverse();
    }
  }

  async #open(ref: SegmentRef) {
    const key = layout.segment(ref.hash);
    const stored = await this.#read(key, ref);
    await this.#turn?.();
    return { key, stored };
  }

  async #rows(page: Page): Promise<DifferingRow[]> {
    const key = layout.page(page.hash);
    const stored = await this.#read(key, page);
    const rows: DifferingRow[] = [];
    for (const run of page.runs.keys()) {
      await this.#turn?.();
      for (const line of readRun(key, stored, page, run))
        rows.push({ ...marketOfLine(key, line), page, index: rows.length });
    }
    return rows;
  }
}

/** Lets its reader look one item ahead. */
class Ahead<T> {
  readonly #batches: AsyncGenerator<T[], void, void>;
  #batch: T[] = [];
  #at = 0;

  constructor(batches: AsyncGenerator<T[], void, void>) {
    this.#batches = batches;
  }

  async first(): Promise<T | undefined> {
    while (this.#at === this.#batch.length) {
      const { value, done } = await this.#batches.next();
      if (done) return undefined;
      this.#batch = value;
      this.#at = 0;
    }
    return this.#batch[this.#at];
  }

  drop(): void {
    this.#at += 1;
  }
}
