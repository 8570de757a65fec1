import { type FilterField, filterFields } from "../../schemas/filters.ts";
import { formatVersion } from "../../schemas/store/snapshot.ts";
import { cuts } from "../format/cuts.ts";
import type { CompressedPage, Page } from "../format/page.ts";
import type { JsonValue } from "../store/json.ts";
import { maxResidentBytes } from "../store/layout.ts";
import { buildIndex, type IndexRow } from "./build-index.ts";
import {
  columnsFrom,
  type LabelTables,
  loadColumns,
  type SegmentColumns,
  type StoredColumns,
} from "./column-sections.ts";
import { type ColumnHeader, columnsIn } from "./columns.ts";
import { isSame, openHeader } from "./header-check.ts";
import type { WordsRef } from "./header-reader.ts";
import { indexHeader, sectionRootOf } from "./index-header.ts";
import { addPageDigests, addPageTable, type PageTable, readPageTable, readWholePages } from "./page-table.ts";
import { SectionWriter, sealSections } from "./section-writer.ts";
import {
  openSections,
  type SectionLookup,
  type SectionTable,
  sectionLookup,
  sectionsIn,
} from "./sections.ts";
import { epochsIn, type TimeColumn } from "./time-column.ts";

export interface Segment extends SegmentColumns {
  /** The ordinal of each page's oldest market, then the number of markets. */
  pageStarts: Uint32Array;
  /** Bytes of memory that the index takes. */
  residentBytes: number;
  page(index: number): CompressedPage;
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

const isResident = (name: string) => !name.endsWith(".rare");

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
  const sections = new SectionWriter();
  addPageTable(sections, pages);
  const ofColumns = [...index.sections].filter(([name]) => !name.startsWith("page"));
  const addWhere = (needed: boolean) => {
    for (const [name, bytes] of ofColumns) if (isResident(name) === needed) sections.add(name, bytes);
  };
  addWhere(true);
  const residentBytes = sections.bytes;
  addPageDigests(sections, pages);
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
  return { header, body: stored.subarray(start) };
}

/** The canonical header, as it is stored. */
export function readIndexHeader(key: string, stored: Buffer): Buffer {
  const { header, body } = openSegment(key, stored);
  return sectionOf(key, header, body, "index");
}

/** Finds sections in the stored bytes. Throws CorruptObjectError, as the lookup does. */
export function locateSections(key: string, stored: Buffer): SectionLookup {
  const { header, body } = openSegment(key, stored);
  const lookup = sectionLookup(key, header, body.length);
  return (name, expectedBytes) => {
    const [offset, bytes] = lookup(name, expectedBytes);
    return [stored.length - body.length + offset, bytes];
  };
}

function sectionOf(key: string, header: SegmentHeader, body: Buffer, name: string): Buffer {
  const [offset, bytes] = sectionLookup(key, header, body.length)(name);
  return body.subarray(offset, offset + bytes);
}

/** Names of members, columns and sections in which the segment differs from its index header. */
export function differencesFromHeader(key: string, stored: Buffer): string[] {
  const { header, body } = openSegment(key, stored);
  const told = openHeader(key, sectionOf(key, header, body, "index"));
  const members = (["markets", "pages", "epochs"] as const).filter(
    (name) => !isSame(header[name], told.member(name).value),
  );
  const columns = isSame(columnsIn(told.member("columns")), header.columns) ? [] : ["columns"];
  const sections = told.member("sections").members();
  const wrong = sections.filter(([name, ref]) => {
    const section = sectionOf(key, header, body, name);
    return !isSame(ref.value, [section.length, sectionRootOf(name, section)]);
  });
  return [...members, ...columns, ...wrong.map(([name]) => `section ${name}`)];
}

export function openPages(key: string, stored: Buffer): PageTable {
  const { header, body } = openSegment(key, stored);
  const { resident: buffer, lookup } = residentPart(key, header, body);
  const runHashes = sectionOf(key, header, body, "runHashes");
  return readPageTable(key, { buffer, section: lookup, runHashes }, header);
}

/** The whole page table, oldest page first. */
export function readPages(key: string, stored: Buffer): Page[] {
  const { header, body } = openSegment(key, stored);
  const copy = new Uint8Array(body).buffer;
  const section = sectionLookup(key, header, copy.byteLength);
  return readWholePages(key, copy, section, header);
}

/** The columns are views of a copy of the part that queries need. */
export function readColumns(key: string, stored: Buffer): StoredColumns {
  const { header, body } = openSegment(key, stored);
  return columnsFrom(key, header, residentPart(key, header, body).section);
}

/**
 * Copies the part that queries need: it must be aligned for typed arrays, and free of the part that only loading needs.
 */
function residentPart(key: string, header: SegmentHeader, body: Buffer) {
  const resident = new Uint8Array(body.subarray(0, header.residentBytes)).buffer;
  const lookup = sectionLookup(key, header, resident.byteLength);
  const section = (name: string, expectedBytes?: number) =>
    isResident(name)
      ? new Uint8Array(resident, ...lookup(name, expectedBytes))
      : sectionOf(key, header, body, name);
  return { resident, lookup, section };
}

/** The bytes must have been checked against the hash. Adds the labels to `tables`. */
export function loadSegment(key: string, stored: Buffer, tables: LabelTables): Segment {
  const { header, body } = openSegment(key, stored);
  const { resident, lookup, section } = residentPart(key, header, body);
  const runHashes = new Uint8Array(sectionOf(key, header, body, "runHashes"));
  const pages = { buffer: resident, section: lookup, runHashes };
  const { pageMarkets, page } = readPageTable(key, pages, header);
  const { tableBytes, ...columns } = loadColumns(columnsFrom(key, header, section), tables);
  return {
    ...columns,
    pageStarts: startsOf(pageMarkets),
    residentBytes: resident.byteLength + runHashes.length + tableBytes,
    page,
  };
}

/** The ordinal of each page's oldest market, then the number of markets. */
function startsOf(pageMarkets: Uint16Array): Uint32Array {
  const starts = new Uint32Array(pageMarkets.length + 1);
  pageMarkets.forEach((markets, index) => {
    starts[index + 1] = starts[index]! + markets;
  });
  return starts;
}
