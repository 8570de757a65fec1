import { z } from "zod";
import { type ErrorCode, errors, isPublic } from "./errors.ts";
import { filterFields, type IntegerName, type LabelName, paging, type RangeName } from "./filters.ts";
import { meanings } from "./meanings.ts";
import { planNames } from "./plans.ts";
import { protocolDimensionKeys } from "./protocol.ts";
import {
  Count,
  Digest,
  ExportName,
  HistoricalMarket,
  integerBetween,
  Nearest,
  ProtocolScore,
  ProtocolSlug,
  ScoreListEntry,
  ScorePoint,
  Timestamp,
} from "./records.ts";
import { bounds, type ForgeTier, feedVersions, forgeTiers } from "./versions.ts";

/** Answer of GET /api/v1/scores (INTERFACE 4.1). */
export const ScoreList = z.strictObject({
  count: Count,
  updatedAt: Timestamp.describe("Time of the newest score."),
  scores: z.array(ScoreListEntry).describe("By bri, highest first, then by slug."),
});
export type ScoreList = z.infer<typeof ScoreList>;

/** The most slugs of a batch (INTERFACE 4.3). */
export const maxBatchSlugs = 50;

/** Body of POST /api/v1/scores/batch. */
export const BatchRequest = z
  .strictObject({
    slugs: z
      .array(z.string())
      .max(maxBatchSlugs)
      .describe("Protocol slugs; one that is repeated is answered once."),
  })
  .describe('a JSON object {"slugs": ["…", …]} and nothing else');
export type BatchRequest = z.infer<typeof BatchRequest>;

/** Answer of POST /api/v1/scores/batch. Both lists are in the order asked, each slug once. */
export const ScoreBatch = z.strictObject({
  count: Count,
  scores: z.array(ProtocolScore).describe("In the order asked."),
  notFound: z.array(z.string()).describe("Slugs that are not scored, in the order asked."),
});
export type ScoreBatch = z.infer<typeof ScoreBatch>;

/** How many days of 24 hours a score history goes back from the protocol's newest point. Both ends are included. */
export const historyDays = 7;

/** Answer of GET /api/v1/scores/:slug/history (INTERFACE 4.4). */
export const ScoreHistory = z.strictObject({
  slug: ProtocolSlug,
  days: z.literal(historyDays),
  count: Count,
  points: z.array(ScorePoint).min(1).describe("Oldest first."),
});
export type ScoreHistory = z.infer<typeof ScoreHistory>;

const span = bounds.score.max - bounds.score.min;

/** Answer of GET /api/v1/scores/:slug/dimensions (INTERFACE 4.4): every key once, in the order of INTERFACE 2.2. */
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

/** A page of the archive, members in the order of INTERFACE 2.7. */
export const MarketPage = z.strictObject({
  version: z.enum(feedVersions).describe("Version of the feed that the markets are of."),
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

const tally = {
  count: Count.describe("Markets."),
  disputed: Count.describe("Disputed ones among them."),
};

/** Markets by a text, by tier, or by whether they are disputed. */
export const LabelFacet = z.strictObject({
  distinct: Count.describe("How many values occur."),
  buckets: z
    .array(z.strictObject({ value: z.string().describe("As published."), ...tally }))
    .describe("By count, highest first, then by value."),
  other: z.strictObject(tally).describe("All values that are not listed, together."),
});
export type LabelFacet = z.infer<typeof LabelFacet>;

export const ScoreFacet = z.strictObject({
  width: Count,
  buckets: z
    .array(z.strictObject({ from: Count, to: Count, ...tally }))
    .describe("From the lowest up, empty ones included; from and to are inclusive."),
});
export type ScoreFacet = z.infer<typeof ScoreFacet>;

/** Markets by the UTC month of their resolution. */
export const MonthFacet = z.strictObject({
  buckets: z
    .array(z.strictObject({ value: z.string().regex(/^\d{4}-\d{2}$/), ...tally }))
    .describe("From the oldest month that has markets to the newest, empty ones between them included."),
});
export type MonthFacet = z.infer<typeof MonthFacet>;

const fieldFacets = filterFields.map((row) => [
  row.field,
  (row.kind === "label" || row.values ? LabelFacet : ScoreFacet).optional(),
]);

/** Answer of GET /api/v1/markets/facets (INTERFACE 4.7). Every figure is exact. */
export const MarketFacets = z.strictObject({
  snapshotId: Digest,
  total: Count.describe("Markets that match the filters. The buckets of a facet add up to it."),
  facets: z
    .strictObject({
      ...(Object.fromEntries(fieldFacets) as Record<
        Exclude<LabelName | IntegerName, RangeName>,
        z.ZodOptional<typeof LabelFacet>
      > &
        Record<RangeName, z.ZodOptional<typeof ScoreFacet>>),
      month: MonthFacet.optional(),
    })
    .describe("Those asked for."),
});
export type MarketFacets = z.infer<typeof MarketFacets>;

/** A line of GET /api/v1/markets/changes. */
export const ChangeLine = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("delete"), id: HistoricalMarket.shape.id }),
  z.strictObject({ op: z.literal("put"), market: HistoricalMarket }),
]);

/** The position of a node of a tree among its siblings, and the hashes that lead from it to their head. */
export const ProofLevel = z.strictObject({
  index: Count.describe("Which of the children, from the oldest, counted from 0."),
  size: z.int().min(1).describe("Number of children."),
  markets: z.int().min(1).describe("Markets below all of them."),
  path: z.array(Digest).describe("Hashes that lead from the child to the head, from the bottom up."),
});

const proofOfCommit = {
  snapshotId: Digest,
  commit: z.int().min(1),
  entry: z.string().describe("The commit's line in the public log, byte for byte."),
  checkpoint: z
    .string()
    .nullable()
    .describe("The newest signed checkpoint of the public log; null when nobody signed it, or not yet."),
};
const Inclusion = z
  .array(Digest)
  .nullable()
  .describe(
    "Hashes that lead from the entry, which is number `commit`, to the root that the checkpoint names, " +
      "from the bottom up; null without a checkpoint.",
  );

const proofOfMarket = {
  page: ProofLevel.describe("The market among those of its page."),
  segment: ProofLevel.describe("The page among those of its segment."),
  archive: ProofLevel.describe("The segment among those of the archive."),
};

/**
 * Answer of GET /api/v1/markets/:id/proof (INTERFACE 4.9): a market's text, and what leads from it to the entry of its
 * commit in the public log, and from there to a signature. snapshots/SPEC.md, "Proofs", says how to check it.
 */
export const MarketProof = z.strictObject({
  market: z.string().describe("The market's JSON text, byte for byte as in the archive."),
  ...proofOfCommit,
  proof: z.strictObject({ ...proofOfMarket, inclusion: Inclusion }),
});
export type MarketProof = z.infer<typeof MarketProof>;

/** Answer of GET /api/v1/scores/:slug/proof: as MarketProof, for a protocol's score among the lines of the scores. */
export const ScoreProof = z.strictObject({
  score: z.string().describe("The score's JSON text, byte for byte as GET /api/v1/scores/:slug gives it."),
  ...proofOfCommit,
  proof: z.strictObject({
    score: ProofLevel.omit({ markets: true }).describe("The score's line among those of all scores."),
    inclusion: Inclusion,
  }),
});
export type ScoreProof = z.infer<typeof ScoreProof>;

/** What leads from the root of an index to a signature. */
const proofOfIndex = {
  ...proofOfCommit,
  inclusion: Inclusion,
  indexRoot: Digest.describe("Root of the index; `entry` has it too."),
  markets: Count.describe("Markets of the archive; `entry` has the number too."),
};

/**
 * Answer of GET /api/v1/markets/index (INTERFACE 4.12): the parts of an archive's index. How the root follows from them
 * stands in snapshots/SPEC.md, "Index root".
 */
export const MarketIndex = z.strictObject({
  ...proofOfIndex,
  segments: z
    .array(
      z.strictObject({
        markets: z.int().min(1),
        header: z
          .strictObject({ hash: Digest, bytes: Count })
          .describe("The header, which names the other sections: its SHA-256, and its bytes."),
        ids: z
          .strictObject({ hash: Digest, bytes: Count })
          .describe("The section of ids: its root, and its bytes."),
      }),
    )
    .describe("From the oldest markets to the newest."),
});
export type MarketIndex = z.infer<typeof MarketIndex>;

/**
 * Answer of GET /api/v1/markets/index/absence (INTERFACE 4.12): the proof that no market of an archive has an id. Each
 * segment shows which hashes of ids stand where the id's own would be.
 */
export const MarketAbsence = z.strictObject({
  ...proofOfIndex,
  segments: z
    .array(
      z.strictObject({
        markets: z.int().min(1),
        header: Digest.describe("SHA-256 of the segment's header."),
        ids: z.strictObject({
          bytes: Count.describe("Bytes of the section of ids."),
          size: z.int().min(1).describe("Number of its chunks."),
          chunks: z
            .array(
              z.strictObject({
                index: Count.describe("Which of the chunks, counted from 0."),
                path: z
                  .array(Digest)
                  .describe("Hashes that lead from the chunk to the head, from the bottom up."),
                content: z.base64().describe("The bytes of the chunk."),
              }),
            )
            .min(1)
            .describe("Those that hold the hashes next to the id's own, on both sides, and equal ones."),
        }),
      }),
    )
    .describe("From the oldest markets to the newest."),
  others: z
    .array(z.strictObject({ market: MarketProof.shape.market, ...proofOfMarket }))
    .describe(
      "The markets whose ids have the same first 32 bits of SHA-256, each with what leads to the archive's root.",
    ),
});
export type MarketAbsence = z.infer<typeof MarketAbsence>;

/** Answer of GET /api/v1/markets/index/:hash and of /sections: bytes, not JSON. */
export const IndexBytes = z.string().meta({ contentMediaType: "application/octet-stream" });

export const maxSnapshotsListed = 500;

/** Answer of GET /api/v1/snapshots (INTERFACE 4.10). */
export const SnapshotList = z.strictObject({
  count: Count,
  snapshots: z
    .array(
      z.strictObject({
        snapshotId: Digest,
        commit: z.int().min(1),
        publishedAt: Timestamp,
        supersededAt: Timestamp.nullable().describe(
          "When the next commit was published; null for the current one.",
        ),
        counts: z.strictObject({ markets: Count, protocols: Count }),
        archiveRoot: Digest.describe("Root of the tree over the archive's markets."),
      }),
    )
    .max(maxSnapshotsListed)
    .describe("Newest first."),
});
export type SnapshotList = z.infer<typeof SnapshotList>;

/** Answer of GET /api/v1/markets/exports (INTERFACE 4.11). */
export const ExportList = z.strictObject({
  count: Count,
  exports: z
    .array(
      z.strictObject({
        snapshotId: Digest,
        publishedAt: Timestamp.describe("When the snapshot was published."),
        rows: Count,
        bytes: Count,
        format: z.literal("parquet"),
        archiveRoot: Digest.describe("Root of the tree over the archive's markets."),
        files: z
          .array(
            z.strictObject({
              name: ExportName,
              url: z.string().describe("Path of the file on this service."),
              rows: Count,
              bytes: Count,
              sha256: Digest,
            }),
          )
          .describe("From the newest markets to the oldest."),
      }),
    )
    .describe("Newest first."),
});
export type ExportList = z.infer<typeof ExportList>;

/** Answer of GET /api/v1/markets/exports/:snapshotId/:name: bytes, not JSON. */
export const ExportBytes = z.string().meta({ contentMediaType: "application/vnd.apache.parquet" });

/** Answer of GET /api/v1/usage. `reset` is the same as X-RateLimit-Reset. */
export const Usage = z.strictObject({
  plan: z.enum(planNames),
  limit: Count.describe("Units a UTC day."),
  remaining: Count.describe("Units left today."),
  reset: Count.describe("When counting starts anew, in epoch seconds."),
});
export type Usage = z.infer<typeof Usage>;

export const TierCounts = z.strictObject(
  Object.fromEntries(forgeTiers.map((tier) => [tier, Count])) as Record<ForgeTier, typeof Count>,
);
export type TierCounts = z.infer<typeof TierCounts>;

/** Answer of GET /api/v1/status. `stale`: the newest successful publish run is older than STALE_AFTER_SECONDS. */
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
  marketsByTier: TierCounts.optional().describe(
    "Markets of the archive by tier; left out while its index is damaged.",
  ),
});
export type Status = z.infer<typeof Status>;

/** Answer of GET /api/v1/checkpoint: a text, not JSON. */
export const Checkpoint = z
  .string()
  .describe(
    "A signed note (c2sp.org/tlog-checkpoint, Ed25519): the log's origin, the number of commits, the root " +
      "of the tree over their entries in base64, an empty line, and the signature.",
  );

/** Answer of GET /api/v1/log/…: bytes, or the text of a checkpoint. */
export const LogFile = z.string().meta({ contentMediaType: "application/octet-stream" });

export const ApiDescription = z.looseObject({ openapi: z.string() });

export const Alive = z.strictObject({ status: z.literal("alive") });
export type Alive = z.infer<typeof Alive>;

/** Answer of GET /readyz while the process can serve. */
export const Ready = z.strictObject({
  status: z.literal("ready"),
  snapshotId: Digest,
  commit: z.int().min(1),
  ageSeconds: Count,
  stale: z.boolean(),
  pollAgeSeconds: Count.describe(
    "Seconds since the process last looked into the store and succeeded, for a snapshot or for keys, " +
      "whichever is longer.",
  ),
  quotaStore: z.enum(["ok", "failing"]),
  counting: z
    .strictObject({
      store: z
        .enum(["sqlite", "redis", "sentinel", "cluster"])
        .describe("A file, one Redis server, the primary that Redis Sentinel names, or a Redis Cluster."),
      onFailure: z
        .enum(["local", "open", "closed"])
        .describe("What happens while counters cannot be reached."),
      replica: z
        .enum(["required", "optional", "unknown"])
        .nullable()
        .describe(
          "Whether every primary of Redis takes units only while a replica follows it (min-replicas-to-write); " +
            "`unknown` where INFO does not tell, null for a file.",
        ),
    })
    .describe("How requests are counted, and so what a failure of the quota store loses."),
  heldBack: z
    .string()
    .nullable()
    .describe(
      "Why the newest that the store has is not shown whole, such as a damaged object or a checkpoint that too " +
        "few witnesses cosigned; null when it is.",
    ),
});
export type Ready = z.infer<typeof Ready>;

export const errorCodes = Object.keys(errors).filter(isPublic);

/** Body of every error on every path, `application/problem+json` (RFC 9457, INTERFACE 7). */
export const Problem = z.strictObject({
  type: z.string().describe("urn:prs:error: and the code."),
  title: z.string().describe("What the code means."),
  status: z.int().min(400).max(599),
  code: z
    .enum(errorCodes)
    .describe(errorCodes.map((code) => `${code} (${errors[code].status}): ${errors[code].title}.`).join(" ")),
  detail: z.string().describe("What is wrong with this request, and what to do about it."),
  requestId: z.string().describe("As in X-Request-Id."),
  parameter: z.string().optional().describe("The query parameter that was refused."),
  nearest: Nearest.optional().describe(
    "Only with SNAPSHOT_EXPIRED: the snapshots that can be read which were published before and after that one.",
  ),
  resumeCursor: z
    .string()
    .nullable()
    .optional()
    .describe(
      "Only with CURSOR_EXPIRED: cursor of the same place in the current snapshot; null when nothing follows.",
    ),
});
export type Problem = z.infer<typeof Problem>;

/** A problem of a code, with what is said of one request. */
export function makeProblem(
  code: ErrorCode,
  members: Omit<Problem, "type" | "title" | "status" | "code">,
): Problem {
  const { status, title } = errors[code];
  const { detail, requestId, ...extras } = members;
  return { type: `urn:prs:error:${code}`, title, status, code, detail, requestId, ...extras };
}
