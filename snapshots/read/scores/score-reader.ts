import type { FeedMessage } from "../../../schemas/feed.ts";
import { MissingObjectError } from "../../store/errors.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { awaitBudget } from "../event-loop-budget.ts";
import type { ReaderStart, ScoreChangeLog } from "./score-change-log.ts";

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
  log: Pick<ScoreChangeLog, "newest" | "commit" | "step">,
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
