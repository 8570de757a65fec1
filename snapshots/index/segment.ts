import { type FilterField, filterFields } from "../../schemas/filters.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { cuts } from "../format/bytes.ts";
import { hashBytes } from "../format/hash-trees.ts";
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
import { maxResidentBytes } from "../store/layout.ts";
import { wordsFor } from "./bitmap.ts";
import {
  buildIntegerColumn,
  decodeIntegers,
  decodeLabels,
  sliceCount,
  tableBytes,
  timeAt,
} from "./columns.ts";
import type { IdFilter } from "./id-table.ts";
import {
  buildIndex,
  type IndexColumns,
  indexHeader,
  isSame,
  openHeader,
  sectionRootOf,
} from "./index-header.ts";
import {
  type ColumnHeader,
  fieldsIn,
  isKnown,
  type LabelTables,
  loadColumn,
  parseIndexHeader,
  readIntegers,
  readLabels,
  readTimes,
  type SegmentColumns,
  sectionsOf,
  type WordsRef,
} from "./index-reader.ts";
import {
  encodeSections,
  openSections,
  type SectionData,
  type Sections,
  sectionViews,
  uint32s,
} from "./sections.ts";

/** A segment's index in memory. */
export interface Segment extends SegmentColumns, PageTable {
  residentBytes: number;
  /** Once somebody looked for an id. */
  idFilter?: IdFilter;
}

const magic = "PRSSEG\r\n";

/** The sections that queries need in memory. The others are read once, when loading. */
const residentIn = (columns: readonly ColumnHeader[]): ReadonlySet<string> =>
  new Set([
    ...["pageHashes", "pageBytes", "pageMarkets", "pageEncodings", "runs", "times"],
    ...columns
      .filter(isKnown)
      .flatMap(sectionsOf)
      .filter((name) => !name.endsWith(".rare")),
  ]);

/**
 * The bytes of a segment (snapshots/SPEC.md, "Segments") with columns for these fields. Pages and markets come in order
 * from the oldest.
 */
export function encodeSegment(
  pages: readonly Page[],
  columns: IndexColumns,
  words: WordsRef,
  fields: readonly FilterField[] = filterFields,
): Buffer {
  const index = buildIndex(pages, columns, fields);
  const all = [...new Map([...pageSections(pages, index.sections), ...index.sections])];
  const resident = residentIn(index.columns);
  const object = encodeSections(magic, { formatVersion }, [
    ...all.filter(([name]) => resident.has(name)),
    ...all.filter(([name]) => !resident.has(name)),
    ["index", indexHeader(index, words)],
  ]);
  return Buffer.from(object.buffer);
}

const openSegment = (key: string, stored: Buffer) => openSections(key, stored, magic);

/** The canonical header, as it is stored. */
export const readIndexHeader = (key: string, stored: Buffer): Buffer => readSections(key, stored)("index");

/** The sections as they are stored. */
export const readSections = (key: string, stored: Buffer): Sections<Buffer> =>
  openSegment(key, stored).section;

/** Names of sections in which the segment differs from its index header. */
export function differencesFromHeader(key: string, stored: Buffer): string[] {
  const { section } = openSegment(key, stored);
  const sections = openHeader(key, section("index")).member("sections").members();
  const wrong = sections.filter(([name, ref]) => {
    const bytes = section(name);
    return !isSame(ref.value, [bytes.length, sectionRootOf(bytes)]);
  });
  return wrong.map(([name]) => `section ${name}`);
}

/**
 * Copies the part that queries on these columns need: it must be aligned for typed arrays, and free of the part that
 * only loading needs.
 */
function copyResident(key: string, stored: Buffer, columns: readonly ColumnHeader[] = []) {
  const { sections, body, section: read } = openSegment(key, stored);
  const names = residentIn(columns);
  const needed = Object.entries(sections).filter(([name]) => names.has(name));
  const residentBytes = Math.max(0, ...needed.map(([, [at, bytes]]) => at + bytes));
  if (residentBytes > maxResidentBytes)
    throw new CorruptObjectError(
      key,
      `what queries need of it ends at ${residentBytes}, beyond ${maxResidentBytes}`,
    );
  const resident = Buffer.from(new Uint8Array(body.subarray(0, residentBytes)).buffer);
  const view = sectionViews(key, sections, resident);
  const section: Sections<Buffer> = (name, bytes) => (names.has(name) ? view : read)(name, bytes);
  return { residentBytes, section };
}

/** The columns that the index header names, as views of a copy of the part that queries need. */
export function openColumns(key: string, stored: Buffer) {
  const { markets, epochs, columns } = parseIndexHeader(key, readIndexHeader(key, stored));
  return { key, markets, epochs, columns, ...copyResident(key, stored, columns) };
}

/** Reads no index header, so that it works beside one of a later version too. */
export const openPages = (key: string, stored: Buffer): PageTable =>
  readPageTable(key, copyResident(key, stored).section);

/** The whole page table, oldest page first. */
export function readPages(key: string, stored: Buffer): Page[] {
  const { section } = copyResident(key, stored);
  const { page, pages } = readPageTable(key, section);
  const roots = section("pageRoots", pages * 32);
  return Array.from({ length: pages }, (_, index) => ({
    ...page(index),
    root: roots.toString("hex", index * 32, index * 32 + 32),
  }));
}

/** The bytes must have been checked against the hash. Adds the labels to `tables`. */
export function loadSegment(key: string, stored: Buffer, tables: LabelTables): Segment {
  const source = openColumns(key, stored);
  const { markets, residentBytes } = source;
  const pages = readPageTable(key, source.section);
  const fields = fieldsIn(source.columns);
  const columns = { markets, fields, times: readTimes(source), integers: new Map(), labels: new Map() };
  for (const row of fields) loadColumn(columns, source, row, tables);
  const beside = [source.section("runHashes").length, ...Array.from(columns.labels.values(), tableBytes)];
  return {
    ...columns,
    ...pages,
    residentBytes: beside.reduce((sum, bytes) => sum + bytes, residentBytes),
  };
}

/** The columns of a segment that encodeSegment was given, of the fields that it has. `key` is its own, for errors. */
export function decodeColumns(key: string, stored: Buffer): IndexColumns {
  const source = openColumns(key, stored);
  const { markets } = source;
  const times = readTimes(source);
  const columns = new Map<string, ArrayLike<unknown>>();
  for (const row of fieldsIn(source.columns)) {
    if (row.kind === "integer") columns.set(row.field, decodeIntegers(readIntegers(source, row), markets));
    else columns.set(row.field, decodeLabels(readLabels(source, row), markets));
  }
  return {
    times: Array.from({ length: markets }, (_, ordinal) => timeAt(times, ordinal)),
    values: (name) => columns.get(name) as ArrayLike<never>,
  };
}

const gzip = 0;

/** The part of a segment's pages that reading one needs. */
export interface PageTable {
  pages: number;
  /** The ordinal of each page's oldest market, then the number of markets. */
  pageStarts: Uint32Array;
  page(index: number): CompressedPage;
}

/** The sections of pages, oldest page first. Those that the index covers come from there. */
function pageSections(
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
function readPageTable(key: string, section: Sections<Buffer>): PageTable {
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

const countBytes = 4;

/**
 * The origins object of a segment (snapshots/PUBLISHING.md, "Sources"). `numbers` are the files of the rows by ordinal,
 * counted from 1 in `hashes`.
 */
export function encodeOrigins(numbers: readonly number[], hashes: readonly string[]): Buffer {
  const files = [...new Set(numbers)].map((number) => ({ number, hash: hashes[number - 1]! }));
  files.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const places = new Map(files.map(({ number }, place) => [number, place]));
  const { slices } = buildIntegerColumn(
    numbers.map((number) => places.get(number)!),
    0,
    files.length - 1,
  );
  const count = Buffer.alloc(countBytes);
  count.writeUInt32LE(files.length);
  const table = Buffer.from(files.map(({ hash }) => hash).join(""), "hex");
  return Buffer.concat([count, table, Buffer.from(slices.buffer)]);
}

/** The source files of a segment: their hashes, ascending, and by ordinal the place of the row's file among these. */
export interface Origins {
  hashes: readonly string[];
  places: Uint32Array;
}

/** Adds the number of rows of each file to `rows`, by the file's hash. */
export function addRowsByFile(rows: Map<string, number>, { hashes, places }: Origins): void {
  const counts = new Uint32Array(hashes.length);
  for (const place of places) counts[place]! += 1;
  for (const [place, hash] of hashes.entries()) rows.set(hash, (rows.get(hash) ?? 0) + counts[place]!);
}

export function decodeOrigins(key: string, stored: Buffer, markets: number): Origins {
  const files = stored.length < countBytes ? 0 : stored.readUInt32LE();
  const table = countBytes + files * hashBytes;
  const slices = files > 0 ? sliceCount(files - 1) : 0;
  if (files === 0 || stored.length !== table + slices * wordsFor(markets) * 4)
    throw new CorruptObjectError(key, "it does not tell the file of every market");
  const hashes = Array.from({ length: files }, (_, file) => {
    const start = countBytes + file * hashBytes;
    return stored.toString("hex", start, start + hashBytes);
  });
  const bits = new Uint32Array(new Uint8Array(stored.subarray(table)).buffer);
  const places = decodeIntegers({ min: 0, max: files - 1, slices: bits }, markets);
  if (places.some((place) => place >= files))
    throw new CorruptObjectError(key, "it names a file that it does not list");
  return { hashes, places };
}
