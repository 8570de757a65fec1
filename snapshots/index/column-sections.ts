import { type FilterField, type IntegerName, type LabelName, labelFields } from "../../schemas/filters.ts";
import { fitsIn, maxLabelBytes } from "../../schemas/shapes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { parseJson } from "../store/json.ts";
import { ranksOf, wordsFor } from "./bitmap.ts";
import { type ColumnHeader, fieldOf, frequentOf, isForeign } from "./columns.ts";
import { type IntegerColumn, sliceCount } from "./integer-column.ts";
import {
  faultIn,
  type LabelColumn,
  type LoadedLabelColumn,
  lowestCode,
  rareMarketsOf,
} from "./label-column.ts";
import { LabelTable } from "./label-table.ts";
import { type TimeColumn, timesFrom } from "./time-column.ts";

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
  times: TimeColumn;
  integers: Map<IntegerName, IntegerColumn>;
  labels: Map<LabelName, LoadedLabelColumn>;
}

/** The columns of a segment as stored: views of its sections. */
export interface StoredColumns {
  markets: number;
  times: TimeColumn;
  /** The fields with a column, in the segment's order. A segment of another version may lack some. */
  fields: readonly FilterField[];
  /** Whether there are columns that this version does not read. */
  others: boolean;
  /** Columns that no field of this version has, or whose kind it does not know. */
  unknown: string[];
  integers: Map<IntegerName, IntegerColumn>;
  labels: Map<LabelName, LabelColumn>;
}

interface ColumnsHeader {
  markets: number;
  epochs: TimeColumn["epochs"];
  columns: readonly ColumnHeader[];
}

/**
 * The bytes of a section, which begin at a multiple of 4 in their buffer. Throws CorruptObjectError unless there are
 * `expectedBytes`.
 */
type SectionBytes = (name: string, expectedBytes?: number) => Uint8Array;

/** `key` is the object's, for errors. */
export function columnsFrom(
  key: string,
  { markets, epochs, columns }: ColumnsHeader,
  section: SectionBytes,
): StoredColumns {
  const source = { key, markets, section };
  const integers = new Map<IntegerName, IntegerColumn>();
  const labels = new Map<LabelName, LabelColumn>();
  const fields: FilterField[] = [];
  for (const column of columns) {
    const row = fieldOf(column);
    if (!row) continue;
    fields.push(row);
    if (row.kind === "integer") integers.set(row.field, readIntegers(source, row));
    else labels.set(row.field, readLabels(source, row.field, column));
  }
  return {
    markets,
    times: readTimes(source, epochs),
    fields,
    others: fields.length < columns.length,
    unknown: columns.filter(isForeign).map(({ name }) => name),
    integers,
    labels,
  };
}

/** `key` is the object's, for errors. */
export interface ColumnSource {
  key: string;
  markets: number;
  section: SectionBytes;
}

export function readTimes(source: ColumnSource, epochs: TimeColumn["epochs"]): TimeColumn {
  return timesFrom(source.key, { low: wordsOf(source, "times", source.markets), epochs });
}

export function readIntegers(
  source: ColumnSource,
  { field, min, max }: { field: string; min: number; max: number },
): IntegerColumn {
  const words = wordsFor(source.markets) * sliceCount(max - min);
  return { min, max, slices: wordsOf(source, field, words) };
}

export function readLabels(source: ColumnSource, field: LabelName, column: ColumnHeader): LabelColumn {
  const { key, markets, section } = source;
  const frequent = [...frequentOf(column)];
  const rare = parseLabels(key, `${field}.rare`, section(`${field}.rare`));
  const { buffer, byteOffset, length } = section(`${field}.postings`);
  if (length % 2 !== 0) throw new CorruptObjectError(key, `its section ${field}.postings is cut`);
  const postings = new Uint16Array(buffer, byteOffset, length / 2);
  const [min, max] = [lowestCode(rare), frequent.length];
  if (max < min) throw new CorruptObjectError(key, `it has no label of ${field}`);
  const starts = wordsOf(source, `${field}.starts`, wordsFor(postings.length));
  const { slices } = readIntegers(source, { field: `${field}.codes`, min, max });
  const read = { codes: { min, max, slices }, frequent, rare, postings, starts };
  const fault = faultIn(read, markets);
  if (fault) throw new CorruptObjectError(key, `its section ${field}.${fault}`);
  return read;
}

function wordsOf({ section }: ColumnSource, name: string, count: number): Uint32Array {
  const { buffer, byteOffset } = section(name, count * 4);
  return new Uint32Array(buffer, byteOffset, count);
}

/** Adds the labels to `tables`. `tableBytes` is the memory that this takes beside the sections. */
export function loadColumns(
  { markets, times, integers, labels }: StoredColumns,
  tables: LabelTables,
): SegmentColumns & { tableBytes: number } {
  let tableBytes = 0;
  const loaded = [...labels].map(([field, column]) => {
    const result = loadLabels(column, markets, tables[field]);
    const { frequentIds, rareIds, ranks, rare } = result;
    for (const { byteLength } of [frequentIds, rareIds, ranks, ...Object.values(rare)])
      tableBytes += byteLength;
    return [field, result] as const;
  });
  return { markets, times, integers, labels: new Map(loaded), tableBytes };
}

/** Adds the labels to `table`. */
export function loadLabels(stored: LabelColumn, markets: number, table: LabelTable): LoadedLabelColumn {
  const { frequent, rare, ...column } = stored;
  const intern = (text: string) => table.intern(text);
  return {
    ...column,
    frequentIds: Uint32Array.from(frequent, intern),
    rareIds: Uint32Array.from(rare, intern),
    ranks: ranksOf(column.starts),
    rare: rareMarketsOf(stored, markets),
  };
}

function parseLabels(key: string, name: string, bytes: Uint8Array): string[] {
  const labels = parseJson(key, bytes, `its section ${name}`);
  const isLabel = (value: unknown) => typeof value === "string" && fitsIn(value, maxLabelBytes);
  if (!Array.isArray(labels) || !labels.every(isLabel))
    throw new CorruptObjectError(key, `its section ${name} is not a list of labels`);
  return labels;
}
