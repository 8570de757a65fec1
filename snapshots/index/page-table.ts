import { cuts } from "../format/cuts.ts";
import {
  type CompressedPage,
  maxPageRunBytes,
  type Page,
  type Run,
  runHashBytes,
  runMarkets,
} from "../format/page.ts";
import type { Subtree } from "../format/tree.ts";
import { CorruptObjectError, requireEncoding } from "../store/errors.ts";
import type { SectionWriter } from "./section-writer.ts";
import { type SectionLookup, uint32s } from "./sections.ts";

const gzip = 0;

/** The part of a segment's pages that reading one needs. */
export interface PageTable {
  pageMarkets: Uint16Array;
  page(index: number): CompressedPage;
}

export const pageMarketsOf = (pages: readonly Subtree[]) => Uint16Array.from(pages, ({ markets }) => markets);

export const pageRootsOf = (pages: readonly Subtree[]) =>
  Buffer.from(pages.map(({ root }) => root).join(""), "hex");

/** The sections that queries need, oldest page first. */
export function addPageTable(sections: SectionWriter, pages: readonly Page[]): void {
  const runs = pages.flatMap((page) => page.runs);
  sections.add("pageHashes", Buffer.from(pages.map((page) => page.hash).join(""), "hex"));
  sections.add(
    "pageBytes",
    Uint32Array.from(pages, (page) => page.bytes),
  );
  sections.add("pageMarkets", pageMarketsOf(pages));
  sections.add("pageEncodings", new Uint8Array(pages.length).fill(gzip));
  sections.add("runs", Uint32Array.from(runs.flatMap((run) => [run.compressedBytes, run.rawBytes, run.crc])));
}

/** Sections that queries do not view in memory: roots are read once, hashes are copied. */
export function addPageDigests(sections: SectionWriter, pages: readonly Page[]): void {
  sections.add("pageRoots", pageRootsOf(pages));
  sections.add("runHashes", Buffer.from(pages.map((page) => page.runHashes).join(""), "hex"));
}

/** Reads the sections that queries need. `runHashes` lies apart from them. */
export function readPageTable(
  key: string,
  { buffer, section, runHashes }: { buffer: ArrayBuffer; section: SectionLookup; runHashes: Uint8Array },
  { pages, markets }: { pages: number; markets: number },
): PageTable {
  const hashes = Buffer.from(buffer, ...section("pageHashes", pages * 32));
  const bytes = uint32s(buffer, section("pageBytes", pages * 4));
  const pageMarkets = new Uint16Array(buffer, section("pageMarkets", pages * 2)[0], pages);
  const encodings = new Uint8Array(buffer, ...section("pageEncodings", pages));
  for (const encoding of encodings) requireEncoding(key, encoding, "a page of it");
  const firstRun = new Uint32Array(pages + 1);
  pageMarkets.forEach((count, index) => {
    firstRun[index + 1] = firstRun[index]! + Math.ceil(count / runMarkets);
  });
  // Must come before anything is allocated per run: a wrong number could ask for more memory than there is.
  if (pageMarkets.reduce((sum, count) => sum + count, 0) !== markets)
    throw new CorruptObjectError(key, "its pages do not have as many markets as it says");
  const runTable = uint32s(buffer, section("runs", firstRun[pages]! * 12));
  // The table says how much there will be once it is inflated.
  const tooLong = runTable.some((bytes, position) => position % 3 === 1 && bytes > maxPageRunBytes);
  if (tooLong || pageMarkets.some((count) => count > cuts.pageMax))
    throw new CorruptObjectError(key, "a page or a run of it is longer than one can be");
  if (runHashes.length !== firstRun[pages]! * runHashBytes)
    throw new CorruptObjectError(key, "its section runHashes is cut");
  const ofRuns = Buffer.from(runHashes.buffer, runHashes.byteOffset, runHashes.length);
  const page = (index: number): CompressedPage => ({
    markets: pageMarkets[index]!,
    hash: hashes.toString("hex", index * 32, index * 32 + 32),
    bytes: bytes[index]!,
    runHashes: ofRuns.toString("hex", firstRun[index]! * runHashBytes, firstRun[index + 1]! * runHashBytes),
    runs: Array.from({ length: firstRun[index + 1]! - firstRun[index]! }, (_, run): Run => {
      const entry = (firstRun[index]! + run) * 3;
      return { compressedBytes: runTable[entry]!, rawBytes: runTable[entry + 1]!, crc: runTable[entry + 2]! };
    }),
  });
  return { pageMarkets, page };
}

/** The whole page table, oldest page first. */
export function readWholePages(
  key: string,
  buffer: ArrayBuffer,
  section: SectionLookup,
  header: { pages: number; markets: number },
): Page[] {
  const runHashes = new Uint8Array(buffer, ...section("runHashes"));
  const { page } = readPageTable(key, { buffer, section, runHashes }, header);
  const roots = Buffer.from(buffer, ...section("pageRoots", header.pages * 32));
  return Array.from({ length: header.pages }, (_, index) => ({
    ...page(index),
    root: roots.toString("hex", index * 32, index * 32 + 32),
  }));
}
