import { z } from "zod";
import { type FilterField, type IntegerName, type LabelName, labelFields } from "../../schemas/filters.ts";
import { textOf } from "../format/bytes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { ranksOf, wordsFor } from "./bitmap.ts";
import { type ColumnHeader, fieldOf, isForeign, isKnown } from "./columns.ts";
import { type IntegerColumn, sliceCount } from "./integer-column.ts";
import { type LabelColumn, type LoadedLabelColumn, lowestCode } from "./label-column.ts";
import { LabelTable } from "./label-table.ts";
import type { TimeColumn } from "./time-column.ts";

/** One label table per text field, shared by all segments in a process. */
export type LabelTables = Record<LabelName, LabelTable>;

/** Creates empty label tables, which ignore letter case where the field's filter does. */
export function createLabelTables(): LabelTables {
  return Object.fromEntries(
    labelFields.map(({ field, fold }) => [field, new LabelTable(fold)]),
  ) as LabelTables;
}

/** The columns of a segment in memory. Ordinals count from its oldest market, which is 0. */
export interface SegmentColumns {
  markets: number;
  times: TimeColumn;
  integers: Map<IntegerName, IntegerColumn>;
  labels: Map<LabelName, LoadedLabelColumn>;
}

/** Columns of a segment as they are stored. They are views of its sections. */
export interface StoredColumns {
  markets: number;
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

/** What the header of a segment, and that of its index, tell of the columns. */
interface ColumnsHeader {
  markets: number;
  epochs: TimeColumn["epochs"];
  columns: readonly ColumnHeader[];
}

/**
 * A section's bytes, which begin at a multiple of 4 in their buffer. Throws CorruptObjectError when there are other
 * than `expectedBytes`.
 */
type SectionBytes = (name: string, expectedBytes?: number) => Uint8Array;

/** Reads the columns from their sections. `key` is the object's, for errors. Throws CorruptObjectError. */
export function columnsFrom(
  key: string,
  { markets, epochs, columns }: ColumnsHeader,
  section: SectionBytes,
): StoredColumns {
  const words = (name: string, count: number) => {
    const { buffer, byteOffset } = section(name, count * 4);
    return new Uint32Array(buffer, byteOffset, count);
  };
  const slices = (name: string, range: number) => words(name, wordsFor(markets) * sliceCount(range));
  const integers = new Map<IntegerName, IntegerColumn>();
  const labels = new Map<LabelName, LabelColumn>();
  const fields: FilterField[] = [];
  for (const column of columns) {
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
    const rare = parseLabels(key, textOf(section(`${field}.rare`)));
    const { buffer, byteOffset, length } = section(`${field}.postings`);
    const postings = new Uint16Array(buffer, byteOffset, length >>> 1);
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
  return {
    markets,
    times: { low: words("times", markets), epochs },
    fields,
    others: fields.length < columns.length,
    unknown: columns.filter(isForeign).map(({ name }) => name),
    integers,
    labels,
  };
}

/** Columns for queries, and the bytes that this takes beside their sections. Adds their labels to `tables`. */
export function loadColumns(
  { markets, times, integers, labels }: StoredColumns,
  tables: LabelTables,
): SegmentColumns & { tableBytes: number } {
  let tableBytes = 0;
  const load = (field: LabelName, { frequent, rare, ...column }: LabelColumn): LoadedLabelColumn => {
    const intern = (text: string) => tables[field].intern(text);
    const [frequentIds, rareIds] = [Uint32Array.from(frequent, intern), Uint32Array.from(rare, intern)];
    const ranks = ranksOf(column.starts);
    tableBytes += frequentIds.byteLength + rareIds.byteLength + ranks.byteLength;
    return { ...column, frequentIds, rareIds, ranks };
  };
  const loaded = [...labels].map(([field, column]) => [field, load(field, column)] as const);
  return { markets, times, integers, labels: new Map(loaded), tableBytes };
}

function parseLabels(key: string, json: string): string[] {
  try {
    return z.array(z.string()).parse(JSON.parse(json));
  } catch (error) {
    throw new CorruptObjectError(key, "its labels cannot be read", { cause: error });
  }
}
