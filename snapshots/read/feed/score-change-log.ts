import { ScoreList } from "../../../schemas/envelopes.ts";
import type { ScoreListEntry } from "../../../schemas/records.ts";
import type { FeedMessage, ScoreChange } from "../../../schemas/rooms/feed.ts";
import type { NamedObject } from "../../../schemas/store/stored-objects.ts";
import { MissingObjectError, unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { parseObject } from "../../store/objects.ts";
import { awaitBudget, type Budget, budgets, Memo } from "../budgets.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";

/** A protocol in one snapshot: its row in the list, and its record, whose hash changes with any field. */
interface Scored {
  row: ScoreListEntry;
  record: NamedObject;
}

/** A reader begins after this commit. `gone`: it asked for one that is not there any more. */
export interface ReaderStart {
  position: number;
  gone: boolean;
  /** The scores of all snapshots that come after the commit now: at most this many changes have to be sent. */
  scores: number;
}

/** What happened from one commit to `commit`, the next one whose snapshot can be read. */
export interface Step {
  commit: LogEntry;
  /** Ordered by slug. */
  changes: readonly ScoreChange[];
}

/**
 * The score changes between successive commits. They follow from the commit log alone, so every process computes the
 * same changes, whenever it was started. Commits that were collected are skipped.
 */
export function scoreChangeLog(catalog: Catalog, budget: Budget = budgets.scoreChanges) {
  // An entry without changes counts too.
  const steps = new Memo<Step>(budget, ({ changes }) => 1 + changes.length);

  /** The number of the commit that the catalog serves; 0 before the first one. */
  function newest(): number {
    return catalog.current()?.commit.commit ?? 0;
  }

  /** For a reader that has seen the snapshot `since`; one without it sees the current snapshot now. */
  async function start(since: string | undefined): Promise<ReaderStart> {
    const { commit } = catalog.requireCurrent();
    const seen = since === undefined ? commit : await commitOf(since);
    const { commit: position } = seen ?? commit;
    const later =
      position === commit.commit
        ? []
        : (await catalog.log.readable()).filter((each) => each.commit > position);
    const scores = later.reduce((sum, { counts }) => sum + counts.protocols, 0);
    return { position, gone: seen === undefined, scores };
  }

  async function entry(number: number): Promise<LogEntry> {
    const commit = await catalog.log.commit(number);
    if (!commit) throw new MissingObjectError(layout.commit(number));
    return commit;
  }

  /** Takes any commit but the newest. Throws MissingObjectError when its snapshot was collected. */
  async function step(number: number): Promise<Step> {
    const make = () => steps.get(String(number), () => stepFrom(number));
    const step = await make();
    // No step could go on from a commit that was collected since.
    if (!(await isGone(step.commit))) return step;
    steps.forget(String(number));
    return make();
  }

  /**
   * The newest commit with this snapshot id that is still kept; undefined when none is. Looks into the store for one
   * that this process has not loaded yet.
   */
  async function commitOf(snapshotId: string): Promise<LogEntry | undefined> {
    const { log } = catalog;
    const isNamed = (entry: LogEntry) => entry.snapshotId === snapshotId;
    const newest = await log.newestWith(isNamed);
    if (!newest || (await unless(MissingObjectError, () => scoresOf(newest)))) return newest;
    return (await log.readable()).find(isNamed);
  }

  /** False also where the store cannot tell. */
  async function isGone(commit: LogEntry): Promise<boolean> {
    if (await catalog.isReadable(commit)) return false;
    return catalog.listed(commit).then(
      () => false,
      (error) => error instanceof MissingObjectError,
    );
  }

  async function stepFrom(number: number): Promise<Step> {
    const before = await entry(number);
    const then = await scoresOf(before);
    const { commit, now } = await nextKept(number);
    if (commit.snapshotId === before.snapshotId) return { commit, changes: [] };
    const { snapshotId, publishedAt } = commit;
    const changes: ScoreChange[] = [];
    for (const slug of [...new Set([...now.keys(), ...then.keys()])].sort()) {
      const [to, from] = [now.get(slug), then.get(slug)];
      if (to?.record.hash === from?.record.hash) continue;
      const [current, previous] = [to?.row, from?.row];
      const common = { slug, snapshotId, publishedAt };
      if (current && previous) changes.push({ type: "score.changed", ...common, previous, current });
      else if (current) changes.push({ type: "score.added", ...common, previous: null, current });
      else if (previous) changes.push({ type: "score.removed", ...common, previous, current: null });
    }
    return { commit, changes };
  }

  async function nextKept(number: number) {
    const successor = await entry(number + 1);
    const now = await unless(MissingObjectError, () => scoresOf(successor));
    if (now) return { commit: successor, now };
    const later = (await catalog.log.readable()).filter(({ commit }) => commit > number);
    const commit = later.at(-1) ?? catalog.requireCurrent().commit;
    return { commit, now: await scoresOf(commit) };
  }

  async function scoresOf(commit: LogEntry): Promise<Map<string, Scored>> {
    const { list, records } = (await catalog.listed(commit)).manifest.scores;
    const key = layout.publicObject(list.hash);
    const { scores } = parseObject(key, await catalog.objects.get(key, list), ScoreList);
    // "constructor" is a possible slug.
    const kept = scores.filter((row) => Object.hasOwn(records, row.slug));
    return new Map(kept.map((row) => [row.slug, { row, record: records[row.slug]! }]));
  }

  return { newest, start, commit: entry, step, commitOf };
}

// Sending this many takes as long as inflating a run.
const changesAtOnce = 8;

const expired: FeedMessage = { type: "error", code: "SNAPSHOT_EXPIRED" };

function publicationOf({ snapshotId, commit, publishedAt, counts, changeCounts }: LogEntry): FeedMessage {
  return { type: "snapshot.published", snapshotId, commit, publishedAt, counts, changes: changeCounts };
}

/**
 * Returns a function that yields the messages that one reader has not got yet, up to the current snapshot. The first
 * call yields a greeting; where the reader's start is gone, that news precedes it. One call must end before the next.
 * It throws as the log does, and the next call goes on there.
 */
export function scoreReader(
  log: Pick<ReturnType<typeof scoreChangeLog>, "newest" | "commit" | "step">,
  start: Pick<ReaderStart, "position" | "gone">,
): () => AsyncGenerator<FeedMessage> {
  let { position, gone } = start;
  let greeted = false;
  return async function* pending() {
    while (gone || position < log.newest()) {
      if (gone) yield expired;
      gone = false;
      try {
        while (position < log.newest()) {
          const { commit, changes } = await log.step(position);
          for (const [index, change] of changes.entries()) {
            if (index % changesAtOnce === 0) await awaitBudget();
            yield change;
          }
          // Must follow the scores: who hears of a snapshot has heard of all that changed.
          yield publicationOf(commit);
          position = commit.commit;
        }
      } catch (error) {
        if (!(error instanceof MissingObjectError)) throw error;
        // The commit was collected before it could be sent, so the reader has to look at the scores anew.
        position = log.newest();
        greeted = false;
        gone = true;
      }
    }
    if (greeted) return;
    const { snapshotId, publishedAt } = await log.commit(position);
    yield { type: "hello", snapshotId, publishedAt };
    greeted = true;
  };
}
