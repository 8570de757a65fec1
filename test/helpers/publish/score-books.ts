import { listEntryOf, type ProtocolScore } from "../../../schemas/records.ts";
import type { ScoreChange } from "../../../schemas/rooms/feed.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { marketsOf, publishRecords, score, scoreRowsOf, sourcesOf } from "./records.ts";

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
  const rows = marketsOf(0, markets);
  const scores = async () => scoreRowsOf([...book.values()]);
  const sources = async () => ({ ...sourcesOf(rows, 0), scores });
  const { snapshotId } = await publishRecords(storage, rows, 0, { now: () => at, resume: true, sources });
  return snapshotId;
}

/** What the feed has to tell of the newest commit, if the one before had other scores: compared record by record. */
export async function changesBetween(storage: Storage, before: Book, after: Book): Promise<ScoreChange[]> {
  const { snapshotId, publishedAt } = (await newestCommit(storage))!.entry;
  const slugs = [...new Set([...before.keys(), ...after.keys()])].sort();
  const changes: ScoreChange[] = [];
  for (const slug of slugs) {
    const [then, now] = [before.get(slug), after.get(slug)];
    if (JSON.stringify(then) === JSON.stringify(now)) continue;
    const [previous, current] = [then ? listEntryOf(then) : null, now ? listEntryOf(now) : null];
    const type = previous ? (current ? "score.changed" : "score.removed") : "score.added";
    changes.push({ type, slug, snapshotId, publishedAt, previous, current } as ScoreChange);
  }
  return changes;
}
