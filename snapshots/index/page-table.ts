import { cuts } from "../format/cuts.ts";
import {
  type CompressedPage,
  maxPageRunBytes,
  type Page,
  readRunTable,
  runHashBytes,
  runsOf,
  runTable,
  runTableBytes,
} from "../format/page.ts";
import { CorruptObjectError, requireEncoding } from "../store/errors.ts";
import { type SectionData, type Sections, uint32s } from "./sections.ts";

const gzip = 0;

/** The part of a segment's pages that reading one needs. */
export interface PageTable {
  pages: number;
  /** The ordinal of each page's oldest market, then the number of markets. */
  pageStarts: Uint32Array;
  page(index: number): CompressedPage;
}

/** The sections of pages, oldest page first. Those that the index covers come from there. */
export function pageSections(
  pages: readonly Page[],
  index: ReadonlyMap<string, Uint8Array>,
): [name: string, data: SectionData][] {
  return [
    ["pageHashes", Buffer.from(pages.map(({ hash }) => hash).join(""), "hex")],
    ["pageBytes", Uint32Array.from(pages, ({ bytes }) => bytes)],
    ["pageMarkets", index.get("pageMarkets")!],
    ["pageEncodings", new Uint8Array(pages.length).fill(gzip)],
    ["runs", runTable(pages.flatMap(({ runs }) => runs))],
    ["pageRoots", index.get("pageRoots")!],
    ["runHashes", Buffer.from(pages.map(({ runHashes }) => runHashes).join(""), "hex")],
  ];
}

/** Only `runHashes` are copied. Sections begin at multiples of 4 in their buffer. */
export function readPageTable(key: string, section: Sections<Buffer>): PageTable {
  const { buffer, byteOffset, length } = section("pageMarkets");
  const pages = length / 2;
  const hashes = section("pageHashes", pages * 32);
  const bytes = uint32s(section("pageBytes", pages * 4));
  for (const encoding of section("pageEncodings", pages)) requireEncoding(key, encoding, "a page of it");
  const pageMarkets = new Uint16Array(buffer, byteOffset, pages);
  const [pageStarts, firstRun] = [new Uint32Array(pages + 1), new Uint32Array(pages + 1)];
  pageMarkets.forEach((count, index) => {
    pageStarts[index + 1] = pageStarts[index]! + count;
    firstRun[index + 1] = firstRun[index]! + runsOf(count);
  });
  // Must come before anything is allocated per run: a wrong number could ask for more memory than there is.
  if (pageStarts[pages]! * 4 !== section("times").length)
    throw new CorruptObjectError(key, "its pages do not have as many markets as it says");
  const runs = section("runs", firstRun[pages]! * runTableBytes);
  // The table says how much there will be once it is inflated.
  const tooLong = uint32s(runs).some((bytes, position) => position % 3 === 1 && bytes > maxPageRunBytes);
  if (tooLong || pageMarkets.some((count) => count > cuts.pageMax))
    throw new CorruptObjectError(key, "a page or a run of it is longer than one can be");
  const runHashes = Buffer.from(section("runHashes", firstRun[pages]! * runHashBytes));
  const page = (index: number): CompressedPage => ({
    markets: pageMarkets[index]!,
    hash: hashes.toString("hex", index * 32, index * 32 + 32),
    bytes: bytes[index]!,
    runHashes: runHashes.toString(
      "hex",
      firstRun[index]! * runHashBytes,
      firstRun[index + 1]! * runHashBytes,
    ),
    runs: readRunTable(runs.subarray(firstRun[index]! * runTableBytes, firstRun[index + 1]! * runTableBytes)),
  });
  return { pages, pageStarts, page };
}
