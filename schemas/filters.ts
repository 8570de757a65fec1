import {
  dimensionKeysIn,
  type Market,
  type MarketDimensionKey,
  type MarketMember,
  marketIn,
} from "./market.ts";
import { boundsIn, feedVersion, feedVersions } from "./versions.ts";

interface Field<Name extends string> {
  field: Name;
  member: keyof Market;
  retired: boolean;
}

/** A row for a label, a text that is compared whole. `of` reads it off a market. */
interface LabelField<Name extends string> extends Field<Name> {
  kind: "label";
  /** Whether letter case is ignored, by Unicode simple case folding. */
  fold: boolean;
  of: (market: Market) => string;
}

/**
 * A row for an integer in `min..max`. A query gives a range, `min_<field>` and `max_<field>`, or one of the names in
 * `values`, where there are any.
 */
interface IntegerField<Name extends string> extends Field<Name> {
  kind: "integer";
  min: number;
  max: number;
  /** How many values share a bucket of the histogram; a last one of fewer joins the one before. */
  bucketWidth: number;
  /** Names of the values, from `min` up. */
  values?: readonly string[];
  /** Whether a query may give several of these names, separated by commas. */
  several?: true;
  of: (market: Market) => number;
}

/** Names of the values 0 and 1 of a boolean field. */
export const booleanNames = ["false", "true"] as const;

type Table = ReturnType<typeof marketIn>;
/** The names of the filters of members whose shape is a `Kind`. */
type FilterOf<Kind> = {
  [Name in keyof Table]: Table[Name] extends Kind & { filter: { name: infer Filter } } ? Filter : never;
}[keyof Table];
type Choice = { kind: "text"; values: readonly string[] } | { kind: "boolean" } | { kind: "integer" };

export type IntegerName = FilterOf<Choice> | MarketDimensionKey;
export type RangeName = FilterOf<{ kind: "integer" }> | MarketDimensionKey;
export type LabelName = Exclude<FilterOf<{ kind: "text" }>, IntegerName>;
export type FilterField = LabelField<LabelName> | IntegerField<IntegerName>;

type Options<Name extends string, Value> = { [Each in Name]?: Value };
/** What a client gives to ask the archive; `Filters` of query.ts is the schema of the same. */
export type Filters = Options<LabelName | "from" | "to" | "q" | "cursor" | "asOf", string> &
  Options<FilterOf<{ kind: "boolean" }>, boolean> &
  Options<FilterOf<{ kind: "text"; values: readonly string[] }>, string[]> &
  Options<`${"min" | "max"}_${RangeName}` | "page" | "pageSize" | "skip", number>;

function fieldOf([name, shape]: [name: string, shape: MarketMember]): FilterField[] {
  if (!shape.filter) return [];
  const { name: filter, fold = false, several, bucketWidth = 1, retired = false } = shape.filter;
  const member = name as keyof Market;
  const value = (market: Market) => market[member] as never;
  if (shape.kind === "text" && !shape.values)
    return [{ field: filter as LabelName, kind: "label", member, retired, fold, of: value }];
  const field = filter as IntegerName;
  const shared = {
    field,
    kind: "integer",
    member,
    retired,
    bucketWidth,
    ...(several && { several }),
  } as const;
  if (shape.kind === "integer") return [{ ...shared, min: shape.min, max: shape.max, of: value }];
  if (shape.kind === "boolean")
    return [{ ...shared, min: 0, max: 1, values: booleanNames, of: (market) => Number(value(market)) }];
  if (shape.kind !== "text") throw new Error(`a ${shape.kind} has no filter`);
  const values = shape.values!;
  return [
    { ...shared, min: 1, max: values.length, values, of: (market) => values.indexOf(value(market)) + 1 },
  ];
}

const dimensionField = (field: MarketDimensionKey, version: string): FilterField => ({
  field,
  kind: "integer",
  member: "dimensions",
  retired: false,
  ...boundsIn(version).score,
  bucketWidth: 10,
  of: (market) => market.dimensions?.find(({ key }) => key === field)?.score ?? Number.NaN,
});

/** Whether queries give bounds for a field, rather than names. */
export const isRange = (row: FilterField) => row.kind === "integer" && !row.values;

/** First those that choose by name, then ranges. */
function fieldsWith(version: string): readonly FilterField[] {
  const fields = Object.entries<MarketMember>(marketIn(version)).flatMap(fieldOf);
  return [
    ...fields.filter((row) => !isRange(row)),
    ...fields.filter(isRange),
    ...dimensionKeysIn(version).map((key) => dimensionField(key, version)),
  ];
}

const fieldsByVersion = new Map<string, readonly FilterField[]>(
  feedVersions.map((version) => [version, fieldsWith(version)]),
);

/** The filters in a version of the feed, retired ones too; of an unknown version, those of the newest. */
export const feedFields = (version: string) =>
  fieldsByVersion.get(version) ?? fieldsByVersion.get(feedVersion)!;

/**
 * The filters (INTERFACE 4.5), from the table of the market. Query parameters, reading of sources, index, evaluation
 * and documentation derive from them.
 */
export const filterFields = feedFields(feedVersion).filter(({ retired }) => !retired);

/** The filters of every version by name, each as the newest version with it has it. */
export const everyField: ReadonlyMap<string, FilterField> = new Map(
  [...fieldsByVersion.values()].flat().map((row) => [row.field, row] as const),
);

export const labelFields = [...everyField.values()].filter((row) => row.kind === "label");

/** The lowest value of each bucket of an integer's histogram (INTERFACE 4.7). */
export function bucketStarts({ min, max, bucketWidth }: IntegerField<IntegerName>): number[] {
  const buckets = Math.floor((max - min + 1) / bucketWidth);
  return Array.from({ length: buckets }, (_, bucket) => min + bucket * bucketWidth);
}

/** What markets can be counted by: every field of the filter table, and the month of their resolution. */
export const facetNames = [...filterFields.map(({ field }) => field), "month"] as const;
export type FacetName = (typeof facetNames)[number];

/**
 * Folds a text for comparison regardless of letter case: two texts have the same result exactly when they are equal
 * under Unicode simple case folding, which the RegExp flags `iu` use too.
 */
export function foldCase(text: string): string {
  let folded = "";
  for (const character of text) folded += foldCharacter(character);
  return folded;
}

// For these characters, converting to upper case and back yields a wrong letter, or several.
const exceptions = new Map([
  ["\u0131", "\u0131"],
  ["\u1fd3", "\u0390"],
  ["\u1fe3", "\u03b0"],
  ["\ufb05", "\ufb06"],
]);

function foldCharacter(character: string): string {
  const exception = exceptions.get(character);
  if (exception !== undefined) return exception;
  const upper = alone(character.toUpperCase(), character);
  return alone(upper.toLowerCase(), upper);
}

function alone(changed: string, character: string): string {
  return changed.length > 1 && changed.length > String.fromCodePoint(changed.codePointAt(0)!).length
    ? character
    : changed;
}

/** The values of one market that filters compare, one per row of the filter table. */
export type FilterValues = Record<LabelName, string> & Record<IntegerName, number>;

export function filterValuesOf(market: Market, fields: readonly FilterField[] = filterFields): FilterValues {
  // Object.fromEntries would make an array of each, for every market of an archive.
  const values: Record<string, unknown> = {};
  for (const row of fields) values[row.field] = row.of(market);
  return values as FilterValues;
}

export const parameterNames = (row: FilterField): readonly string[] =>
  isRange(row) ? [`min_${row.field}`, `max_${row.field}`] : [row.field];

/** The query parameters that select markets by other things than fields: bounds of their time, and words. */
export const otherParameters = ["from", "to", "q"] as const;

/** The names of all query parameters that select markets (INTERFACE 4.5), in the order of the documentation. */
export const filterNames: readonly string[] = [...filterFields.flatMap(parameterNames), ...otherParameters];

export const retiredFields = [...everyField.values()].filter((row) => !filterFields.includes(row));

/** The parameters that take several values, separated by commas. */
export const listNames: ReadonlySet<string> = new Set([
  ...filterFields.flatMap((row) => ("several" in row && row.several ? row.field : [])),
  ...["by", "of"],
]);

// Digits are spelt out, because \d matches the digits of every script in other languages.
const leapYear = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)";
const monthAndDay = "((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)";
const day = `([0-9]{4}-${monthAndDay}|${leapYear}-02-29)`;
const minute = "([01][0-9]|2[0-3]):[0-5][0-9]";

/**
 * A time in a query: a day that exists, alone or with a clock time and a zone. The groups are date, clock, fraction and
 * zone.
 */
export const timePattern = new RegExp(
  `^(?<date>${day})(T(?<clock>${minute}:[0-5][0-9])(?<fraction>\\.[0-9]{1,3})?(?<zone>Z|[+-]${minute}))?$`,
);

/** Bounds of `q` in characters and words, and of the beginning of a word in characters (INTERFACE 4.5). */
export const searchBounds = { characters: 200, words: 8, prefix: 2 } as const;

/** A word that a market's question must have or, with `prefix`, the beginning of one. */
export interface QueryWord {
  text: string;
  prefix: boolean;
}

/** Default and upper bound of a facet's `limit` (INTERFACE 4.7). */
export const facetLimit = { otherwise: 100, max: 1000 } as const;

/** Bounds of `page` and `pageSize` (INTERFACE 4.5). */
export const paging = {
  defaultPageSize: 100,
  maxPageSize: 500,
  maxPage: 2_147_483_647,
} as const;

export interface IntegerRange {
  min: number;
  max: number;
}

/**
 * One condition of a query. Bounds are inclusive. An integer lies in one of the ranges, which neither overlap nor
 * touch. Times are epoch milliseconds, ±Infinity where there is no bound.
 */
export type Condition =
  | { kind: "label"; field: LabelName; value: string }
  | { kind: "integer"; field: IntegerName; ranges: readonly IntegerRange[] }
  | { kind: "time"; from: number; to: number };
