import { z } from "zod";
import { type FilterField, filterFields } from "../../schemas/filters.ts";

/** A column of a kind that this version knows. */
export type KnownColumn = { name: string } & (
  | { kind: "integer"; min: number; max: number }
  | { kind: "label"; frequent: string[] }
);
/** A column as segments describe it; of a later version's kind it has other members. */
export type ColumnHeader = KnownColumn | { name: string; kind: string; [member: string]: unknown };

export const isKnown = (column: ColumnHeader): column is KnownColumn =>
  column.kind === "integer" || column.kind === "label";

/** The columns of a segment's header (snapshots/SPEC.md, "Segments"). */
export const Columns = z.array(
  z.union([
    z.object({ name: z.string(), kind: z.literal("integer"), min: z.int(), max: z.int() }),
    z.object({ name: z.string(), kind: z.literal("label"), frequent: z.array(z.string()) }),
    // Of a later version's kind.
    z.looseObject({ name: z.string(), kind: z.string() }).refine((column) => !isKnown(column)),
  ]),
);
type Column = z.infer<typeof Columns>[number];

/**
 * The field whose values a column holds; undefined where another version indexed what this one does not, or otherwise.
 */
export function fieldOf(column: Column): FilterField | undefined {
  const row = filterFields.find(({ field }) => field === column.name);
  if (row?.kind === "label") return column.kind === "label" ? row : undefined;
  const same = column.kind === "integer" && column.min === row?.min && column.max === row?.max;
  return same ? row : undefined;
}

/** Whether no field of this version has this column, or it is of a kind that this version does not know. */
export const isForeign = (column: Column) =>
  !isKnown(column) || !filterFields.some(({ field }) => field === column.name);
