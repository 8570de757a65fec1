import { type FilterField, filterFields } from "../../schemas/filters.ts";
import { maxLabelBytes } from "../../schemas/shapes.ts";
import type { JsonValue } from "../store/json.ts";

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

/** Labels of at least one in this many of a segment's markets are frequent, and coded in bit slices. */
export const frequentShare = 32;

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

/** Undefined where this version has no such field, or indexes it in another way. */
export function fieldOf(column: ColumnHeader): FilterField | undefined {
  const row = filterFields.find(({ field }) => field === column.name);
  if (row?.kind === "label") return column.kind === "label" ? row : undefined;
  const same = column.kind === "integer" && column.min === row?.min && column.max === row?.max;
  return same ? row : undefined;
}

export const isForeign = (column: ColumnHeader) =>
  !isKnown(column) || !filterFields.some(({ field }) => field === column.name);
