import { bounds, forgeTiers } from "./scales.ts";
import {
  any,
  boolean,
  count,
  double,
  httpUrl,
  integer,
  label,
  list,
  oneOf,
  type RecordOf,
  type Shape,
  someText,
  struct,
  text,
  time,
} from "./shapes.ts";

/** Keys of a market's dimensions, in the order of INTERFACE 2.5. */
export const marketDimensionKeys = [
  "informed",
  "integrity",
  "oracle",
  "catalyst",
  "design",
  "counterparty",
] as const;
export type MarketDimensionKey = (typeof marketDimensionKeys)[number];

export const marketIdPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Evidence behind a market dimension's score (INTERFACE 2.6). */
export const evidence = struct({
  type: text,
  label: text,
  pattern: text,
  reference: struct({ label: text, url: httpUrl, kind: text }),
});

/** One risk signal of a market (INTERFACE 2.5). `references`, `raises` and `lowers` are passed through unchanged. */
export const marketDimension = struct({
  key: oneOf(marketDimensionKeys),
  name: text,
  score: integer(bounds.score),
  weight: { kind: "double", ...bounds.weight },
  description: text,
  evidence: list(evidence),
  references: list(any),
  computation: struct({ baseline: double, raises: list(any), lowers: list(any) }),
});

/**
 * How a query chooses by a member. A text is compared whole. A boolean and a text of few values are chosen by name, and
 * an integer by a range, `min_<name>` and `max_<name>`.
 */
interface Filter {
  /** The parameter. */
  name: string;
  /** Whether letter case is ignored, by Unicode simple case folding. */
  fold?: true;
  /** Whether a query may give several names, separated by commas. */
  several?: true;
  /** How many values share a bucket of the histogram; a last one of fewer joins the one before. */
  bucketWidth?: number;
}

/** Versions of the feed, the oldest first (INTERFACE 9). A new member of the market names its version in `since`. */
export const feedVersions = ["bri-pm-v1"] as const;
export type FeedVersion = (typeof feedVersions)[number];
export const feedVersion: FeedVersion = feedVersions.at(-1)!;

/** A member of the market. The filters of `dimensions` choose by the scores in it. */
export type MarketMember = Shape & { filter?: Filter; since?: FeedVersion };

/**
 * The market of the archive (INTERFACE 2.4): the one table from which the published record, the rules for the source's
 * columns (named in snake case), filters, facets, CSV and export columns derive. market-meanings.ts says what its rows
 * mean, each by its own object.
 */
export const market = {
  id: { ...text, pattern: marketIdPattern, rule: "must be a UUID in lower-case digits" },
  slug: someText,
  question: someText,
  category: { ...label, notEmpty: true, filter: { name: "category", fold: true } },
  composite: { ...integer(bounds.composite), filter: { name: "composite", bucketWidth: 50 } },
  tier: { ...oneOf(forgeTiers), filter: { name: "tier", several: true } },
  status: oneOf(["resolved"]),
  resolvedOutcome: { ...label, notEmpty: true, filter: { name: "outcome" } },
  resolvedAt: { ...time },
  resolutionSource: { ...httpUrl },
  disputed: { ...boolean, filter: { name: "disputed" } },
  topRiskDriver: { ...text },
  flaggedCount: { ...count },
  formulaVersion: { ...label, filter: { name: "formula_version" } },
  weightVersion: { ...label, filter: { name: "weight_version" } },
  dimensions: { ...list(marketDimension), each: { member: "key", values: marketDimensionKeys } },
} as const satisfies Record<string, MarketMember>;

export type Market = RecordOf<typeof market>;

/** In the order of the market's JSON text. */
export const marketMembers = Object.keys(market) as (keyof Market)[];

/** Whether markets of a version of the feed have a member. */
export function isMemberIn(version: string, name: keyof Market): boolean {
  const { since = feedVersions[0] }: MarketMember = market[name];
  return feedVersions.indexOf(since) <= feedVersions.indexOf(version as FeedVersion);
}

/** The columns of CSV: the members that are plain values, without those that are the same for all markets. */
export const plainMembers = Object.entries<MarketMember>(market)
  .filter(([, shape]) => shape.kind !== "list" && !(shape.kind === "text" && shape.values?.length === 1))
  .map(([name]) => name as Exclude<keyof Market, "dimensions">);
