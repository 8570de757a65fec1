import { type FileHandle, open } from "node:fs/promises";
import { type Page, readRun } from "../format/page.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { blockRows } from "./parquet-file.ts";

/** Stored bytes that one batch of pages fetches, about. */
const batchBytes = 4 * 1024 * 1024;
const lineEnd = Buffer.from("\n");

/** One market a line, page by page. Returns the bytes of each block of rows. */
export async function writeTexts(
  path: string,
  storage: Storage,
  pages: AsyncIterable<Page>,
): Promise<number[]> {
  const blocks: number[] = [];
  let rows = 0;
  const file = await open(path, "w");
  try {
    for await (const { page, stored } of fetched(storage, pages)) {
      const lines = linesOf(page, stored);
      for (const line of lines) {
        if (rows % blockRows === 0) blocks.push(0);
        blocks[blocks.length - 1]! += line.length;
        rows += 1;
      }
      await writeAll(file, lines);
    }
  } finally {
    await file.close();
  }
  return blocks;
}

function linesOf(page: Page, stored: Buffer): Buffer[] {
  return page.runs.flatMap((_, index) => readRun(layout.page(page.hash), stored, page.runs, index));
}

async function writeAll(file: FileHandle, lines: readonly Buffer[]): Promise<void> {
  await file.appendFile(Buffer.concat(lines.flatMap((line) => [line, lineEnd])));
}

async function* fetched(storage: Storage, pages: AsyncIterable<Page>) {
  let batch: Page[] = [];
  let bytes = 0;
  for await (const page of pages) {
    batch.push(page);
    bytes += page.bytes;
    if (bytes < batchBytes) continue;
    yield* await fetchAll(storage, batch);
    [batch, bytes] = [[], 0];
  }
  yield* await fetchAll(storage, batch);
}

async function fetchAll(storage: Storage, pages: readonly Page[]) {
  const stored = new Map<Page, Buffer>();
  await inParallel(pages, async (page) => {
    stored.set(page, await readObject(storage, layout.page(page.hash), page));
  });
  return pages.map((page) => ({ page, stored: stored.get(page)! }));
}
