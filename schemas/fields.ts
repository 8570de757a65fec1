import { filterFields, isRange } from "./filters.ts";
import { marketDimensionKeys } from "./market.ts";

export const dimensions: readonly string[] = marketDimensionKeys;

const named = (rows: typeof filterFields): readonly string[] => rows.map(({ field }) => field);

/** The fields that the site filters by lists, and those that it filters by histograms. */
export const labels = named(filterFields.filter((row) => !isRange(row)));
export const scores = named(filterFields.filter(isRange));
