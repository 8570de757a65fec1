import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { historyDays, type ScoreDimensions, type ScoreHistory } from "../../../schemas/envelopes.ts";
import { filterValuesOf } from "../../../schemas/filters.ts";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import { type HistoricalMarket, listEntryOf, type ProtocolScore } from "../../../schemas/records.ts";
import { forgeScaleNumber, forgeTiers } from "../../../schemas/versions.ts";
import { compareKeys, type MarketKey } from "../../../snapshots/format/market-line.ts";
import type { PublishReport } from "../../../snapshots/publish/commit-snapshot.ts";
import type { PublishOptions } from "../../../snapshots/publish/publish.ts";
import type { KeyRange, MarketsFile, ScoreRow, Sources } from "../../../snapshots/sources/sources.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishFreely } from "./publish-freely.ts";

/** Slugs of the test snapshot; the last one is a member of every plain object. */
export const slugs = ["aave", "curve.fi", "lido-dao", "constructor"] as const;

/** Publishes a small archive of `markets` markets and the slugs above; another `bri` is another snapshot. */
export async function publishArchive(
  storage: Storage,
  {
    markets = 40,
    bri = 700,
    ...named
  }: { markets?: number; bri?: number } & Partial<Pick<PublishOptions, "names" | "now" | "signing">> = {},
): Promise<PublishReport> {
  return publishRecords(storage, marketsOf(0, markets), bri, named);
}

/** Publishes these records, in whatever order they come, and the slugs above. */
export async function publishRecords(
  storage: Storage,
  markets: readonly HistoricalMarket[],
  bri = 700,
  choices: Partial<Omit<PublishOptions, "storage" | "temporaryDirectory">> = {},
): Promise<PublishReport> {
  const temporaryDirectory = await mkdtemp(join(tmpdir(), "prs-publish-"));
  const now = () => new Date("2026-03-01T00:00:00.000Z");
  const options = {
    storage,
    temporaryDirectory,
    now,
    sources: async () => sourcesOf(markets, bri),
    ...choices,
  };
  try {
    return await publishFreely(options);
  } finally {
    await rm(temporaryDirectory, { recursive: true });
  }
}

/** Sources of these records, in whatever order they come, and of the slugs above. */
export function sourcesOf(rows: readonly HistoricalMarket[], bri: number): Sources {
  return {
    files: [sourceFileOf(rows)],
    scoreFiles: [],
    marketCount: rows.length,
    warnings: [],
    rowDigests: "test",
    cutPoints: async () => [],
    async *keys() {
      yield inArchiveOrder(rows)
        .toReversed()
        .map((row) => ({ ...keyOf(row), file: 1 }));
    },
    async *markets(_, range) {
      yield rows
        .filter((row) => isIn(range, keyOf(row)))
        .map((row) => ({
          id: row.id,
          resolvedAt: Date.parse(row.resolvedAt),
          digest: createHash("sha256").update(JSON.stringify(row)).digest().readBigUInt64LE(),
          file: 1,
          line: Buffer.from(JSON.stringify(row)),
          values: filterValuesOf(row),
        }));
    },
    scores: async () => scoreRows(bri),
    async close() {},
  };
}

const keyOf = ({ id, resolvedAt }: HistoricalMarket) => ({ id, resolvedAt: Date.parse(resolvedAt) });

/** Whether a key is in a range. */
export function isIn({ from, before }: Partial<KeyRange> = {}, key: MarketKey): boolean {
  return (!from || compareKeys(key, from) >= 0) && (!before || compareKeys(key, before) < 0);
}

/** A file of source rows. */
export function sourceFileOf(rows: unknown): MarketsFile {
  const bytes = Buffer.from(JSON.stringify(rows));
  return { name: "markets.parquet", hash: sha256(bytes), bytes: bytes.length, extra: [], unchanged: false };
}

/** The current scores of the slugs above. */
export function scoreRows(bri: number): ScoreRow[] {
  return scoreRowsOf(slugs.map((slug) => score(slug, bri)));
}

/** The rows of these records, sorted by slug as sources give them. */
export function scoreRowsOf(records: readonly ProtocolScore[]): ScoreRow[] {
  const bySlug = records.toSorted((a, b) => (a.slug < b.slug ? -1 : 1));
  return bySlug.map((record) => {
    const history = JSON.stringify(historyOf(record));
    return {
      entry: listEntryOf(record),
      json: JSON.stringify(record),
      history,
      dimensions: JSON.stringify(detailOf(record)),
    };
  });
}

/** A market of a test's archive; every hour has one. */
export function market(index: number): HistoricalMarket {
  const number = String(index).padStart(12, "0");
  return {
    id: `00000000-0000-4000-8000-${number}`,
    slug: `market-${index}`,
    question: `Will it happen before day ${index}?`,
    category: index % 2 ? "Crypto" : "Politics",
    composite: 300 + ((index * 37) % 701),
    tier: forgeTiers[index % forgeTiers.length]!,
    status: "resolved",
    resolvedOutcome: index % 3 ? "Yes" : "No",
    resolvedAt: new Date(Date.parse("2025-01-01T00:00:00.000Z") + index * 3_600_000).toISOString(),
    resolutionSource: "https://example.org/resolution",
    disputed: index % 5 === 0,
    topRiskDriver: "informed flow",
    flaggedCount: index % 4,
    formulaVersion: "bri-pm-v1",
    weightVersion: "bri-pm-w-v1",
    dimensions: marketDimensionKeys.map((key, place) => ({
      key,
      name: key,
      score: (index * 7 + place * 11) % 101,
      weight: 0.25,
      description: "Described at some length, so that gzip has something to do.",
      evidence: [],
      references: [],
      computation: { baseline: 50, raises: [], lowers: [] },
    })),
  };
}

/**
 * Records `first` to `last` (exclusive) in the archive's order. Up to nine of them share a time, ids are in no relation
 * to it, and a record stays the same whatever others there are.
 */
export function recordsOf(first: number, last: number): HistoricalMarket[] {
  return inArchiveOrder(Array.from({ length: last - first }, (_, n) => record(first + n)));
}

/** Markets `first` to `last` (exclusive) as `market` makes them, in the order of their numbers. */
export function marketsOf(first: number, last: number): HistoricalMarket[] {
  return Array.from({ length: last - first }, (_, n) => market(first + n));
}

function record(index: number): HistoricalMarket {
  const hash = sha256(`market ${index}`);
  const id = hash.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5");
  return { ...market(index), id, resolvedAt: market(Math.floor(index / (1 + (index % 9)))).resolvedAt };
}

/** INTERFACE 4.5: newest first; the highest id first among markets of one time. */
export function inArchiveOrder(markets: readonly HistoricalMarket[]): HistoricalMarket[] {
  const key = ({ resolvedAt, id }: HistoricalMarket) => `${resolvedAt} ${id}`;
  return markets.toSorted((a, b) => (key(a) < key(b) ? 1 : -1));
}

/** The records of an archive that stand strictly after a time and id in its order. */
export function recordsAfter(
  markets: readonly HistoricalMarket[],
  after: Pick<HistoricalMarket, "resolvedAt" | "id">,
): HistoricalMarket[] {
  return markets.filter(({ resolvedAt, id }) => `${resolvedAt} ${id}` < `${after.resolvedAt} ${after.id}`);
}

/** A protocol's record in a test's archive. */
export function score(slug: string, bri: number): ProtocolScore {
  const dimensions = Object.fromEntries(protocolDimensionKeys.map((key, place) => [key, place * 8]));
  return {
    slug,
    bri,
    forgeScale: "MITHRIL",
    forgeScaleNum: forgeScaleNumber("MITHRIL"),
    confidence: 90,
    delta: -3,
    updatedAt: "2026-02-02T08:21:59.229Z",
    evidenceHash: `sha256:${slug}`,
    dimensions: dimensions as ProtocolScore["dimensions"],
    cascade: { blastRadius: 3, upstreamDeps: 2 },
    findings: { critical: 0, high: 1, medium: 2 },
    metadata: { category: "Lending", chain: "Ethereum", tvl: "$1.2B", contracts: 12, zFactor: 1.5 },
  };
}

/** Two points: the record's, and one the day before. */
function historyOf(record: ProtocolScore): ScoreHistory {
  const { slug, updatedAt, bri, forgeScale, forgeScaleNum, confidence, delta } = record;
  const last = { updatedAt, bri, forgeScale, forgeScaleNum, confidence, delta };
  const first = { ...last, updatedAt: "2026-02-01T08:20:00.000Z", bri: bri - delta };
  return { slug, days: historyDays, count: 2, points: [first, last] };
}

/** As if every score but 0 had been one less the day before; all protocols have the same. */
function detailOf({ slug, updatedAt, evidenceHash, dimensions }: ProtocolScore): ScoreDimensions {
  const detail = protocolDimensionKeys.map((key) => {
    const score = dimensions[key];
    return { key, score, change7d: Math.min(score, 1), percentile: 0 };
  });
  return { slug, updatedAt, evidenceHash, dimensions: detail };
}
