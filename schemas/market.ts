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
import { boundsIn, feedVersion, isIn, type Lifetime, tiersIn } from "./versions.ts";

/** Keys of a market's dimensions, in the order of INTERFACE 2.5. */
const marketDimensions = {
  informed: {},
  integrity: {},
  oracle: {},
  catalyst: {},
  design: {},
  counterparty: {},
} as const satisfies Record<string, Lifetime>;
export type MarketDimensionKey = keyof typeof marketDimensions;

export const everyDimensionKey = Object.keys(marketDimensions) as MarketDimensionKey[];
export const dimensionKeysIn = (version: string) =>
  everyDimensionKey.filter((key) => isIn(version, marketDimensions[key]));
export const marketDimensionKeys = dimensionKeysIn(feedVersion);

export const marketIdPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Evidence behind a market dimension's score (INTERFACE 2.6). */
export const evidence = struct({
  type: text,
  label: text,
  pattern: text,
  reference: struct({ label: text, url: httpUrl, kind: text }),
});

/** One risk signal of a market (INTERFACE 2.5). `references`, `raises` and `lowers` are passed through unchanged. */
const dimensionIn = (version: string) =>
  struct({
    key: oneOf(dimensionKeysIn(version)),
    name: text,
    score: integer(boundsIn(version).score),
    weight: { kind: "double", ...boundsIn(version).weight },
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
  /** Taken away. Snapshots have a column for it until the next publish. */
  retired?: true;
  /** Whether letter case is ignored, by Unicode simple case folding. */
  fold?: true;
  /** Whether a query may give several names, separated by commas. */
  several?: true;
  /** How many values share a bucket of the histogram; a last one of fewer joins the one before. */
  bucketWidth?: number;
}

/** A member of the market. The filters of `dimensions` choose by the scores in it. */
export type MarketMember = Shape & Lifetime & { filter?: Filter };

/**
 * The members of the market of the archive (INTERFACE 2.4), with the scales of a version of the feed: the one table
 * from which the published record, the rules for the source's columns (named in snake case), filters, facets, CSV and
 * export columns derive.
 */
const membersWith = (version: string) =>
  ({
    id: { ...text, pattern: marketIdPattern, rule: "must be a UUID in lower-case digits" },
    slug: someText,
    question: someText,
    category: { ...label, notEmpty: true, filter: { name: "category", fold: true } },
    composite: { ...integer(boundsIn(version).composite), filter: { name: "composite", bucketWidth: 50 } },
    tier: { ...oneOf(tiersIn(version)), filter: { name: "tier", several: true } },
    status: oneOf(["resolved"]),
    resolvedOutcome: { ...label, notEmpty: true, filter: { name: "outcome" } },
    resolvedAt: { ...time },
    resolutionSource: { ...httpUrl },
    disputed: { ...boolean, filter: { name: "disputed" } },
    topRiskDriver: { ...text },
    flaggedCount: { ...count },
    formulaVersion: { ...label, filter: { name: "formula_version" } },
    weightVersion: { ...label, filter: { name: "weight_version" } },
    dimensions: {
      ...list(dimensionIn(version)),
      each: { member: "key", values: dimensionKeysIn(version) },
    },
  }) as const satisfies Record<string, MarketMember>;

type Table = ReturnType<typeof membersWith>;
export type Market = RecordOf<Table>;

/** The members of every version, in the order of the market's JSON text. */
export const everyMember: Table = membersWith(feedVersion);
export const marketMembers = Object.keys(everyMember) as (keyof Market)[];

export function marketIn(version: string): Table {
  const members = Object.entries<MarketMember>(membersWith(version));
  return Object.fromEntries(members.filter(([, member]) => isIn(version, member))) as Table;
}

/** The market as it is published. records.ts says what its rows mean, each by its own object. */
export const market = marketIn(feedVersion);
export const marketDimension = market.dimensions.of;

/** The columns of CSV: the members that are plain values, without those that are the same for all markets. */
export const plainMembersIn = (version: string) =>
  Object.entries<MarketMember>(everyMember)
    .filter(([, shape]) => isIn(version, shape) && shape.kind !== "list")
    .filter(([, shape]) => !(shape.kind === "text" && shape.values?.length === 1))
    .map(([name]) => name as Exclude<keyof Market, "dimensions">);
