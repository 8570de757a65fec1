import { LRUCache } from "lru-cache";
import { StoredScoreList } from "../../schemas/envelopes.ts";
import type { ScoreChange } from "../../schemas/feed.ts";
import {
  listEntryOf,
  ProtocolScore,
  ScoreListEntry,
  type StoredScoreListEntry,
} from "../../schemas/records.ts";
import { type Commit, type ObjectRef, retention } from "../../schemas/snapshot.ts";
import { layout } from "../store/layout.ts";
import { MissingObjectError } from "../store/objects.ts";
import { parseObject } from "../store/parse-object.ts";
import type { Catalog } from "./catalog.ts";

/** A protocol as one snapshot has it: its row as listed, and its record, whose hash tells whether any field differs. */
interface Scored {
  row: StoredScoreListEntry;
  record: ObjectRef;
}

const keptCommits = 1024;
// Kept for clients that are at the same place, which they mostly are. Each takes half a kilobyte.
const keptChanges = 30_000;

/**
 * The differences of successive commits. They follow from the commit log alone, so every process tells the same
 * story, whenever it was started.
 */
export class ScoreChangeLog {
  readonly #catalog: Catalog;
  readonly #commits = new LRUCache<number, Commit>({ max: keptCommits });
  readonly #steps: LRUCache<number, ScoreChange[]>;

  /** `kept` bounds the changes kept in memory. */
  constructor(catalog: Catalog, kept = keptChanges) {
    this.#catalog = catalog;
    this.#steps = new LRUCache<number, ScoreChange[]>({
      maxSize: kept,
      // One for the step itself.
      sizeCalculation: (changes) => 1 + changes.length,
      fetchMethod: (number) => this.#compare(number),
      // Several clients share one step; an eviction meanwhile must not take it from them.
      ignoreFetchAbort: true,
    });
  }

  /** A commit of the log. Throws MissingObjectError, CorruptObjectError or StorageError. */
  async commit(number: number): Promise<Commit> {
    const commit = await this.#commitIfAny(number);
    if (!commit) throw new MissingObjectError(layout.commit(number));
    return commit;
  }

  /**
   * What a commit changed, by slug. Throws MissingObjectError when it or the one before is no longer kept,
   * CorruptObjectError or StorageError.
   */
  async changes(number: number): Promise<ScoreChange[]> {
    return (await this.#steps.fetch(number)) ?? this.#compare(number);
  }

  /**
   * The newest commit of a snapshot that is still kept; undefined when there is none. Also finds one that this process
   * has not taken up yet. Throws as `changes` does.
   */
  async commitOf(snapshotId: string): Promise<Commit | undefined> {
    const newest = await this.#catalog.newestCommit();
    let successor: Commit | undefined;
    for (let commit = newest; newest && commit; commit = await this.#commitIfAny(commit.commit - 1)) {
      if (successor && !isKept(commit, successor, newest)) return undefined;
      if (commit.snapshotId === snapshotId) return commit;
      successor = commit;
    }
    return undefined;
  }

  async #compare(number: number): Promise<ScoreChange[]> {
    const [commit, before] = [await this.commit(number), await this.commit(number - 1)];
    if (commit.snapshotId === before.snapshotId) return [];
    const [now, then] = [await this.#scores(commit), await this.#scores(before)];
    const { snapshotId, publishedAt } = commit;
    const changes: ScoreChange[] = [];
    for (const slug of [...new Set([...now.keys(), ...then.keys()])].sort()) {
      const [to, from] = [now.get(slug), then.get(slug)];
      if (to?.record.hash === from?.record.hash) continue;
      const [current, previous] = [to && (await this.#row(to)), from && (await this.#row(from))];
      const common = { slug, snapshotId, publishedAt };
      if (current && previous) changes.push({ type: "score.changed", ...common, previous, current });
      else if (current) changes.push({ type: "score.added", ...common, previous: null, current });
      else if (previous) changes.push({ type: "score.removed", ...common, previous, current: null });
    }
    return changes;
  }

  /** The whole row of a protocol; what a list of an older version lacks is in the record. */
  async #row({ row, record }: Scored): Promise<ScoreListEntry> {
    const whole = ScoreListEntry.safeParse(row);
    if (whole.success) return whole.data;
    const key = layout.publicObject(record.hash);
    return listEntryOf(parseObject(key, await this.#catalog.objects.get(key, record), ProtocolScore));
  }

  async #commitIfAny(number: number): Promise<Commit | undefined> {
    if (number < 1) return undefined;
    const commit = this.#commits.get(number) ?? (await this.#catalog.commit(number));
    if (commit) this.#commits.set(number, commit);
    return commit;
  }

  async #scores(commit: Commit): Promise<Map<string, Scored>> {
    const { list, records } = (await this.#catalog.manifest(commit)).scores;
    const key = layout.publicObject(list.hash);
    const { scores } = parseObject(key, await this.#catalog.objects.get(key, list), StoredScoreList);
    return new Map(
      scores.flatMap((row) => {
        const record = records[row.slug];
        return record ? [[row.slug, { row, record }]] : [];
      }),
    );
  }
}

/** Whether a commit's snapshot is one that the retention of snapshots promises to keep. */
function isKept(commit: Commit, successor: Commit, newest: Commit): boolean {
  const age = Date.parse(newest.publishedAt) - Date.parse(successor.publishedAt);
  return newest.commit - commit.commit < retention.keepCommits || age <= retention.keepHours * 3_600_000;
}
