import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { historyDays, ScoreList } from "../../../schemas/envelopes.ts";
import type { ScoreChange } from "../../../schemas/feed.ts";
import { filterValuesOf } from "../../../schemas/filters.ts";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../schemas/records.ts";
import type { ScoreRow, Sources } from "../../../snapshots/sources/sources.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { market, score, sourceFileOf } from "./proxy-archive.ts";
import { publishFreely } from "./publish-freely.ts";

/** The scores of one snapshot: the record of each slug. */
export type Book = ReadonlyMap<string, ProtocolScore>;

/** A record with a bri, and whatever else is to differ. */
export const scoreOf = (slug: string, bri: number, changes: Partial<ProtocolScore> = {}): ProtocolScore => ({
  ...score(slug, bri),
  ...changes,
});

/** The scores that have these bri. */
export const bookOf = (bris: Readonly<Record<string, number>>): Book =>
  new Map(Object.entries(bris).map(([slug, bri]) => [slug, scoreOf(slug, bri)]));

/** How a publish of these tests may differ. */
export interface BookChoices {
  markets?: number;
  at?: Date;
}

/** Publishes scores beside a few markets, also over a rollback, and returns the id of the snapshot. */
export async function publishBook(
  storage: Storage,
  book: Book,
  { markets = 3, at = new Date("2026-03-01T00:00:00.000Z") }: BookChoices = {},
): Promise<string> {
  const temporaryDirectory = await mkdtemp(join(tmpdir(), "prs-publish-"));
  const sources = async () => sourcesOf(book, markets);
  try {
    const options = { storage, temporaryDirectory, now: () => at, resume: true, sources };
    return (await publishFreely(options)).snapshotId;
  } finally {
    await rm(temporaryDirectory, { recursive: true });
  }
}

function sourcesOf(book: Book, markets: number): Sources {
  return {
    files: [sourceFileOf(markets)],
    scoreFiles: [],
    marketCount: markets,
    warnings: [],
    rowDigests: "test",
    cutPoints: async () => [],
    async *markets() {
      const rows = Array.from({ length: markets }, (_, index) => market(index));
      yield rows.map((row, index) => ({
        id: row.id,
        resolvedAt: Date.parse(row.resolvedAt),
        digest: BigInt(index + 1),
        file: 1,
        json: Buffer.from(JSON.stringify(row)),
        values: filterValuesOf(row),
      }));
    },
    scores: async () => [...book.keys()].sort().map((slug) => rowOf(book.get(slug)!)),
    async close() {},
  };
}

function rowOf(record: ProtocolScore): ScoreRow {
  const { slug, evidenceHash, updatedAt } = record;
  const { bri, forgeScale, forgeScaleNum, confidence, delta } = record;
  const points = [{ updatedAt, bri, forgeScale, forgeScaleNum, confidence, delta }];
  const history = { slug, days: historyDays, count: 1, points };
  const dimensions = protocolDimensionKeys.map((key) => {
    return { key, score: record.dimensions[key], change7d: 0, percentile: 0 };
  });
  return {
    entry: entryOf(record),
    json: JSON.stringify(record),
    history: JSON.stringify(history),
    dimensions: JSON.stringify({ slug, updatedAt, evidenceHash, dimensions }),
  };
}

function entryOf(record: ProtocolScore): ScoreListEntry {
  const { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, metadata } = record;
  const { category, chain, tvl } = metadata;
  return { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, category, chain, tvl };
}

/** What the feed has to tell of the newest commit, if the one before had other scores: compared record by record. */
export async function changesBetween(storage: Storage, before: Book, after: Book): Promise<ScoreChange[]> {
  const { snapshotId, publishedAt } = (await newestCommit(storage))!;
  const slugs = [...new Set([...before.keys(), ...after.keys()])].sort();
  const changes: ScoreChange[] = [];
  for (const slug of slugs) {
    const [then, now] = [before.get(slug), after.get(slug)];
    if (JSON.stringify(then) === JSON.stringify(now)) continue;
    const [previous, current] = [then ? entryOf(then) : null, now ? entryOf(now) : null];
    const type = previous ? (current ? "score.changed" : "score.removed") : "score.added";
    changes.push({ type, slug, snapshotId, publishedAt, previous, current } as ScoreChange);
  }
  return changes;
}

/** The rows of GET /scores that a store shows, by slug. */
export async function rowsShown(storage: Storage): Promise<Map<string, ScoreListEntry>> {
  const { scores } = ScoreList.parse(JSON.parse(String(await storage.get(layout.stableScoreList))));
  return new Map(scores.map((row) => [row.slug, row]));
}
