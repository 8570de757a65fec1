import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Commit, Manifest } from "../../schemas/snapshot.ts";
import { readPages } from "../index/segment.ts";
import { publicNames } from "../publish/public-names.ts";
import type { Site } from "../publish/site.ts";
import { listCommits, readCommit } from "../store/commits.ts";
import { announce, deletingMinutes, recordKeys } from "../store/gc-records.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { MissingObjectError, readManifest, readObject, scoreObjects } from "../store/objects.ts";
import { type ObjectInfo, type Storage, StorageError } from "../store/storage.ts";

/** What a collection is to keep and when. */
export interface CollectOptions {
  /** Snapshots stay this long after they were superseded, and unreachable objects after they were stored. */
  keepHours: number;
  /** The newest commits whose snapshots stay whatever their age. */
  keepCommits: number;
  now: Date;
  /** Tells what would go, and deletes nothing. */
  dryRun: boolean;
  /** The site of the public tree: files of other versions go. Without one all of them stay. */
  site?: Site;
}

/** What a collection did, or would do. */
export interface CollectReport {
  keptCommits: number;
  deleted: { keys: string[]; bytes: number };
  /** Unreachable objects that are too young to go: a publish run may be about to need them. */
  young: number;
  /** Files that killed writers left in a directory store. */
  leftovers: number;
}

/** The only places where anything is ever deleted; manifests first, so that no manifest outlives its objects. */
const collected = [
  layout.manifests,
  layout.publicObjects,
  layout.stableScores,
  layout.siteFiles,
  layout.privateObjects,
  layout.segments,
  layout.rows,
  layout.pages,
];

const hour = 3_600_000;
/** No publish run takes longer: what was put after the newest commit stays for so long whatever is to be kept. */
const runHours = 6;
/** Records of collections that were killed go after this time. */
const leftoverHours = 24;

/**
 * Deletes what no retained commit reaches and nobody put lately. Publishers and rollbacks may go on meanwhile: a record
 * tells them what is about to go, then everything is looked at a second time, and only what is still unreachable, and
 * unchanged, goes (snapshots/SPEC.md, "Collection"). Throws MissingObjectError when a retained snapshot is broken,
 * CorruptObjectError or StorageError; a collection that was interrupted is continued by the next.
 */
export async function collectGarbage(storage: Storage, options: CollectOptions): Promise<CollectReport> {
  const survey = new Survey(storage, options);
  const places = options.site ? collected : collected.filter((prefix) => prefix !== layout.siteFiles);
  const { unreachable, isOld, keptCommits } = await survey.look(places);
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

/** Deletes what a second look allows, and returns it. The record stays behind when a deletion may still be under way. */
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
    const { unreachable, isOld } = await survey.look(prefixes);
    const still = new Map(unreachable.filter(isOld).map((info) => [info.key, info]));
    const unchanged = batch.filter((info) => isDeepStrictEqual(still.get(info.key), info));
    // Prefix by prefix, in the order above.
    for (const prefix of prefixes) {
      const those = unchanged.filter(({ key }) => key.startsWith(prefix));
      await inParallel(those, async ({ key }) => {
        // Publishers stop believing a record at some time.
        if (Date.now() > until) throw new StorageError(`${storage.location}: gc is too slow; run it again`);
        await storage.delete(key);
      });
    }
    gone.push(...unchanged);
  }
  if (doomed.length > 0) await storage.delete(layout.collectingRecord(id));
  return gone;
}

/** Removes the records of collections that were killed. */
async function removeOldRecords(storage: Storage, now: Date): Promise<void> {
  for await (const { key, modified } of storage.list(layout.collecting)) {
    if (now.getTime() - modified.getTime() > leftoverHours * hour) await storage.delete(key);
  }
}

/** What a look at the store finds. */
interface Look {
  unreachable: ObjectInfo[];
  /** Whether nobody can be about to need an object, if it is unreachable. */
  isOld: (info: ObjectInfo) => boolean;
  keptCommits: number;
}

/** Looks at a store, again and again; what was reachable once stays so. */
class Survey {
  readonly #storage: Storage;
  readonly #options: CollectOptions;
  readonly #reachable: Set<string>;

  constructor(storage: Storage, options: CollectOptions) {
    this.#storage = storage;
    this.#options = options;
    this.#reachable = new Set(options.site?.files(null).keys());
  }

  async look(prefixes: readonly string[]): Promise<Look> {
    const listed: ObjectInfo[] = [];
    for (const prefix of prefixes) {
      for await (const info of this.#storage.list(prefix)) listed.push(info);
    }
    // Marked after the listing: what a commit brought back in between is reachable now.
    const commits = await readLog(this.#storage);
    const retained = retainedCommits(commits, this.#options);
    for (const commit of retained) await this.#mark(commit, commit === commits.at(-1));
    const newest = commits.at(-1);
    const published = newest && (await modifiedOf(this.#storage, layout.commit(newest.commit)));
    return {
      unreachable: listed.filter(({ key }) => !this.#reachable.has(key)),
      isOld: (info) => this.#isOld(info, published),
      keptCommits: retained.length,
    };
  }

  /** `published` is the time of the newest commit, by the store's clock. */
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
      // A shorter retention may have collected it before; only the current snapshot must be there.
      if (error instanceof MissingObjectError && !newest) return undefined;
      throw error;
    });
    if (!manifest) return;
    this.#reachable.add(key);
    await markManifest(this.#storage, manifest, this.#reachable);
    // Also of a snapshot that an older commit has made reachable before.
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

/** The newest commits, and those that were superseded not long ago. */
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
    reachable.add(layout.rowsOf(ref.rows.hash));
  });
}
