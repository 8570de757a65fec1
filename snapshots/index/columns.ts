import {
  everyField,
  type FacetName,
  type FilterField,
  type IntegerName,
  type LabelName,
  labelFields,
} from "../../schemas/filters.ts";
import { fitsIn, maxLabelBytes } from "../../schemas/shapes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { type JsonValue, parseJson } from "../store/json.ts";
import { wordsFor } from "./bitmap.ts";
import {
  faultIn,
  frequentShare,
  type LabelColumn,
  type LoadedLabelColumn,
  loadLabels,
  lowestCode,
} from "./label-column.ts";
import { LabelTable } from "./label-table.ts";
import { type IntegerColumn, sliceCount, type TimeColumn, timesFrom } from "./number-columns.ts";
import { uint32s } from "./sections.ts";

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

export const frequentOf = (column: ColumnHeader): readonly string[] =>
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
export function fieldOf(column: ColumnHeader): FilterField | undefined {
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

/** Whether a field has this value. */
export const holds = (row: FilterField, value: unknown): boolean =>
  row.kind === "integer"
    ? Number.isInteger(value) && row.min <= Number(value) && Number(value) <= row.max
    : typeof value === "string" && fitsIn(value, maxLabelBytes);

/** The names of columns that no known version of the feed has, or whose kind this version does not know. */
export const foreignIn = (columns: readonly ColumnHeader[]): string[] =>
  columns.filter((column) => !isKnown(column) || !everyField.has(column.name)).map(({ name }) => name);

/** Where the columns of a segment are read. */
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

export function readLabels(source: ColumnSource, row: LabelField): LabelColumn {
  const { field } = row;
  const { key, markets, columns, section } = source;
  const frequent = [...frequentOf(columns.find(({ name }) => name === field)!)];
  const rare = parseLabels(key, `${field}.rare`, section(`${field}.rare`));
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

type LabelField = Extract<FilterField, { kind: "label" }>;

function parseLabels(key: string, name: string, bytes: Uint8Array): string[] {
  const labels = parseJson(key, bytes, `its section ${name}`);
  const isLabel = (value: unknown) => typeof value === "string" && fitsIn(value, maxLabelBytes);
  if (!Array.isArray(labels) || !labels.every(isLabel))
    throw new CorruptObjectError(key, `its section ${name} is not a list of labels`);
  return labels;
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
