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

/** A protocol in one snapshot: its row in the list, and its record, whose hash changes with any field. */
interface Scored {
  row: StoredScoreListEntry;
  record: ObjectRef;
}

/** Where a reader begins: after a commit. `gone` says that it asked for one that is not there any more. */
export interface ReaderStart {
  position: number;
  gone: boolean;
}

const keptCommits = 1024;
// Most clients read the same changes at the same time. Each takes half a kilobyte.
const keptChanges = 30_000;

/**
 * The score changes between successive commits. They follow from the commit log alone, so every process computes the
 * same changes, whenever it was started.
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
      // An entry without changes counts too.
      sizeCalculation: (changes) => 1 + changes.length,
      fetchMethod: (number) => this.#compare(number),
      // Several clients may wait for this; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
  }

  /** The number of the commit that the catalog serves; 0 before the first one. */
  newest(): number {
    return this.#catalog.current()?.commit.commit ?? 0;
  }

  /**
   * Where a reader begins who has seen the snapshot `since`, or else sees the current one now. Throws NoSnapshotError, or as
   * `commitOf` does.
   */
  async start(since: string | undefined): Promise<ReaderStart> {
    const { commit } = this.#catalog.requireCurrent();
    const known = since === undefined ? commit : await this.commitOf(since);
    return { position: (known ?? commit).commit, gone: known === undefined };
  }

  /** A commit of the log. Throws MissingObjectError, CorruptObjectError or StorageError. */
  async commit(number: number): Promise<Commit> {
    const commit = await this.#commitIfAny(number);
    if (!commit) throw new MissingObjectError(layout.commit(number));
    return commit;
  }

  /**
   * The changes of a commit, ordered by slug. Throws MissingObjectError when it or its predecessor was collected,
   * CorruptObjectError or StorageError.
   */
  async changes(number: number): Promise<ScoreChange[]> {
    return (await this.#steps.fetch(number)) ?? this.#compare(number);
  }

  /**
   * The newest commit with this snapshot id, if its snapshot is still kept; undefined otherwise. Reads the store, so it
   * also finds a commit that this process has not loaded yet. Throws as `changes` does.
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

  /** The complete row of a protocol. Lists written by older versions lack fields, which come from the record. */
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

/** Whether the retention promise covers the snapshot of `commit`. */
function isKept(commit: Commit, successor: Commit, newest: Commit): boolean {
  const age = Date.parse(newest.publishedAt) - Date.parse(successor.publishedAt);
  return newest.commit - commit.commit < retention.keepCommits || age <= retention.keepHours * 3_600_000;
}
