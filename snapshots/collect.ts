import type { Commit, Manifest } from "../schemas/snapshot.ts";
import { listCommits, readCommit } from "./commits.ts";
import { inParallel } from "./in-parallel.ts";
import { readPages } from "./index/segment.ts";
import { layout } from "./layout.ts";
import { MissingObjectError, readManifest, readObject, scoreObjects } from "./objects.ts";
import { publicNames } from "./publish/projection.ts";
import { publishedSite } from "./site.ts";
import type { ObjectInfo, Storage } from "./storage/storage.ts";

/** What a collection is to keep and when. */
export interface CollectOptions {
  /** Snapshots stay this long after they were superseded, and unreachable objects after they were stored. */
  keepHours: number;
  /** The newest commits whose snapshots stay whatever their age. */
  keepCommits: number;
  now: Date;
  /** Tells what would go, and deletes nothing. */
  dryRun: boolean;
}

/** What a collection did, or would do. */
export interface CollectReport {
  keptCommits: number;
  deleted: { keys: string[]; bytes: number };
  /** Unreachable objects that are too young to go: a publish run may be about to need them. */
  young: number;
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

/**
 * Deletes what no retained commit reaches. An object goes only when it is unreachable and older than the grace period,
 * both after the listing and again just before: a publish run may bring old content back meanwhile. Throws
 * MissingObjectError when a retained snapshot is broken, CorruptObjectError or StorageError; a collection that was
 * interrupted is continued by the next.
 */
export async function collect(storage: Storage, options: CollectOptions): Promise<CollectReport> {
  const { now, keepHours, dryRun } = options;
  const report: CollectReport = { keptCommits: 0, deleted: { keys: [], bytes: 0 }, young: 0 };
  const oldest = now.getTime() - keepHours * hour;
  const isOld = ({ modified }: ObjectInfo) => modified.getTime() <= oldest;
  const listed: ObjectInfo[] = [];
  for (const prefix of collected) {
    for await (const info of storage.list(prefix)) listed.push(info);
  }
  // Marked after the listing: what a commit brought back in between is reachable now.
  const commits = await readLog(storage);
  const retained = retainedCommits(commits, options);
  report.keptCommits = retained.size;
  const reachable = await markReachable(storage, commits, retained);
  const unreachable = listed.filter(({ key }) => !reachable.has(key));
  const doomed = unreachable.filter(isOld);
  report.young = unreachable.length - doomed.length;
  const kept = new Set<ObjectInfo>();
  const remove = async (info: ObjectInfo) => {
    const still = await listedNow(storage, info.key);
    if (still && isOld(still)) await storage.delete(info.key);
    else kept.add(info);
  };
  // Prefix by prefix, in the order above: as they were listed.
  for (const prefix of dryRun ? [] : collected) {
    await inParallel(
      doomed.filter(({ key }) => key.startsWith(prefix)),
      remove,
    );
  }
  const gone = doomed.filter((info) => !kept.has(info));
  report.deleted.keys = gone.map(({ key }) => key);
  report.deleted.bytes = gone.reduce((sum, { bytes }) => sum + bytes, 0);
  return report;
}

/** What the store lists of this one object at this moment. */
async function listedNow(storage: Storage, key: string): Promise<ObjectInfo | undefined> {
  for await (const info of storage.list(key)) if (info.key === key) return info;
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
): Set<Commit> {
  const since = now.getTime() - keepHours * hour;
  const kept = commits.filter((_, index) => {
    const successor = commits[index + 1];
    const recent = !successor || Date.parse(successor.publishedAt) >= since;
    return recent || index >= commits.length - keepCommits;
  });
  return new Set(kept);
}

async function markReachable(
  storage: Storage,
  commits: readonly Commit[],
  retained: ReadonlySet<Commit>,
): Promise<Set<string>> {
  // Of the site, what this version does not have goes.
  const reachable = new Set<string>(publishedSite().keys());
  for (const commit of retained) {
    const key = layout.manifest(commit.manifest.hash);
    if (reachable.has(key)) continue;
    const manifest = await readManifest(storage, commit.manifest).catch((error) => {
      // A shorter retention may have collected it before; only the current snapshot must be there.
      if (error instanceof MissingObjectError && commit !== commits.at(-1)) return undefined;
      throw error;
    });
    if (!manifest) continue;
    reachable.add(key);
    await markManifest(storage, manifest, reachable);
    if (commit === commits.at(-1)) for (const name of publicNames(manifest).keys()) reachable.add(name);
  }
  return reachable;
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
