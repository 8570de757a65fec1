import { z } from "zod";
import {
  type FilterField,
  type FilterValues,
  filterFields,
  type IntegerName,
  type LabelName,
  labelFields,
} from "../../schemas/filters.ts";
import { formatVersion } from "../../schemas/snapshot.ts";
import type { Page, StoredPage } from "../format/page.ts";
import { rootOver } from "../format/tree.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { maxResidentBytes } from "../store/layout.ts";
import { parseObject } from "../store/records.ts";
import { ranksOf, wordsFor } from "./bitmap.ts";
import { Columns, fieldOf, isForeign } from "./columns.ts";
import { coveredSections, indexHeader, indexVersion, isKnown, type WordsRef } from "./index-header.ts";
import { buildIntegerColumn, type IntegerColumn, sliceCount } from "./integer-column.ts";
import { buildLabelColumn, type LabelColumn, type LoadedLabelColumn, lowestCode } from "./label-column.ts";
import { LabelTable } from "./label-table.ts";
import { addPageDigests, addPageTable, type PageTable, readPageTable, readWholePages } from "./page-table.ts";
import {
  openSections,
  SectionTable,
  SectionWriter,
  sealSections,
  sectionLookup,
  uint32s,
} from "./sections.ts";
import { buildTimeColumn, type TimeColumn } from "./time-column.ts";

/** The values of one market that the index keeps. */
export interface IndexRow {
  /** Epoch milliseconds. */
  resolvedAt: number;
  values: FilterValues;
}

/** One label table per text field, shared by all segments in a process. */
export type LabelTables = Record<LabelName, LabelTable>;

/** Creates empty label tables, which ignore letter case where the field's filter does. */
export function createLabelTables(): LabelTables {
  return Object.fromEntries(
    labelFields.map(({ field, fold }) => [field, new LabelTable(fold)]),
  ) as LabelTables;
}

/** A segment in memory. Ordinals count from its oldest market, which is 0. */
export interface Segment {
  markets: number;
  /** The ordinal of each page's oldest market, followed by the number of markets. */
  pageStarts: Uint32Array;
  times: TimeColumn;
  integers: Map<IntegerName, IntegerColumn>;
  labels: Map<LabelName, LoadedLabelColumn>;
  /** The memory that the index takes, in bytes. */
  residentBytes: number;
  page(index: number): StoredPage;
}

const magic = Buffer.from("PRSSEG\r\n");
const SegmentHeader = z.object({
  formatVersion: z.literal(formatVersion),
  markets: z.int().min(1).max(65_536),
  pages: z.int().min(1),
  /**
   * The length in bytes of the body's first part, which queries need in memory. The rest is read once, when loading.
   */
  residentBytes: z.int().min(0).max(maxResidentBytes),
  epochs: z.array(z.tuple([z.int().min(0), z.int().min(0)])),
  columns: Columns,
  sections: SectionTable,
});

type SegmentHeader = z.infer<typeof SegmentHeader>;

/** What a segment's index header tells of the objects beside it: the ids object, and what names the words object. */
export interface Beside {
  ids: Buffer;
  words: WordsRef;
}

/**
 * The bytes of a segment (snapshots/SPEC.md, "Segments") with columns for these fields. Takes pages and rows in order
 * from the oldest.
 */
export function encodeSegment(
  pages: readonly Page[],
  rows: readonly IndexRow[],
  beside: Beside,
  fields: readonly FilterField[] = filterFields,
): Buffer {
  const times = buildTimeColumn(rows.map((row) => row.resolvedAt));
  const sections = new SectionWriter();
  addPageTable(sections, pages);
  sections.add("times", times.low);
  const columns: SegmentHeader["columns"] = [];
  const rare: [string, string[]][] = [];
  for (const row of fields) {
    const name = row.field;
    if (row.kind === "integer") {
      const { min, max } = row;
      const values = rows.map(({ values }) => values[row.field]);
      sections.add(name, buildIntegerColumn(values, min, max).slices);
      columns.push({ name, kind: "integer", min, max });
      continue;
    }
    const column = buildLabelColumn(rows.map(({ values }) => values[row.field]));
    sections.add(`${row.field}.codes`, column.codes.slices);
    sections.add(`${row.field}.postings`, column.postings);
    sections.add(`${row.field}.starts`, column.starts);
    columns.push({ name, kind: "label", frequent: column.frequent });
    rare.push([row.field, column.rare]);
  }
  const residentBytes = sections.bytes;
  addPageDigests(sections, pages);
  for (const [field, labels] of rare) sections.add(`${field}.rare`, Buffer.from(JSON.stringify(labels)));
  const root = rootOver("segment", pages).toString("hex");
  const indexed = { markets: rows.length, pages: pages.length, root, times, columns };
  const sectionOf = (name: string) => (name === "ids" ? beside.ids : sections.get(name));
  sections.add("index", indexHeader(indexed, sectionOf, beside.words));

  const header: SegmentHeader = {
    formatVersion,
    markets: rows.length,
    pages: pages.length,
    residentBytes,
    epochs: times.epochs,
    columns,
    sections: sections.sections,
  };
  return sealSections(magic, header, sections.parts);
}

/** The canonical header of a segment's index, as it is stored. Throws CorruptObjectError. */
export function readIndexHeader(key: string, stored: Buffer): Buffer {
  const { header, body } = openSections(key, stored, magic, SegmentHeader);
  const [offset, bytes] = sectionLookup(key, header, body.length)("index");
  return body.subarray(offset, offset + bytes);
}

/** What an index header tells of columns and sections, of which later versions may have others. */
const ToldIndex = z.object({
  version: z.int(),
  columns: z.array(z.looseObject({})),
  sections: z.record(z.string(), z.unknown()),
});

/**
 * Whether a segment's index header is right about what the segment holds, also in columns that this version does not
 * know; undefined when the header is of another version.
 */
export function isIndexHeader(key: string, stored: Buffer, { ids, words }: Beside): boolean | undefined {
  const { header, body } = openSections(key, stored, magic, SegmentHeader);
  const section = sectionLookup(key, header, body.length);
  const sectionOf = (name: string) => {
    if (name === "ids") return ids;
    const [offset, bytes] = section(name);
    return body.subarray(offset, offset + bytes);
  };
  const { times } = readColumns(key, stored);
  const { markets, pages } = header;
  const root = rootOver("segment", readPages(key, stored)).toString("hex");
  const told = readIndexHeader(key, stored);
  const { version, columns, sections } = parseObject(key, told, ToldIndex);
  if (version !== indexVersion) return undefined;
  const names = Object.keys(sections);
  const known = Columns.safeParse(columns).data;
  if (JSON.stringify(known) !== JSON.stringify(header.columns)) return false;
  if (!coveredSections(header.columns).every((name) => names.includes(name))) return false;
  const segment = { markets, pages, root, times, columns: columns as typeof header.columns };
  return told.equals(indexHeader(segment, sectionOf, words, names));
}

/** A segment's whole page table, from the oldest page up. Throws CorruptObjectError. */
export function readPages(key: string, stored: Buffer): Page[] {
  const { header, body } = openSections(key, stored, magic, SegmentHeader);
  const copy = new Uint8Array(body).buffer;
  const section = sectionLookup(key, header, copy.byteLength);
  return readWholePages(key, copy, section, header);
}

/** A segment's columns as they are stored. They are views of `resident`, a copy of the part that queries need. */
interface StoredColumns {
  markets: number;
  resident: ArrayBuffer;
  table: PageTable;
  times: TimeColumn;
  /** The fields that it has columns for, in its order. A segment of another version may lack some. */
  fields: readonly FilterField[];
  /** Whether it has columns that this version does not read. */
  others: boolean;
  /** Names of columns that no field of this version has, or that are of a kind that it does not know. */
  unknown: string[];
  integers: Map<IntegerName, IntegerColumn>;
  labels: Map<LabelName, LabelColumn>;
}

/** Reads the columns of a segment. Throws CorruptObjectError. */
export function readColumns(key: string, stored: Buffer): StoredColumns {
  const { header, body } = openSections(key, stored, magic, SegmentHeader);
  // A copy is aligned for typed arrays, and leaves out the part that is needed only when loading.
  const resident = new Uint8Array(body.subarray(0, header.residentBytes)).buffer;
  const section = sectionLookup(key, header, resident.byteLength);
  const words = (name: string, count: number) => uint32s(resident, section(name, count * 4));
  const slices = (name: string, range: number) => words(name, wordsFor(header.markets) * sliceCount(range));
  const table = readPageTable(key, resident, section, header);
  const integers = new Map<IntegerName, IntegerColumn>();
  const labels = new Map<LabelName, LabelColumn>();
  const fields: FilterField[] = [];
  for (const column of header.columns) {
    const row = fieldOf(column);
    if (!row) continue;
    fields.push(row);
    if (row.kind === "integer") {
      const { field, min, max } = row;
      integers.set(field, { min, max, slices: slices(field, max - min) });
      continue;
    }
    const { field } = row;
    const frequent = isKnown(column) && column.kind === "label" ? column.frequent : [];
    const [offset, bytes] = sectionLookup(key, header, body.length)(`${field}.rare`);
    const [postingsStart, postingsBytes] = section(`${field}.postings`);
    const postings = new Uint16Array(resident, postingsStart, postingsBytes >>> 1);
    const rare = parseLabels(key, body.toString("utf8", offset, offset + bytes));
    const [min, max] = [lowestCode(rare), frequent.length];
    if (max < min) throw new CorruptObjectError(key, `it has no label of ${field}`);
    labels.set(field, {
      codes: { min, max, slices: slices(`${field}.codes`, max - min) },
      frequent,
      rare,
      postings,
      starts: words(`${field}.starts`, wordsFor(postings.length)),
    });
  }
  const times = { low: words("times", header.markets), epochs: header.epochs };
  return {
    markets: header.markets,
    resident,
    table,
    times,
    fields,
    others: fields.length < header.columns.length,
    unknown: header.columns.filter(isForeign).map(({ name }) => name),
    integers,
    labels,
  };
}

/**
 * Loads a segment whose bytes were checked against its hash, and adds its labels to `tables`. Throws
 * CorruptObjectError.
 */
export function loadSegment(key: string, stored: Buffer, tables: LabelTables): Segment {
  const { markets, resident, table, times, integers, labels } = readColumns(key, stored);
  let tableBytes = 0;
  const load = (field: LabelName, { frequent, rare, ...column }: LabelColumn): LoadedLabelColumn => {
    const intern = (text: string) => tables[field].intern(text);
    const [frequentIds, rareIds] = [Uint32Array.from(frequent, intern), Uint32Array.from(rare, intern)];
    const ranks = ranksOf(column.starts);
    tableBytes += frequentIds.byteLength + rareIds.byteLength + ranks.byteLength;
    return { ...column, frequentIds, rareIds, ranks };
  };
  const loaded = [...labels].map(([field, column]) => [field, load(field, column)] as const);
  return {
    markets,
    pageStarts: startsOf(table.pageMarkets),
    times,
    integers,
    labels: new Map(loaded),
    residentBytes: resident.byteLength + tableBytes,
    page: table.page,
  };
}

function parseLabels(key: string, json: string): string[] {
  try {
    return z.array(z.string()).parse(JSON.parse(json));
  } catch (error) {
    throw new CorruptObjectError(key, "its labels cannot be read", { cause: error });
  }
}

/** The ordinal of each page's oldest market, followed by the number of markets. */
function startsOf(pageMarkets: Uint16Array): Uint32Array {
  const starts = new Uint32Array(pageMarkets.length + 1);
  pageMarkets.forEach((markets, index) => {
    starts[index + 1] = starts[index]! + markets;
  });
  return starts;
}
