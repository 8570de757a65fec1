import { z } from "zod";
import { paging } from "./filters.ts";
import { meanings } from "./meanings.ts";
import { planNames } from "./plans.ts";
import { Count, Digest, integerBetween, ProtocolSlug, Timestamp } from "./primitives.ts";
import {
  bounds,
  HistoricalMarket,
  ProtocolScore,
  protocolDimensionKeys,
  ScoreListEntry,
  ScorePoint,
  StoredScoreListEntry,
} from "./records.ts";

/** Version of the archive feed (INTERFACE 9); raised when a market record's shape changes. */
export const feedVersion = "bri-pm-v1";

/** GET /api/v1/scores: bri descending, then slug. */
export const ScoreList = z.strictObject({
  count: Count,
  updatedAt: Timestamp.describe("Time of the newest score."),
  scores: z.array(ScoreListEntry).describe("By bri, highest first, then by slug."),
});
export type ScoreList = z.infer<typeof ScoreList>;

/** The same as stored, perhaps by an older version. */
export const StoredScoreList = ScoreList.extend({ scores: z.array(StoredScoreListEntry) });
export type StoredScoreList = z.infer<typeof StoredScoreList>;

/** INTERFACE 4.3. */
export const maxBatchSlugs = 50;

/** Body of POST /api/v1/scores/batch. */
export const BatchRequest = z.strictObject({
  slugs: z
    .array(z.string())
    .max(maxBatchSlugs)
    .describe("Protocol slugs; one that is repeated is answered once."),
});
export type BatchRequest = z.infer<typeof BatchRequest>;

/** Answer to it: both in the order asked, each slug once. */
export const ScoreBatch = z.strictObject({
  count: Count,
  scores: z.array(ProtocolScore).describe("In the order asked."),
  notFound: z.array(z.string()).describe("Slugs of which no protocol is scored."),
});
export type ScoreBatch = z.infer<typeof ScoreBatch>;

/** How far a score history goes back from the protocol's newest point, which is in it; days of 24 hours. */
export const historyDays = 7;

/** GET /api/v1/scores/:slug/history: oldest first. */
export const ScoreHistory = z.strictObject({
  slug: ProtocolSlug,
  days: z.literal(historyDays),
  count: Count,
  points: z.array(ScorePoint).min(1).describe("Oldest first."),
});
export type ScoreHistory = z.infer<typeof ScoreHistory>;

const span = bounds.score.max - bounds.score.min;

/**
 * GET /api/v1/scores/:slug/dimensions: every key once, in the order of INTERFACE 2.2. `change7d` is what the score has gained since
 * the oldest point of the history; `percentile` the percent rank among all protocols' scores, ties with the lowest.
 */
export const ScoreDimensions = z.strictObject({
  slug: ProtocolSlug,
  updatedAt: Timestamp,
  evidenceHash: z.string(),
  dimensions: z
    .array(
      z.strictObject({
        key: z.enum(protocolDimensionKeys),
        score: integerBetween(bounds.score.min, bounds.score.max).describe(
          meanings.protocolDimension.meaning,
        ),
        change7d: integerBetween(-span, span).describe("Gain since the oldest point of the history."),
        percentile: integerBetween(0, 100).describe(
          "Protocols with a lower score, over all others, in percent; halves rounded up.",
        ),
      }),
    )
    .refine((dimensions) => dimensions.map(({ key }) => key).join() === protocolDimensionKeys.join()),
});
export type ScoreDimensions = z.infer<typeof ScoreDimensions>;

/** A page of the archive, members in the order of INTERFACE 2.7. `nextCursor` is null exactly when no matching market follows. */
export const MarketPage = z.strictObject({
  version: z.literal(feedVersion),
  tier: z.string().describe("The caller's plan; enterprise for Aegis."),
  count: Count.max(paging.maxPageSize).describe("Markets on this page."),
  total: Count.describe("Markets that match the filters, exactly."),
  page: z.int().min(1).describe("Number of this page."),
  pageSize: z.int().min(1).max(paging.maxPageSize).describe("Page size in effect."),
  nextCursor: z
    .string()
    .nullable()
    .describe("Cursor of the next page; null when no matching market follows."),
  timestamp: Timestamp.describe("Time of the response."),
  markets: z.array(HistoricalMarket),
});
export type MarketPage = z.infer<typeof MarketPage>;

/** GET /api/v1/usage. `reset` is when counting starts anew, in epoch seconds, as in X-RateLimit-Reset. */
export const Usage = z.strictObject({
  plan: z.enum(planNames),
  limit: Count.describe("Units a UTC day."),
  remaining: Count.describe("Units left today."),
  reset: Count.describe("When counting starts anew, in epoch seconds."),
});
export type Usage = z.infer<typeof Usage>;

/** GET /api/v1/status. `stale` means that no publish run succeeded for longer than STALE_AFTER_SECONDS. */
export const Status = z.strictObject({
  snapshotId: Digest,
  commit: z.int().min(1),
  publishedAt: Timestamp.describe("When this snapshot was published."),
  checkedAt: Timestamp.describe("When a publish run succeeded last, also one with nothing new."),
  ageSeconds: Count.describe("Seconds since checkedAt."),
  stale: z.boolean().describe("Whether that is longer ago than the operator allows."),
  counts: z.strictObject({ markets: Count, protocols: Count }),
  newestResolvedAt: Timestamp,
  newestUpdatedAt: Timestamp,
});
export type Status = z.infer<typeof Status>;

/** GET /openapi.json. */
export const ApiDescription = z.looseObject({ openapi: z.string() });

/** GET /healthz. */
export const Alive = z.strictObject({ status: z.literal("alive") });
export type Alive = z.infer<typeof Alive>;

/** GET /readyz, when the process can serve. */
export const Ready = z.strictObject({
  status: z.literal("ready"),
  snapshotId: Digest,
  commit: z.int().min(1),
  ageSeconds: Count,
  stale: z.boolean(),
  pollAgeSeconds: Count.describe(
    "Seconds since the process last looked into the store and succeeded, for a snapshot or for keys, whichever is longer.",
  ),
  quotaStore: z.enum(["ok", "failing"]),
});
export type Ready = z.infer<typeof Ready>;
