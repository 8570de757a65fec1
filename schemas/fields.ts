import { filterFields, isRange } from "./filters.ts";
import { marketDimensionKeys } from "./market.ts";

/** Keys of a market's dimensions. */
export const dimensions: readonly string[] = marketDimensionKeys;

const named = (rows: typeof filterFields): readonly string[] => rows.map(({ field }) => field);

/** What the archive is chosen by in lists, and what in histograms. */
export const labels = named(filterFields.filter((row) => !isRange(row)));
export const scores = named(filterFields.filter(isRange));
