import { z } from "zod";
import type { FilterField } from "./filters.ts";
import { evidence, market, marketDimension, marketIn } from "./market.ts";
import { directions, meanings } from "./meanings.ts";
import { described, protocol, protocolDimensionKeys, scoreHead } from "./protocol.ts";
import { digestPattern, fitsIn, label, type Members, type Shape, type TypeOf } from "./shapes.ts";
import { feedVersions, forgeScaleNumber, forgeTiers } from "./versions.ts";

/** A published time: UTC with exactly three decimals, `2026-02-02T08:21:59.229Z`. */
export const Timestamp = z.iso.datetime({ precision: 3 });

export const ForgeTier = z.enum(forgeTiers);

export const Digest = z.string().regex(digestPattern);

export const Count = z.int().min(0);

export const exportNamePattern = /^markets-[0-9]{4,}\.parquet$/;

/** The name of a file of an export. The names of an export are in the order of its files. */
export const ExportName = z.string().regex(exportNamePattern);

/** The names in the public log, as in c2sp.org/tlog-tiles (snapshots/SPEC.md, "Log"). */
export const logFilePattern =
  /^(?:checkpoint|checkpoints\/[1-9][0-9]{0,9}|tile\/(?:entries|[0-9])\/(?:x[0-9]{3}\/){0,2}[0-9]{3}(?:\.p\/[1-9][0-9]{0,2})?)$/;

export const LogFileName = z.string().regex(logFilePattern);

const SnapshotRef = z.strictObject({ snapshotId: Digest, publishedAt: Timestamp }).nullable();

/** The snapshots before and after one that is no longer kept; null where there is none. */
export const Nearest = z.strictObject({ before: SnapshotRef, after: SnapshotRef });
export type Nearest = z.infer<typeof Nearest>;

export const integerBetween = (min: number, max: number) => z.int().min(min).max(max);

/**
 * JSON that is passed through unchanged. A precise schema would refer to itself, which some type generators do not
 * support.
 */
export const AnyJson = z.unknown().describe("Any JSON, as the source has it.");

type ObjectOf<M extends Members> = z.ZodObject<
  { -readonly [Name in keyof M]: z.ZodType<TypeOf<M[Name]>> },
  z.core.$strict
>;

// A struct within others is one schema object, so that the OpenAPI document can give it a name.
const structs = new WeakMap<Members, z.ZodType>();

/** The schema of records with exactly these members. */
export function recordOf<const M extends Members>(members: M): ObjectOf<M> {
  const cached = structs.get(members);
  if (cached) return cached as ObjectOf<M>;
  const schema = z.strictObject(
    Object.fromEntries(Object.entries(members).map(([name, shape]) => [name, schemaOf(shape)])),
  );
  structs.set(members, schema);
  return schema as unknown as ObjectOf<M>;
}

function schemaOf<const S extends Shape>(shape: S): z.ZodType<TypeOf<S>> {
  const schema = plainSchema(shape);
  const meaning = meaningOf(shape);
  return (meaning === undefined ? schema : schema.describe(meaning)) as z.ZodType<TypeOf<S>>;
}

function plainSchema(shape: Shape): z.ZodType {
  switch (shape.kind) {
    case "text":
      return shape.values ? choiceOf(shape.values) : textSchema(shape);
    case "integer":
      return shape.max === Number.MAX_SAFE_INTEGER
        ? Count.min(shape.min)
        : integerBetween(shape.min, shape.max);
    case "double":
      return doubleSchema(shape);
    case "boolean":
      return z.boolean();
    case "time":
      return Timestamp;
    case "any":
      return AnyJson;
    case "list":
      return shape.each ? eachOnce(schemaOf(shape.of), shape.each) : z.array(schemaOf(shape.of));
    case "struct":
      return recordOf(shape.members);
  }
}

function choiceOf(values: readonly string[]): z.ZodType {
  if (String(values) === String(forgeTiers)) return ForgeTier;
  return values.length === 1 ? z.literal(values[0]!) : z.enum(values);
}

function textSchema({ notEmpty, pattern, maxBytes, reserved }: Shape & { kind: "text" }): z.ZodString {
  let schema = z.string();
  if (maxBytes !== undefined) schema = schema.max(maxBytes).refine((text) => fitsIn(text, maxBytes));
  if (notEmpty) schema = schema.min(1);
  if (pattern) schema = schema.regex(pattern);
  if (reserved)
    schema = schema.refine((text) => !reserved.includes(text), `${reserved.join(", ")} is reserved`);
  return schema;
}

function doubleSchema({ min, max }: { min?: number; max?: number }): z.ZodType {
  const number = z.number();
  return min === undefined || max === undefined ? number : number.min(min).max(max);
}

function eachOnce(item: z.ZodType, { member, values }: { member: string; values: readonly string[] }) {
  return z
    .array(item)
    .length(values.length)
    .refine(
      (items) => new Set(items.map((one) => (one as Record<string, unknown>)[member])).size === values.length,
      `every ${member} exactly once`,
    );
}

export const MarketId = textSchema(market.id);

export const ProtocolSlug = textSchema(scoreHead.slug);

export const Label = textSchema(label);

/**
 * The documentation of the market's members. It is apart from their table because evaluators of queries load the table
 * only.
 */
const marketMeanings: ReadonlyMap<Shape, string> = new Map<Shape, string>([
  [market.composite, meanings.composite.meaning],
  [market.tier, meanings.tier.meaning],
  [market.resolvedOutcome, "Outcome label."],
  [market.resolvedAt, "Resolution time; the archive is ordered by it, newest first."],
  [market.resolutionSource, "Where the resolution came from."],
  [market.disputed, "Whether the resolution was disputed."],
  [market.topRiskDriver, meanings.topRiskDriver.meaning],
  [market.flaggedCount, "Number of flagged items."],
  [market.formulaVersion, "Version of the scoring formula."],
  [market.weightVersion, "Version of the dimension weights."],
  [market.dimensions, `Every dimension key exactly once. ${meanings.marketDimension.meaning}`],
  [marketDimension.members.score, meanings.marketDimension.meaning],
  [marketDimension.members.weight, "Weight of the dimension in the composite."],
]);

/** What a value of a shape means, in the words of the API's description; undefined where its name says it. */
export const meaningOf = (shape: Shape): string | undefined => shape.meaning ?? marketMeanings.get(shape);

const exactly = "exactly as published";
const filterMeanings: Partial<Record<FilterField["field"], string>> = {
  category: "Market category, the whole string in any letter case.",
  composite: `Bound on the composite score: ${directions.composite}.`,
  tier: "Tier of the Forge Scale, or several separated by commas.",
  outcome: `Resolved outcome label, ${exactly}.`,
  disputed: "Whether the resolution was disputed.",
  formula_version: `Version of the scoring formula, ${exactly}.`,
  weight_version: `Version of the dimension weights, ${exactly}.`,
};

export const filterMeaning = ({ field }: FilterField): string =>
  filterMeanings[field] ?? `Bound on the score of the dimension ${field}: ${directions.dimension}.`;

const tierMatchesNumber = (record: { forgeScale: z.infer<typeof ForgeTier>; forgeScaleNum: number }) =>
  forgeScaleNumber(record.forgeScale) === record.forgeScaleNum;
const mismatch = "forgeScaleNum does not match forgeScale";

/** One row of GET /api/v1/scores (INTERFACE 4.1). */
export const ScoreListEntry = recordOf({ ...scoreHead, ...described }).refine(tierMatchesNumber, mismatch);
export type ScoreListEntry = z.infer<typeof ScoreListEntry>;

const { slug: _, updatedAt, ...scored } = scoreHead;

/** One point of a protocol's score history (INTERFACE 4.4). */
export const ScorePoint = recordOf({ updatedAt, ...scored }).refine(tierMatchesNumber, mismatch);
export type ScorePoint = z.infer<typeof ScorePoint>;

export const ProtocolScore = recordOf(protocol).refine(tierMatchesNumber, mismatch);
export type ProtocolScore = z.infer<typeof ProtocolScore>;

export function listEntryOf(record: ProtocolScore): ScoreListEntry {
  const { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt } = record;
  const { category, chain, tvl } = record.metadata;
  return { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, category, chain, tvl };
}

/** Rows in the order of the score list: by BRI from the highest down, then by slug. */
export function inListOrder(rows: readonly ScoreListEntry[]): ScoreListEntry[] {
  return rows.toSorted((a, b) => b.bri - a.bri || (a.slug < b.slug ? -1 : 1));
}

export const EvidenceItem = recordOf(evidence.members);

export const MarketDimension = recordOf(marketDimension.members);
export type MarketDimension = z.infer<typeof MarketDimension>;

export const HistoricalMarket = recordOf(market);
export type HistoricalMarket = z.infer<typeof HistoricalMarket>;

const markets = new Map<string, typeof HistoricalMarket>(
  feedVersions.map((version) => [version, recordOf(marketIn(version))]),
);

/** The schema of a market in a known version of the feed. */
export const marketOf = (version: string) => markets.get(version)!;

const headNames = Object.keys(scoreHead);
const { cascade, findings, metadata } = protocol;
const structMembers = [cascade, findings, metadata].flatMap((struct) => Object.keys(struct.members));

/** The columns of the figures behind charts, for callers who want them as CSV (INTERFACE 4.15), by endpoint. */
export const tableColumns = {
  listScores: [...headNames, ...Object.keys(described)],
  getScore: [...headNames, "evidenceHash", ...protocolDimensionKeys, ...structMembers],
  scoreHistory: headNames,
  scoreDimensions: ["slug", "updatedAt", "key", "score", "change7d", "percentile"],
  marketFacets: ["facet", "kind", "value", "from", "to", "count", "disputed"],
} as const satisfies Record<string, readonly string[]>;

/** Endpoints whose answers also come as a table. */
export type TableId = keyof typeof tableColumns;
