import { directions } from "./meanings.ts";
import { bounds, type HistoricalMarket, type MarketDimensionKey, marketDimensionKeys } from "./records.ts";
import { forgeScaleNumber, forgeTiers } from "./tiers.ts";

/** A row for a label: a text that is compared whole. `of` reads it off a market; `meaning` documents the parameter. */
interface LabelField<Name extends string> {
  field: Name;
  kind: "label";
  /** Whether letter case is ignored, by Unicode simple case folding. */
  fold: boolean;
  of: (market: HistoricalMarket) => string;
  meaning: string;
}

/**
 * A row for an integer in `min..max`. A query gives a range, `min_<field>` and `max_<field>`, or, where there are `values`,
 * one of these names.
 */
interface IntegerField<Name extends string> {
  field: Name;
  kind: "integer";
  min: number;
  max: number;
  /** How many values share a bucket of the histogram; a last one of fewer joins the one before. */
  bucketWidth: number;
  /** Names of the values, from `min` up. */
  values?: readonly string[];
  /** Whether a query may give several of these names, separated by commas. */
  several?: true;
  of: (market: HistoricalMarket) => number;
  meaning: string;
}

const dimensionField = (key: MarketDimensionKey) =>
  ({
    field: key,
    kind: "integer",
    ...bounds.score,
    bucketWidth: 10,
    of: (market: HistoricalMarket) => {
      const dimension = market.dimensions.find((candidate) => candidate.key === key);
      if (!dimension) throw new Error(`market ${market.id} has no dimension ${key}`);
      return dimension.score;
    },
    meaning: `Bound on the score of the dimension ${key}: ${directions.dimension}.`,
  }) as const satisfies IntegerField<MarketDimensionKey>;

/** Names of the values 0 and 1 of a boolean field. */
export const booleanNames = ["false", "true"] as const;

const table = [
  {
    field: "category",
    kind: "label",
    fold: true,
    of: (market) => market.category,
    meaning: "Market category, the whole string in any letter case.",
  },
  {
    field: "tier",
    kind: "integer",
    min: 1,
    max: forgeTiers.length,
    bucketWidth: 1,
    values: forgeTiers,
    several: true,
    of: (market) => forgeScaleNumber(market.tier),
    meaning: "Tier of the Forge Scale, or several separated by commas.",
  },
  {
    field: "outcome",
    kind: "label",
    fold: false,
    of: (market) => market.resolvedOutcome,
    meaning: "Resolved outcome label, exactly as published.",
  },
  {
    field: "disputed",
    kind: "integer",
    min: 0,
    max: 1,
    bucketWidth: 1,
    values: booleanNames,
    of: (market) => Number(market.disputed),
    meaning: "Whether the resolution was disputed.",
  },
  {
    field: "formula_version",
    kind: "label",
    fold: false,
    of: (market) => market.formulaVersion,
    meaning: "Version of the scoring formula, exactly as published.",
  },
  {
    field: "weight_version",
    kind: "label",
    fold: false,
    of: (market) => market.weightVersion,
    meaning: "Version of the dimension weights, exactly as published.",
  },
  {
    field: "composite",
    kind: "integer",
    ...bounds.composite,
    bucketWidth: 50,
    of: (market) => market.composite,
    meaning: `Bound on the composite score: ${directions.composite}.`,
  },
  ...marketDimensionKeys.map(dimensionField),
] as const satisfies readonly (LabelField<string> | IntegerField<string>)[];

type Row = (typeof table)[number];
/** Names of the fields that hold a text. */
export type LabelName = Extract<Row, { kind: "label" }>["field"];
/** Names of the fields that hold an integer. */
export type IntegerName = Extract<Row, { kind: "integer" }>["field"];
export type FilterField = LabelField<LabelName> | IntegerField<IntegerName>;

/**
 * The filter table (INTERFACE 4.5). Query parameters, reading of sources, index, evaluation and documentation all derive
 * from it.
 */
export const filterFields: readonly FilterField[] = table;

/** The rows of the filter table for labels. */
export const labelFields = filterFields.filter((row) => row.kind === "label");

/** The lowest value of each bucket of an integer's histogram (INTERFACE 4.7). */
export function bucketStarts({ min, max, bucketWidth }: IntegerField<IntegerName>): number[] {
  const buckets = Math.floor((max - min + 1) / bucketWidth);
  return Array.from({ length: buckets }, (_, bucket) => min + bucket * bucketWidth);
}

/** What markets can be counted by: every field of the filter table, and the month of their resolution. */
export const facetNames = [...filterFields.map(({ field }) => field), "month"] as const;
export type FacetName = (typeof facetNames)[number];

/** The values of one market that filters compare, one per row of the filter table. */
export type FilterValues = Record<LabelName, string> & Record<IntegerName, number>;

/** The filter values of a published market. Throws an Error when the market lacks a dimension. */
export function filterValuesOf(market: HistoricalMarket): FilterValues {
  return Object.fromEntries(filterFields.map((row) => [row.field, row.of(market)])) as FilterValues;
}

/** Bounds of `q` in characters and words, and of the beginning of a word in characters (INTERFACE 4.5). */
export const searchBounds = { characters: 200, words: 8, prefix: 2 } as const;

/** A word that a market's question must have or, with `prefix`, the beginning of one. */
export interface QueryWord {
  text: string;
  prefix: boolean;
}

/** Bound of a facet's `limit`, and what it is if left out (INTERFACE 4.7). */
export const facetLimit = { otherwise: 100, max: 1000 } as const;

/** Bounds of `page` and `pageSize` (INTERFACE 4.5). */
export const paging = {
  defaultPageSize: 100,
  maxPageSize: 500,
  maxPage: 2_147_483_647,
} as const;

/** An inclusive range of integers. */
export interface IntegerRange {
  min: number;
  max: number;
}

/**
 * One condition of a query. Bounds are inclusive. An integer lies in one of the ranges, which neither overlap nor touch.
 * Times are epoch milliseconds, ±Infinity where there is no bound.
 */
export type Condition =
  | { kind: "label"; field: LabelName; value: string }
  | { kind: "integer"; field: IntegerName; ranges: readonly IntegerRange[] }
  | { kind: "time"; from: number; to: number };
