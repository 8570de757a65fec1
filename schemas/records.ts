import { z } from "zod";
import { meanings } from "./meanings.ts";
import {
  AnyJson,
  Count,
  HttpUrl,
  integerBetween,
  Label,
  MarketId,
  ProtocolSlug,
  Timestamp,
} from "./primitives.ts";
import { ForgeTier, forgeScaleNumber } from "./tiers.ts";

/** Keys of a protocol's dimensions, in the order of INTERFACE 2.2. */
export const protocolDimensionKeys = [
  "access_control",
  "economic_soundness",
  "oracle_integrity",
  "compositional_risk",
  "governance",
  "maturity",
  "adversarial_resilience",
  "supply_chain",
  "liquidity",
  "cross_chain",
  "opsec",
  "cascade_exposure",
] as const;
export type ProtocolDimensionKey = (typeof protocolDimensionKeys)[number];

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

/** Inclusive bounds of the numbers. Source checks, records, filters and indexes all read these. */
export const bounds = {
  bri: { min: 0, max: 1000 },
  confidence: { min: 0, max: 100 },
  delta: { min: -1000, max: 1000 },
  composite: { min: 300, max: 1000 },
  score: { min: 0, max: 100 },
  weight: { min: 0, max: 1 },
} as const;

const Score = integerBetween(bounds.score.min, bounds.score.max);
const Text = z.string().min(1);

const scoreHead = {
  slug: ProtocolSlug.describe("Protocol identifier, as in the path."),
  bri: integerBetween(bounds.bri.min, bounds.bri.max).describe(meanings.bri.meaning),
  forgeScale: ForgeTier.describe(meanings.tier.meaning),
  forgeScaleNum: integerBetween(1, 7).describe("Numeric form of the tier, 1 for RAW to 7 for ADAMANTINE."),
  confidence: integerBetween(bounds.confidence.min, bounds.confidence.max).describe(
    meanings.confidence.meaning,
  ),
  delta: integerBetween(bounds.delta.min, bounds.delta.max).describe(meanings.delta.meaning),
  updatedAt: Timestamp.describe("Time of the scoring run."),
};

const tierMatchesNumber = (record: { forgeScale: ForgeTier; forgeScaleNum: number }) =>
  forgeScaleNumber(record.forgeScale) === record.forgeScaleNum;

const described = {
  category: z.string(),
  chain: z.string(),
  tvl: z.string().describe("Total value locked, as it is displayed."),
};

const listRow = z.strictObject({ ...scoreHead, ...described });

/** One row of GET /api/v1/scores (INTERFACE 4.1). */
export const ScoreListEntry = listRow.refine(tierMatchesNumber, "forgeScaleNum does not match forgeScale");
export type ScoreListEntry = z.infer<typeof ScoreListEntry>;

/** A row in a stored score list. Lists that older versions wrote lack the members of `described`. */
export const StoredScoreListEntry = listRow
  .partial({ category: true, chain: true, tvl: true })
  .refine(tierMatchesNumber, "forgeScaleNum does not match forgeScale");
export type StoredScoreListEntry = z.infer<typeof StoredScoreListEntry>;

/** One point of a protocol's score history (INTERFACE 4.4). */
export const ScorePoint = z
  .strictObject({
    updatedAt: scoreHead.updatedAt,
    bri: scoreHead.bri,
    forgeScale: scoreHead.forgeScale,
    forgeScaleNum: scoreHead.forgeScaleNum,
    confidence: scoreHead.confidence,
    delta: scoreHead.delta,
  })
  .refine(tierMatchesNumber, "forgeScaleNum does not match forgeScale");
export type ScorePoint = z.infer<typeof ScorePoint>;

/** A protocol's score record (INTERFACE 2.1). */
export const ProtocolScore = z
  .strictObject({
    ...scoreHead,
    evidenceHash: z.string().describe("Content hash of the evidence behind the score."),
    dimensions: z
      .strictObject(
        Object.fromEntries(protocolDimensionKeys.map((key) => [key, Score])) as Record<
          ProtocolDimensionKey,
          typeof Score
        >,
      )
      .describe(`Twelve scores. ${meanings.protocolDimension.meaning}`),
    cascade: z.strictObject({ blastRadius: Count, upstreamDeps: Count }),
    findings: z.strictObject({ critical: Count, high: Count, medium: Count }),
    metadata: z.strictObject({
      ...described,
      contracts: Count,
      zFactor: z.number(),
    }),
  })
  .refine(tierMatchesNumber, "forgeScaleNum does not match forgeScale");
export type ProtocolScore = z.infer<typeof ProtocolScore>;

/** Makes the row of the score list for a protocol's record. */
export function listEntryOf(record: ProtocolScore): ScoreListEntry {
  const { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt } = record;
  const { category, chain, tvl } = record.metadata;
  return { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, category, chain, tvl };
}

/** Evidence behind a market dimension's score (INTERFACE 2.6). */
export const EvidenceItem = z.strictObject({
  type: z.string(),
  label: z.string(),
  pattern: z.string(),
  reference: z.strictObject({
    label: z.string(),
    url: HttpUrl,
    kind: z.string(),
  }),
});

/** One risk signal of a market (INTERFACE 2.5). `references`, `raises` and `lowers` are passed through unchanged. */
export const MarketDimension = z.strictObject({
  key: z.enum(marketDimensionKeys),
  name: z.string(),
  score: Score.describe(meanings.marketDimension.meaning),
  weight: z
    .number()
    .min(bounds.weight.min)
    .max(bounds.weight.max)
    .describe("Weight of the dimension in the composite."),
  description: z.string(),
  evidence: z.array(EvidenceItem),
  references: z.array(AnyJson),
  computation: z.strictObject({
    baseline: z.number(),
    raises: z.array(AnyJson),
    lowers: z.array(AnyJson),
  }),
});
export type MarketDimension = z.infer<typeof MarketDimension>;

/** A market of the archive (INTERFACE 2.4). */
export const HistoricalMarket = z.strictObject({
  id: MarketId,
  slug: Text,
  question: Text,
  category: Label.min(1),
  composite: integerBetween(bounds.composite.min, bounds.composite.max).describe(meanings.composite.meaning),
  tier: ForgeTier.describe(meanings.tier.meaning),
  status: z.literal("resolved"),
  resolvedOutcome: Label.min(1).describe("Outcome label."),
  resolvedAt: Timestamp.describe("Resolution time; the archive is ordered by it, newest first."),
  resolutionSource: HttpUrl.describe("Where the resolution came from."),
  disputed: z.boolean().describe("Whether the resolution was disputed."),
  topRiskDriver: z.string().describe(meanings.topRiskDriver.meaning),
  flaggedCount: Count.describe("Number of flagged items."),
  formulaVersion: Label.describe("Version of the scoring formula."),
  weightVersion: Label.describe("Version of the dimension weights."),
  dimensions: z
    .array(MarketDimension)
    .length(marketDimensionKeys.length)
    .refine(
      (dimensions) =>
        new Set(dimensions.map((dimension) => dimension.key)).size === marketDimensionKeys.length,
      "every dimension key exactly once",
    )
    .describe(`Every dimension key exactly once. ${meanings.marketDimension.meaning}`),
});
export type HistoricalMarket = z.infer<typeof HistoricalMarket>;
