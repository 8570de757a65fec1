import type { Manifest, SegmentRef } from "../../schemas/store/stored-objects.ts";
import { type Page, separator } from "../format/page.ts";
import { rootOver } from "../format/tree.ts";
import { readPages } from "../index/segment.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** The pages of a segment from `from` (inclusive) to `to` (exclusive), counted from the oldest. */
interface PageRange {
  segment: SegmentRef;
  from: number;
  to: number;
}

/** A file before it is made: its pages from the oldest up, and the root of a tree over them. */
export interface PlannedFile {
  ranges: PageRange[];
  rows: number;
  root: string;
}

/** The most text of a file's markets, apart from its last page. It bounds memory and temporary files. */
const maxTextBytes = 256 * 1024 * 1024;
/**
 * One in this many segments ends a file, chosen by its root, so that files of old markets stay the same from export to
 * export.
 */
const segmentsPerFile = 4;

/**
 * Divides an archive into files, from the newest markets to the oldest. Computes the roots of the segments from those of
 * the pages on the way.
 */
export async function planFiles(
  storage: Storage,
  manifest: Manifest,
  maxBytes = maxTextBytes,
): Promise<PlannedFile[]> {
  const files: PlannedFile[] = [];
  let [open, pages, bytes]: [PageRange[], Page[], number] = [[], [], 0];
  const close = () => {
    const rows = pages.reduce((sum, page) => sum + page.markets, 0);
    files.push({ ranges: open, rows, root: rootOver("segment", pages).toString("hex") });
    [open, pages, bytes] = [[], [], 0];
  };
  for (const segment of manifest.segments) {
    const table = await pagesOf(storage, segment);
    let from = 0;
    for (const [index, page] of table.entries()) {
      pages.push(page);
      bytes += textBytes(page);
      const last = index === table.length - 1;
      if (!last && bytes < maxBytes) continue;
      open.push({ segment, from, to: index + 1 });
      from = index + 1;
      if (bytes >= maxBytes || Number.parseInt(segment.root.slice(0, 4), 16) % segmentsPerFile === 0) close();
    }
  }
  if (pages.length > 0) close();
  return files.reverse();
}

/** From the newest to the oldest. */
export async function* pagesOfFile(storage: Storage, { ranges }: PlannedFile): AsyncGenerator<Page> {
  for (const { segment, from, to } of ranges.toReversed())
    yield* (await pagesOf(storage, segment)).slice(from, to).reverse();
}

async function pagesOf(storage: Storage, ref: SegmentRef): Promise<Page[]> {
  const key = layout.segment(ref.hash);
  const pages = readPages(key, await readObject(storage, key, ref));
  if (rootOver("segment", pages).toString("hex") !== ref.root)
    throw new CorruptObjectError(key, "its root is not the manifest's");
  return pages;
}

function textBytes({ runs, markets }: Page): number {
  return runs.reduce((sum, run) => sum + run.rawBytes, 0) + markets * separator.length;
}
