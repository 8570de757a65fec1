import { z } from "zod";
import { paging } from "./filters.ts";
import { planNames } from "./plans.ts";
import { Count, Digest, Timestamp } from "./primitives.ts";
import { HistoricalMarket, ScoreListEntry } from "./records.ts";

/** Version of the archive feed (SPEC 9); raised when a market record's shape changes. */
export const feedVersion = "bri-pm-v1";

/** GET /api/v1/scores: bri descending, then slug. */
export const ScoreList = z.strictObject({
  count: Count,
  updatedAt: Timestamp,
  scores: z.array(ScoreListEntry),
});
export type ScoreList = z.infer<typeof ScoreList>;

/** SPEC 2.7, in its order. `nextCursor` is null exactly when no matching market follows. */
export const MarketPage = z.strictObject({
  version: z.literal(feedVersion),
  tier: z.string(),
  count: Count.max(paging.maxPageSize),
  total: Count,
  page: z.int().min(1),
  pageSize: z.int().min(1).max(paging.maxPageSize),
  nextCursor: z.string().nullable(),
  timestamp: Timestamp,
  markets: z.array(HistoricalMarket),
});
export type MarketPage = z.infer<typeof MarketPage>;

/** GET /api/v1/usage. `reset` is when counting starts anew, in epoch seconds, as in X-RateLimit-Reset. */
export const Usage = z.strictObject({
  plan: z.enum(planNames),
  limit: Count,
  remaining: Count,
  reset: Count,
});
export type Usage = z.infer<typeof Usage>;

/** GET /api/v1/status. `stale` means that no publish run succeeded for longer than STALE_AFTER_SECONDS. */
export const Status = z.strictObject({
  snapshotId: Digest,
  commit: z.int().min(1),
  publishedAt: Timestamp,
  checkedAt: Timestamp,
  ageSeconds: Count,
  stale: z.boolean(),
  counts: z.strictObject({ markets: Count, protocols: Count }),
  newestResolvedAt: Timestamp,
  newestUpdatedAt: Timestamp,
});
export type Status = z.infer<typeof Status>;
