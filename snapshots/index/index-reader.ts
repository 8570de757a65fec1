import {
  everyField,
  type FacetName,
  type FilterField,
  type IntegerName,
  type LabelName,
  labelFields,
} from "../../schemas/filters.ts";
import { digestPattern, fitsIn, maxLabelBytes } from "../../schemas/shapes.ts";
import type { ObjectRef } from "../../schemas/store/stored-objects.ts";
import { cuts, maxHeaderBytes, maxObjectBytes } from "../format/bytes.ts";
import { CorruptObjectError, FormatError } from "../store/errors.ts";
import { JsonValue, parseJson } from "../store/json.ts";
import { wordsFor } from "./bitmap.ts";
import {
  epochsIn,
  faultIn,
  frequentShare,
  type IntegerColumn,
  type LabelColumn,
  type LoadedLabelColumn,
  loadLabels,
  lowestCode,
  maxTime,
  sliceCount,
  type TimeColumn,
  timesFrom,
} from "./columns.ts";
import { LabelTable } from "./label-table.ts";
import { uint32s } from "./sections.ts";

/** The version of the encoding of an index and its header. */
export const indexVersion = 1;

/** `unicode` is the version of Unicode that the words were made with. */
export interface WordsRef extends ObjectRef {
  unicode: string;
}

/** The index header of a segment (snapshots/SPEC.md, "Index root"). */
export interface IndexHeader {
  /** The key of its object, for errors. */
  key: string;
  markets: number;
  /** The root of the tree over its pages, in hexadecimal. */
  root: string;
  epochs: TimeColumn["epochs"];
  /** Epoch milliseconds. */
  oldest: number;
  newest: number;
  columns: readonly ColumnHeader[];
  sections: Readonly<Record<string, readonly [bytes: number, root: string]>>;
  words: WordsRef;
}

/**
 * Sections must have the sizes that the markets and columns allow, so that nobody fetches more than that. Throws
 * FormatError when the header is of another version.
 */
export function parseIndexHeader(key: string, bytes: Uint8Array): IndexHeader {
  if (bytes.length > maxHeaderBytes)
    throw new CorruptObjectError(key, `it has ${bytes.length} bytes, more than ${maxHeaderBytes}`);
  const json = new JsonValue(key, parseJson(key, bytes));
  const version = json.member("version").integer();
  if (version !== indexVersion)
    throw new FormatError(
      key,
      `it is of version ${version}, which this program does not know: use a newer one`,
    );
  const markets = json.member("markets").integer(1, cuts.segmentMax);
  const oldest = json.member("oldest").integer(0, maxTime);
  const words = json.member("words");
  const header = {
    key,
    markets,
    root: digestIn(json.member("root")),
    epochs: epochsIn(json, markets),
    oldest,
    newest: json.member("newest").integer(oldest, maxTime),
    columns: columnsIn(json.member("columns")),
    sections: sectionsIn(json.member("sections")),
    words: {
      unicode: words.member("unicode").text(),
      hash: digestIn(words.member("hash")),
      bytes: words.member("bytes").integer(1, maxObjectBytes),
    },
  };
  for (const [name, isSize] of sizesOf(header)) {
    const [size] = header.sections[name] ?? [];
    if (size === undefined) throw new CorruptObjectError(key, `it has no section ${name}`);
    if (!isSize(size)) throw new CorruptObjectError(key, `its section ${name} cannot have ${size} bytes`);
  }
  return header;
}

function digestIn(json: JsonValue): string {
  const text = json.text();
  return digestPattern.test(text) ? text : json.refuse();
}

function sectionsIn(json: JsonValue): IndexHeader["sections"] {
  const sections = json.members().map(([name, member]) => {
    const [bytes, root, ...others] = member.items();
    if (!bytes || !root || others.length > 0) return member.refuse();
    return [name, [bytes.integer(0), digestIn(root)]];
  });
  // Without a prototype, names such as `constructor` are not found.
  return Object.assign(Object.create(null), Object.fromEntries(sections));
}

function* sizesOf({ markets, columns, sections }: IndexHeader) {
  const words = wordsFor(markets) * 4;
  const only = (size: number) => (bytes: number) => bytes === size;
  const pages = (sections.pageMarkets?.[0] ?? 0) / 2;
  yield ["pageMarkets", () => Number.isInteger(pages) && pages >= 1 && pages <= markets] as const;
  yield ["pageRoots", only(pages * 32)] as const;
  yield ["times", only(markets * 4)] as const;
  for (const column of columns) {
    const row = fieldOf(column);
    if (row?.kind === "integer") yield [row.field, only(words * sliceCount(row.max - row.min))] as const;
    if (row?.kind !== "label") continue;
    const codes = frequentOf(column).length;
    const [postings = 0] = sections[`${row.field}.postings`] ?? [];
    const places = postings / 2;
    // Code 0 exists only beside rare labels.
    const highest = places > 0 ? codes : Math.max(0, codes - 1);
    yield [`${row.field}.codes`, only(words * sliceCount(highest))] as const;
    yield [`${row.field}.postings`, (bytes: number) => bytes % 2 === 0 && bytes <= markets * 2] as const;
    yield [`${row.field}.starts`, only(wordsFor(places) * 4)] as const;
    // JSON takes at most six bytes for a byte of a label: \u0001.
    const most = 2 + places * (maxLabelBytes * 6 + 3);
    yield [`${row.field}.rare`, (bytes: number) => bytes >= 2 && bytes <= most] as const;
  }
}

export type KnownColumn = { name: string } & (
  | { kind: "integer"; min: number; max: number }
  | { kind: "label"; frequent: string[] }
);
/** A column in the header of a segment. A kind that a later version adds has other members. */
export type ColumnHeader = KnownColumn | { name: string; kind: string; [member: string]: unknown };

export const isKnown = (column: ColumnHeader): column is KnownColumn =>
  column.kind === "integer" || column.kind === "label";

/** In the order of a header. */
export const sectionsOf = ({ name, kind }: { name: string; kind: KnownColumn["kind"] }): string[] =>
  kind === "integer" ? [name] : ["codes", "postings", "starts", "rare"].map((part) => `${name}.${part}`);

const frequentOf = (column: ColumnHeader): readonly string[] =>
  isKnown(column) && column.kind === "label" ? column.frequent : [];

/** Parses the columns of a header (snapshots/SPEC.md, "Segments"). */
export const columnsIn = (columns: JsonValue): ColumnHeader[] => columns.items().map(columnIn);

function columnIn(column: JsonValue): ColumnHeader {
  const [name, kind] = [column.member("name").text(), column.member("kind").text()];
  if (kind === "integer")
    return { name, kind, min: column.member("min").integer(), max: column.member("max").integer() };
  if (kind !== "label") return column.value as ColumnHeader;
  // More labels could not each be that frequent.
  const frequent = column.member("frequent").items(frequentShare);
  return { name, kind, frequent: frequent.map((label) => label.text(maxLabelBytes)) };
}

/**
 * With the column's own bounds, which must lie within those of the field, whole buckets apart. Undefined where no known
 * version of the feed has such a field, or this version indexes it in another way.
 */
function fieldOf(column: ColumnHeader): FilterField | undefined {
  const row = everyField.get(column.name);
  if (!row || !isKnown(column) || row.kind !== column.kind) return undefined;
  if (row.kind === "label" || column.kind === "label") return row;
  const { min, max } = column;
  const within = row.min <= min && min <= max && max <= row.max && (min - row.min) % row.bucketWidth === 0;
  return within ? { ...row, min, max } : undefined;
}

/** The fields with a column, in the order of the columns. A segment of another version may lack some. */
export const fieldsIn = (columns: readonly ColumnHeader[]): FilterField[] =>
  columns.flatMap((column) => fieldOf(column) ?? []);

/** Whether a field can have this value. */
export const holds = (row: FilterField, value: unknown): boolean =>
  row.kind === "integer"
    ? Number.isInteger(value) && row.min <= Number(value) && Number(value) <= row.max
    : typeof value === "string" && fitsIn(value, maxLabelBytes);

/** The names of columns that no known version of the feed has, or whose kind this version does not know. */
export const foreignIn = (columns: readonly ColumnHeader[]): string[] =>
  columns.filter((column) => !isKnown(column) || !everyField.has(column.name)).map(({ name }) => name);

/** What the columns of a segment are read from. */
export interface ColumnSource {
  /** The object's, for errors. */
  key: string;
  markets: number;
  epochs: TimeColumn["epochs"];
  columns: readonly ColumnHeader[];
  /**
   * The bytes of a section, which begin at a multiple of 4 in their buffer. Throws CorruptObjectError unless there are
   * `expectedBytes`.
   */
  section(name: string, expectedBytes?: number): Uint8Array;
}

export const readTimes = ({ key, markets, epochs, section }: ColumnSource): TimeColumn =>
  timesFrom(key, { low: uint32s(section("times", markets * 4)), epochs });

export function readIntegers(
  { markets, section }: ColumnSource,
  { field, min, max }: { field: string; min: number; max: number },
): IntegerColumn {
  const bytes = wordsFor(markets) * sliceCount(max - min) * 4;
  return { min, max, slices: uint32s(section(field, bytes)) };
}

export function readLabels(source: ColumnSource, row: Extract<FilterField, { kind: "label" }>): LabelColumn {
  const { field } = row;
  const { key, markets, columns, section } = source;
  const frequent = [...frequentOf(columns.find(({ name }) => name === field)!)];
  const rare = parseJson(key, section(`${field}.rare`), `its section ${field}.rare`);
  if (!Array.isArray(rare) || !rare.every((label) => holds(row, label)))
    throw new CorruptObjectError(key, `its section ${field}.rare is not a list of labels`);
  const { buffer, byteOffset, length } = section(`${field}.postings`);
  if (length % 2 !== 0) throw new CorruptObjectError(key, `its section ${field}.postings is cut`);
  const postings = new Uint16Array(buffer, byteOffset, length / 2);
  const [min, max] = [lowestCode(rare), frequent.length];
  if (max < min) throw new CorruptObjectError(key, `it has no label of ${field}`);
  const starts = uint32s(section(`${field}.starts`, wordsFor(postings.length) * 4));
  const codes = readIntegers(source, { field: `${field}.codes`, min, max });
  const read = { codes, frequent, rare, postings, starts };
  const fault = faultIn(read, markets);
  if (fault) throw new CorruptObjectError(key, `its section ${field}.${fault}`);
  return read;
}

/** One table for each text field, shared by all segments of a process. */
export type LabelTables = Record<LabelName, LabelTable>;

/** Each table ignores letter case if the filter of its field does. */
export function createLabelTables(): LabelTables {
  return Object.fromEntries(
    labelFields.map(({ field, fold }) => [field, new LabelTable(fold)]),
  ) as LabelTables;
}

/** The columns of a segment in memory. Ordinal 0 is its oldest market. */
export interface SegmentColumns {
  markets: number;
  /** Those that the segment has a column for. */
  fields: readonly FilterField[];
  times: TimeColumn;
  integers: Map<IntegerName, IntegerColumn>;
  labels: Map<LabelName, LoadedLabelColumn>;
  /** Reads the columns of fields, where not all are in memory from the beginning. */
  load?(fields: readonly FacetName[]): void;
}

/** Reads a column into memory. Adds its labels to `tables`. */
export function loadColumn(
  { integers, labels }: SegmentColumns,
  source: ColumnSource,
  row: FilterField,
  tables: LabelTables,
): void {
  if (row.kind === "integer") integers.set(row.field, readIntegers(source, row));
  else labels.set(row.field, loadLabels(readLabels(source, row), source.markets, tables[row.field]));
}
