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
  const [old, fresh] = [alone(older, newer), alone(newer, older)];
  const rootsOf = async (segments: readonly SegmentRef[]) => {
    const roots = new Set<string>();
    for await (const { root } of pagesOf(read, segments, turn)) roots.add(root);
    return roots;
  };
  const [rootsBefore, rootsAfter] = [await rootsOf(old), await rootsOf(fresh)];
  const before = rowsOf(read, old, rootsAfter.union(lost), turn);
  const after = rowsOf(read, fresh, rootsBefore, turn);
  let [a, b] = [(await before.next()).value, (await after.next()).value];
  while (a || b) {
    const order = !a ? 1 : !b ? -1 : compareKeys(a, b);
    if (order < 0) yield { before: a! };
    else if (order > 0) yield { after: b! };
    else if (!a!.line.equals(b!.line)) yield { before: a!, after: b! };
    if (order <= 0) a = (await before.next()).value;
    if (order >= 0) b = (await after.next()).value;
  }
}

/** The segments of a snapshot that the other does not have. */
function alone({ segments }: Pick<Manifest, "segments">, other: Pick<Manifest, "segments">): SegmentRef[] {
  const shared = new Set(other.segments.map(({ root }) => root));
  return segments.filter(({ root }) => !shared.has(root));
}

async function* pagesOf(
  read: ReadObject,
  segments: readonly SegmentRef[],
  turn?: Turn,
): AsyncGenerator<Page, void, void> {
  for (const ref of segments) {
    const key = layout.segment(ref.hash);
    const stored = await read(key, ref);
    await turn?.();
    yield* readPages(key, stored);
  }
}

/** From the oldest. Skips the pages that the other snapshot has. */
async function* rowsOf(
  read: ReadObject,
  segments: readonly SegmentRef[],
  shared: ReadonlySet<string>,
  turn?: Turn,
): AsyncGenerator<DifferingRow, undefined, void> {
  for await (const page of pagesOf(read, segments, turn)) {
    if (shared.has(page.root)) continue;
    const key = layout.page(page.hash);
    const stored = await read(key, page);
    const rows: DifferingRow[] = [];
    for (const run of page.runs.keys()) {
      await turn?.();
      for (const line of readRun(key, stored, page, run))
        rows.push({ ...marketOfLine(key, line), page, index: rows.length });
    }
    for (const row of rows.reverse()) yield row;
  }
}
