import type { FilterValues } from "../../schemas/filters.ts";
import { hasBit, wordsFor } from "./bitmap.ts";
import type { IndexRow } from "./build-index.ts";
import { type IntegerColumn, sliceCount } from "./integer-column.ts";
import { readColumns } from "./segment.ts";
import { timeAt } from "./time-column.ts";

/**
 * The inverse of encodeSegment: index rows by ordinal, with the fields that have columns. `key` is the segment's, for
 * errors.
 */
export function decodeRows(key: string, stored: Buffer): IndexRow[] {
  const { markets, times, fields, integers, labels } = readColumns(key, stored);
  const columns = fields.map((row) => {
    if (row.kind === "integer") return decodeIntegers(integers.get(row.field)!, markets);
    const { codes, frequent, rare, postings, starts } = labels.get(row.field)!;
    const values: (string | undefined)[] = decodeIntegers(codes, markets).map((code) => frequent[code - 1]);
    let label = -1;
    postings.forEach((ordinal, position) => {
      if (hasBit(starts, position)) label += 1;
      values[ordinal] = rare[label];
    });
    return values;
  });
  return Array.from({ length: markets }, (_, ordinal) => {
    const values: Record<string, unknown> = {};
    for (let n = 0; n < fields.length; n += 1) values[fields[n]!.field] = columns[n]![ordinal];
    return { resolvedAt: timeAt(times, ordinal), values: values as FilterValues };
  });
}

function decodeIntegers({ min, max, slices }: IntegerColumn, count: number): number[] {
  const words = wordsFor(count);
  const values = new Array<number>(count).fill(min);
  for (let slice = 0; slice < sliceCount(max - min); slice += 1) {
    const bits = slices.subarray(slice * words);
    const weight = 2 ** slice;
    for (let ordinal = 0; ordinal < count; ordinal += 1)
      if (hasBit(bits, ordinal)) values[ordinal]! += weight;
  }
  return values;
}
