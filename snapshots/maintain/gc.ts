import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Commit, Manifest } from "../../schemas/snapshot.ts";
import { keptExports } from "../export/kept-exports.ts";
import { readPages } from "../index/segment.ts";
import { publicNames } from "../publish/public-names.ts";
import type { Site } from "../publish/site.ts";
import { listCommits, readCommit } from "../store/commits.ts";
import { announce, deletingMinutes, recordKeys } from "../store/gc-records.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import {
  besideSegment,
  MissingObjectError,
  readManifest,
  readObject,
  scoreObjects,
} from "../store/objects.ts";
import { type ObjectInfo, type Storage, StorageError } from "../store/storage.ts";

/** Options of a collection. */
export interface CollectOptions {
  /** How long snapshots stay after they were superseded, and unreachable objects after they were stored. */
  keepHours: number;
  /** The snapshots of this many newest commits stay, whatever their age. */
  keepCommits: number;
  now: Date;
  /** Reports what would be deleted, and deletes nothing. */
  dryRun: boolean;
  /** The current site. Site files of other versions are deleted; without a site, all of them stay. */
  site?: Site;
}

/** The result of a collection. A dry run reports what would be deleted. */
export interface CollectReport {
  keptCommits: number;
  deleted: { keys: string[]; bytes: number };
  /** Unreachable objects that are too young to delete: a publish run may be about to commit them. */
  young: number;
  /** Temporary files of killed writers, removed from a directory store. */
  leftovers: number;
}

/** Objects are deleted under these prefixes only, in this order: manifests and records first, so that none outlives its objects. */
const collected = [
  layout.manifests,
  layout.exportRecords,
  layout.publicObjects,
  layout.stableScores,
  layout.siteFiles,
  layout.privateObjects,
  layout.segments,
  layout.rows,
  layout.ids,
  layout.words,
  layout.pages,
  layout.exportFiles,
  layout.exportChunks,
];

const hour = 3_600_000;
/** No publish run takes longer. Objects newer than the newest commit stay for this long, whatever `keepHours` says. */
const runHours = 6;
/** Records of killed collections are deleted after this time. */
const leftoverHours = 24;

/**
 * Deletes old objects that no retained commit reaches. Publishers and rollbacks may run at the same time: a record tells
 * them which objects are about to be deleted. Then the store is surveyed a second time, and only objects that are still
 * unreachable and unchanged are deleted (snapshots/SPEC.md, "Collection"). The next collection continues an interrupted
 * one. Throws MissingObjectError when the current snapshot's manifest or a retained segment is missing, CorruptObjectError
 * or StorageError.
 */
export async function collectGarbage(storage: Storage, options: CollectOptions): Promise<CollectReport> {
  const survey = new Survey(storage, options);
  const places = options.site ? collected : collected.filter((prefix) => prefix !== layout.siteFiles);
  const { unreachable, isOld, keptCommits } = await survey.run(places);
  const doomed = unreachable.filter(isOld);
  const gone = options.dryRun ? doomed : await remove(storage, survey, doomed);
  if (!options.dryRun) await removeOldRecords(storage, options.now);
  const leftovers = options.dryRun ? 0 : ((await storage.removeLeftovers?.()) ?? 0);
  return {
    keptCommits,
    deleted: { keys: gone.map(({ key }) => key), bytes: gone.reduce((sum, { bytes }) => sum + bytes, 0) },
    young: unreachable.length - doomed.length,
    leftovers,
  };
}

/** Deletes what a second survey confirms, and returns it. After an error the record stays: a deletion may be under way. */
async function remove(
  storage: Storage,
  survey: Survey,
  doomed: readonly ObjectInfo[],
): Promise<ObjectInfo[]> {
  const id = randomBytes(8).toString("hex");
  const gone: ObjectInfo[] = [];
  for (let from = 0; from < doomed.length; from += recordKeys) {
    const batch = doomed.slice(from, from + recordKeys);
    await announce(
      storage,
      id,
      batch.map(({ key }) => key),
    );
    const until = Date.now() + deletingMinutes * 60_000;
    const prefixes = collected.filter((prefix) => batch.some(({ key }) => key.startsWith(prefix)));
    const { unreachable, isOld } = await survey.run(prefixes);
    const still = new Map(unreachable.filter(isOld).map((info) => [info.key, info]));
    const unchanged = batch.filter((info) => isDeepStrictEqual(still.get(info.key), info));
    // One prefix after the other, in the order of `collected`.
    for (const prefix of prefixes) {
      const those = unchanged.filter(({ key }) => key.startsWith(prefix));
      await inParallel(those, async ({ key }) => {
        // Publishers ignore a record once it is too old, so deleting must end before that.
        if (Date.now() > until)
          throw new StorageError(`${storage.location}: deleting takes too long; run gc again`);
        await storage.delete(key);
      });
    }
    gone.push(...unchanged);
  }
  if (doomed.length > 0) await storage.delete(layout.collectingRecord(id));
  return gone;
}

/** Deletes the records of killed collections. */
async function removeOldRecords(storage: Storage, now: Date): Promise<void> {
  for await (const { key, modified } of storage.list(layout.collecting)) {
    if (now.getTime() - modified.getTime() > leftoverHours * hour) await storage.delete(key);
  }
}

/** The result of one survey of the store. */
interface SurveyResult {
  unreachable: ObjectInfo[];
  /** Whether an unreachable object is so old that no running publish can need it. */
  isOld: (info: ObjectInfo) => boolean;
  keptCommits: number;
}

/** Surveys a store repeatedly. Objects that were reachable once count as reachable from then on. */
class Survey {
  readonly #storage: Storage;
  readonly #options: CollectOptions;
  readonly #reachable: Set<string>;

  constructor(storage: Storage, options: CollectOptions) {
    this.#storage = storage;
    this.#options = options;
    this.#reachable = new Set(options.site?.files(null).keys());
  }

  async run(prefixes: readonly string[]): Promise<SurveyResult> {
    const listed: ObjectInfo[] = [];
    for (const prefix of prefixes) {
      for await (const info of this.#storage.list(prefix)) listed.push(info);
    }
    // Commits are read after the listing: an object that a commit has just brought back counts as reachable.
    const commits = await readLog(this.#storage);
    const retained = retainedCommits(commits, this.#options);
    for (const commit of retained) await this.#mark(commit, commit === commits.at(-1));
    const newest = commits.at(-1);
    for (const key of await keptExports(this.#storage, newest, new Set())) this.#reachable.add(key);
    const published = newest && (await modifiedOf(this.#storage, layout.commit(newest.commit)));
    return {
      unreachable: listed.filter(({ key }) => !this.#reachable.has(key)),
      isOld: (info) => this.#isOld(info, published),
      keptCommits: retained.length,
    };
  }

  /** `published` is when the newest commit was stored, by the store's clock. */
  #isOld({ modified }: ObjectInfo, published: Date | undefined): boolean {
    const { now, keepHours } = this.#options;
    const mayBeOfARun = !published || modified >= published;
    const hours = mayBeOfARun ? Math.max(keepHours, runHours) : keepHours;
    return modified.getTime() <= now.getTime() - hours * hour;
  }

  async #mark(commit: Commit, newest: boolean): Promise<void> {
    const key = layout.manifest(commit.manifest.hash);
    if (this.#reachable.has(key) && !newest) return;
    const manifest = await readManifest(this.#storage, commit.manifest).catch((error) => {
      // An earlier collection with a shorter retention may have deleted it. Only the current snapshot must exist.
      if (error instanceof MissingObjectError && !newest) return undefined;
      throw error;
    });
    if (!manifest) return;
    this.#reachable.add(key);
    await markManifest(this.#storage, manifest, this.#reachable);
    // Also when an older commit with the same snapshot was marked before.
    if (newest) for (const name of publicNames(manifest).keys()) this.#reachable.add(name);
  }
}

async function modifiedOf(storage: Storage, key: string): Promise<Date | undefined> {
  for await (const info of storage.list(key)) if (info.key === key) return info.modified;
  return undefined;
}

/** The whole log, oldest first. */
async function readLog(storage: Storage): Promise<Commit[]> {
  const commits: Commit[] = [];
  for (const number of await listCommits(storage)) {
    const commit = await readCommit(storage, number);
    if (commit) commits.push(commit);
  }
  return commits;
}

/** The newest `keepCommits` commits, and those superseded less than `keepHours` ago. */
function retainedCommits(
  commits: readonly Commit[],
  { now, keepHours, keepCommits }: CollectOptions,
): Commit[] {
  const since = now.getTime() - keepHours * hour;
  return commits.filter((_, index) => {
    const successor = commits[index + 1];
    const recent = !successor || Date.parse(successor.publishedAt) >= since;
    return recent || index >= commits.length - keepCommits;
  });
}

async function markManifest(storage: Storage, manifest: Manifest, reachable: Set<string>): Promise<void> {
  for (const key of scoreObjects(manifest).keys()) reachable.add(key);
  await inParallel(manifest.segments, async (ref) => {
    const key = layout.segment(ref.hash);
    if (reachable.has(key)) return;
    for (const page of readPages(key, await readObject(storage, key, ref)))
      reachable.add(layout.page(page.hash));
    reachable.add(key);
    for (const [beside] of besideSegment(ref)) reachable.add(beside);
  });
}
