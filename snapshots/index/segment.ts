import { type FilterField, type FilterValues, filterFields } from "../../schemas/filters.ts";
import { formatVersion } from "../../schemas/store/snapshot.ts";
import { cuts } from "../format/cuts.ts";
import type { Page } from "../format/page.ts";
import type { JsonValue } from "../store/json.ts";
import { maxResidentBytes } from "../store/layout.ts";
import {
  type ColumnHeader,
  type ColumnSource,
  columnsIn,
  fieldsIn,
  type LabelTables,
  loadColumn,
  readIntegers,
  readLabels,
  readTimes,
  type SegmentColumns,
} from "./columns.ts";
import type { WordsRef } from "./header-reader.ts";
import { buildIndex, type IndexRow, indexHeader, isSame, openHeader, sectionRootOf } from "./index-header.ts";
import { decodeLabels, tableBytes } from "./label-column.ts";
import { decodeIntegers, epochsIn, type TimeColumn, timeAt } from "./number-columns.ts";
import { type PageTable, pageSections, readPageTable } from "./page-table.ts";
import { SectionWriter, sealSections } from "./section-writer.ts";
import { openSections, type Sections, type SectionTable, sectionsIn, sectionViews } from "./sections.ts";

/** A segment's index in memory. */
export interface Segment extends SegmentColumns, PageTable {
  /** Bytes of memory that it takes. */
  residentBytes: number;
}

const magic = "PRSSEG\r\n";

interface SegmentHeader {
  markets: number;
  pages: number;
  /** Bytes of the body's first part, which queries need in memory. The rest is read once, when loading. */
  residentBytes: number;
  epochs: TimeColumn["epochs"];
  columns: ColumnHeader[];
  sections: SectionTable;
}

function segmentHeader(header: JsonValue): SegmentHeader {
  const markets = header.member("markets").integer(1, cuts.segmentMax);
  return {
    markets,
    pages: header.member("pages").integer(1, markets),
    residentBytes: header.member("residentBytes").integer(0, maxResidentBytes),
    epochs: epochsIn(header, markets),
    columns: columnsIn(header.member("columns")),
    sections: sectionsIn(header),
  };
}

/** Whether queries need a section in memory. */
const isResident = (name: string) => !/^(pageRoots|runHashes)$|\.rare$/.test(name);

/**
 * The bytes of a segment (snapshots/SPEC.md, "Segments") with columns for these fields. Pages and rows come in order
 * from the oldest.
 */
export function encodeSegment(
  pages: readonly Page[],
  rows: readonly IndexRow[],
  words: WordsRef,
  fields: readonly FilterField[] = filterFields,
): Buffer {
  const index = buildIndex(pages, rows, fields);
  const { markets, times, columns } = index;
  const all = new Map([...pageSections(pages, index.sections), ...index.sections]);
  const sections = new SectionWriter();
  const addWhere = (needed: boolean) => {
    for (const [name, data] of all) if (isResident(name) === needed) sections.add(name, data);
  };
  addWhere(true);
  const residentBytes = sections.bytes;
  addWhere(false);
  sections.add("index", indexHeader(index, words));

  const header: SegmentHeader & { formatVersion: number } = {
    formatVersion,
    markets,
    pages: pages.length,
    residentBytes,
    epochs: times.epochs,
    columns: [...columns],
    sections: sections.sections,
  };
  return sealSections(magic, header, sections.parts);
}

function openSegment(key: string, stored: Buffer) {
  const { header, start } = openSections(key, stored, magic, segmentHeader);
  const body = stored.subarray(start);
  return { header, body, section: sectionViews(key, header, body) };
}

/** The canonical header, as it is stored. */
export const readIndexHeader = (key: string, stored: Buffer): Buffer => readSections(key, stored)("index");

/** The sections as they are stored. */
export const readSections = (key: string, stored: Buffer): Sections<Buffer> =>
  openSegment(key, stored).section;

/** Names of members, columns and sections in which the segment differs from its index header. */
export function differencesFromHeader(key: string, stored: Buffer): string[] {
  const { header, section } = openSegment(key, stored);
  const told = openHeader(key, section("index"));
  const members = (["markets", "pages", "epochs"] as const).filter(
    (name) => !isSame(header[name], told.member(name).value),
  );
  const columns = isSame(columnsIn(told.member("columns")), header.columns) ? [] : ["columns"];
  const sections = told.member("sections").members();
  const wrong = sections.filter(([name, ref]) => {
    const bytes = section(name);
    return !isSame(ref.value, [bytes.length, sectionRootOf(name, bytes)]);
  });
  return [...members, ...columns, ...wrong.map(([name]) => `section ${name}`)];
}

/**
 * Copies the part that queries need: it must be aligned for typed arrays, and free of the part that only loading needs.
 */
function copyResident(key: string, stored: Buffer) {
  const { header, body, section: read } = openSegment(key, stored);
  const resident = Buffer.from(new Uint8Array(body.subarray(0, header.residentBytes)).buffer);
  const view = sectionViews(key, header, resident);
  const section: Sections<Buffer> = (name, bytes) => (isResident(name) ? view : read)(name, bytes);
  return { key, ...header, residentBytes: resident.length, section };
}

export function openPages(key: string, stored: Buffer): PageTable {
  const { section, ...header } = copyResident(key, stored);
  return readPageTable(key, section, header);
}

/** The whole page table, oldest page first. */
export function readPages(key: string, stored: Buffer): Page[] {
  const { section, ...header } = copyResident(key, stored);
  const { page } = readPageTable(key, section, header);
  const roots = section("pageRoots", header.pages * 32);
  return Array.from({ length: header.pages }, (_, index) => ({
    ...page(index),
    root: roots.toString("hex", index * 32, index * 32 + 32),
  }));
}

/** Columns are read as views of a copy of the part that queries need. */
export const openColumns = (key: string, stored: Buffer): ColumnSource => copyResident(key, stored);

/** The bytes must have been checked against the hash. Adds the labels to `tables`. */
export function loadSegment(key: string, stored: Buffer, tables: LabelTables): Segment {
  const source = copyResident(key, stored);
  const { markets, residentBytes } = source;
  const pages = readPageTable(key, source.section, source);
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

/**
 * The inverse of encodeSegment: index rows by ordinal, with the fields that have columns. `key` is the segment's, for
 * errors.
 */
export function decodeRows(key: string, stored: Buffer): IndexRow[] {
  const source = openColumns(key, stored);
  const { markets } = source;
  const times = readTimes(source);
  const fields = fieldsIn(source.columns);
  const columns = fields.map((row) =>
    row.kind === "integer"
      ? decodeIntegers(readIntegers(source, row), markets)
      : decodeLabels(readLabels(source, row), markets),
  );
  return Array.from({ length: markets }, (_, ordinal) => {
    const values: Record<string, unknown> = {};
    for (let n = 0; n < fields.length; n += 1) values[fields[n]!.field] = columns[n]![ordinal];
    return { resolvedAt: timeAt(times, ordinal), values: values as FilterValues };
  });
}
