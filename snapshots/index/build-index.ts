import { type FilterField, type FilterValues, filterFields } from "../../schemas/filters.ts";
import { rootOver, type Subtree } from "../format/tree.ts";
import type { KnownColumn } from "./columns.ts";
import type { SegmentIndex } from "./index-header.ts";
import { buildIntegerColumn } from "./integer-column.ts";
import { buildLabelColumn } from "./label-column.ts";
import { pageMarketsOf, pageRootsOf } from "./page-table.ts";
import { buildTimeColumn } from "./time-column.ts";

export interface IndexRow {
  /** Epoch milliseconds. */
  resolvedAt: number;
  values: FilterValues;
}

/** Pages and rows come in order from the oldest. Throws RangeError when a value is outside the range of its field. */
export function buildIndex(
  pages: readonly Subtree[],
  rows: readonly IndexRow[],
  fields: readonly FilterField[] = filterFields,
): SegmentIndex {
  const sections = new Map<string, Uint8Array>();
  const add = (name: string, data: Uint8Array | Uint16Array | Uint32Array) =>
    sections.set(name, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  const times = buildTimeColumn(rows.map((row) => row.resolvedAt));
  add("pageMarkets", pageMarketsOf(pages));
  add("pageRoots", pageRootsOf(pages));
  add("times", times.low);
  const columns = fields.map((row): KnownColumn => {
    const name = row.field;
    if (row.kind === "integer") {
      const { min, max } = row;
      const values = rows.map(({ values }) => values[row.field]);
      add(name, buildIntegerColumn(values, min, max).slices);
      return { name, kind: "integer", min, max };
    }
    const column = buildLabelColumn(rows.map(({ values }) => values[row.field]));
    add(`${name}.codes`, column.codes.slices);
    add(`${name}.postings`, column.postings);
    add(`${name}.starts`, column.starts);
    add(`${name}.rare`, Buffer.from(JSON.stringify(column.rare)));
    return { name, kind: "label", frequent: column.frequent };
  });
  const root = rootOver("segment", pages).toString("hex");
  return { markets: rows.length, pages: pages.length, root, times, columns, sections };
}
