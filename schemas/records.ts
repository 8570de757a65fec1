import type { z } from "zod";
import { evidence, market, marketDimension, marketIn } from "./market.ts";
import { recordOf } from "./primitives.ts";
import { described, protocol, protocolDimensionKeys, scoreHead } from "./protocol.ts";
import { type ForgeTier, forgeScaleNumber } from "./scales.ts";
import { feedVersions } from "./versions.ts";

const tierMatchesNumber = (record: { forgeScale: ForgeTier; forgeScaleNum: number }) =>
  forgeScaleNumber(record.forgeScale) === record.forgeScaleNum;
const mismatch = "forgeScaleNum does not match forgeScale";

/** One row of GET /api/v1/scores (INTERFACE 4.1). */
export const ScoreListEntry = recordOf({ ...scoreHead, ...described }).refine(tierMatchesNumber, mismatch);
export type ScoreListEntry = z.infer<typeof ScoreListEntry>;

const { slug: _, updatedAt, ...scored } = scoreHead;

/** One point of a protocol's score history (INTERFACE 4.4). */
export const ScorePoint = recordOf({ updatedAt, ...scored }).refine(tierMatchesNumber, mismatch);
export type ScorePoint = z.infer<typeof ScorePoint>;

/** A protocol's score record (INTERFACE 2.1). */
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

/** Evidence behind a market dimension's score (INTERFACE 2.6). */
export const EvidenceItem = recordOf(evidence.members);

/** One risk signal of a market (INTERFACE 2.5). */
export const MarketDimension = recordOf(marketDimension.members);
export type MarketDimension = z.infer<typeof MarketDimension>;

/** A market of the archive (INTERFACE 2.4). */
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
