import { directions, meanings } from "./meanings.ts";
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
  score: { ...integer(bounds.score), meaning: meanings.marketDimension.meaning },
  weight: { kind: "double", ...bounds.weight, meaning: "Weight of the dimension in the composite." },
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
  /** What the documentation says of the parameter. */
  meaning: string;
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
/** The version that this program publishes. */
export const feedVersion: FeedVersion = feedVersions.at(-1)!;

/** A member of the market. The filters of `dimensions` choose by the scores in it. */
export type MarketMember = Shape & { filter?: Filter; since?: FeedVersion };

/**
 * The market of the archive (INTERFACE 2.4): the one table from which the published record, the rules for the source's
 * columns (named in snake case), filters, facets, CSV and export columns derive.
 */
export const market = {
  id: { ...text, pattern: marketIdPattern, rule: "must be a UUID in lower-case digits" },
  slug: someText,
  question: someText,
  category: {
    ...label,
    notEmpty: true,
    filter: {
      name: "category",
      fold: true,
      meaning: "Market category, the whole string in any letter case.",
    },
  },
  composite: {
    ...integer(bounds.composite),
    meaning: meanings.composite.meaning,
    filter: {
      name: "composite",
      bucketWidth: 50,
      meaning: `Bound on the composite score: ${directions.composite}.`,
    },
  },
  tier: {
    ...oneOf(forgeTiers),
    meaning: meanings.tier.meaning,
    filter: {
      name: "tier",
      several: true,
      meaning: "Tier of the Forge Scale, or several separated by commas.",
    },
  },
  status: oneOf(["resolved"]),
  resolvedOutcome: {
    ...label,
    notEmpty: true,
    meaning: "Outcome label.",
    filter: { name: "outcome", meaning: "Resolved outcome label, exactly as published." },
  },
  resolvedAt: { ...time, meaning: "Resolution time; the archive is ordered by it, newest first." },
  resolutionSource: { ...httpUrl, meaning: "Where the resolution came from." },
  disputed: {
    ...boolean,
    meaning: "Whether the resolution was disputed.",
    filter: { name: "disputed", meaning: "Whether the resolution was disputed." },
  },
  topRiskDriver: { ...text, meaning: meanings.topRiskDriver.meaning },
  flaggedCount: { ...count, meaning: "Number of flagged items." },
  formulaVersion: {
    ...label,
    meaning: "Version of the scoring formula.",
    filter: { name: "formula_version", meaning: "Version of the scoring formula, exactly as published." },
  },
  weightVersion: {
    ...label,
    meaning: "Version of the dimension weights.",
    filter: { name: "weight_version", meaning: "Version of the dimension weights, exactly as published." },
  },
  dimensions: {
    ...list(marketDimension),
    each: { member: "key", values: marketDimensionKeys },
    meaning: `Every dimension key exactly once. ${meanings.marketDimension.meaning}`,
  },
} as const satisfies Record<string, MarketMember>;

/** A market as it is published. */
export type Market = RecordOf<typeof market>;

/** The names of a market's members, in the order of its JSON text. */
export const marketMembers = Object.keys(market) as (keyof Market)[];

/** Whether markets of a version of the feed have a member. */
export function isMemberIn(version: string, name: keyof Market): boolean {
  const { since = feedVersions[0] }: MarketMember = market[name];
  return feedVersions.indexOf(since) <= feedVersions.indexOf(version as FeedVersion);
}

/** The members of a market that are plain values, apart from those that are the same for all: the columns of CSV. */
export const plainMembers = Object.entries<MarketMember>(market)
  .filter(([, shape]) => shape.kind !== "list" && !(shape.kind === "text" && shape.values?.length === 1))
  .map(([name]) => name as Exclude<keyof Market, "dimensions">);
