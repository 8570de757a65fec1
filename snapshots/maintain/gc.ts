import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type {
  ChangeFiles,
  Commit,
  ExportRecord,
  Manifest,
  SegmentRef,
} from "../../schemas/store/stored-objects.ts";
import { changeObjects } from "../changes/record.ts";
import { newestExports, objectsOf, readSound, soundExports } from "../export/export-records.ts";
import { type Tile, tileWidth } from "../format/log-tiles.ts";
import { readPages } from "../index/segment.ts";
import { namesOfProtocols } from "../publish/public/mutable-objects.ts";
import type { Site } from "../publish/public/site.ts";
import { CorruptObjectError, isLoss, MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { collectedKinds, hashIn, kindOf, layout } from "../store/layout.ts";
import { announce, deletingMinutes, recordKeys } from "../store/log/gc-records.ts";
import { tileKey, tileNamed, tilesAmong } from "../store/log/tiles.ts";
import { readManifest } from "../store/manifest.ts";
import { namedBy, readObject } from "../store/objects.ts";
import { infoOf, type ObjectInfo, type Storage, StorageError } from "../store/storage.ts";
import { trustOf } from "../trust/log/believe.ts";
import { type Counting, countedLog, hour, keepsChanges, masksOf, type Retention, rules } from "./commits.ts";

export interface CollectOptions extends Retention, Counting {
  now: Date;
  /** Reports what would be deleted, and deletes nothing. */
  dryRun: boolean;
  /** Site files of other versions than this are deleted; without a site, all of them stay. */
  site?: Site;
}

type RuleBytes = Record<Exclude<keyof typeof rules, "always">, number>;

export interface CollectReport {
  keptCommits: number;
  /** Bytes that would go if a rule were off, because nothing else keeps them. `gc --json` names them so. */
  tiers: RuleBytes;
  deleted: { keys: string[]; bytes: number };
  /** Unreachable objects that are too young to delete: a publish run may be about to commit them. */
  young: number;
  /** Temporary files of killed writers that were removed from a directory store. */
  leftovers: number;
}

/** Nothing is deleted outside of these prefixes. */
const collected = [...new Set(collectedKinds.map(({ prefix }) => prefix))];

/**
 * Objects here name other objects. Every survey lists them after it has read the commits. Otherwise a holder that is
 * put between the two would stay, while the older objects that it names are deleted.
 */
const holders = [
  layout.manifest.prefix,
  layout.exportRecord.prefix,
  layout.exportedChanges.prefix,
  layout.changeRecord.prefix,
];
const isHolder = (key: string) => holders.some((prefix) => key.startsWith(prefix));
/** Export runs make these without a commit at the end. */
const ofExports = [layout.exportFile.prefix, layout.exportChunks.prefix];

/** No publish run takes longer. Objects newer than the newest commit stay for this long, whatever `keepHours` says. */
const runHours = 6;
/** The longest time from the plan of a run in parts to its join. */
const runInPartsHours = 48;
/** Records of killed collections are deleted after this time. */
const recordHours = 24;

/**
 * Deletes old objects that no retained commit reaches (snapshots/PUBLISHING.md, "Collection").
 * Publishers and rollbacks may run at the same time: a record tells them which objects are about to be deleted. Then
 * the store is surveyed again, and only what is still unreachable and unchanged is deleted. The next collection
 * continues an interrupted one.
 */
export async function collectGarbage(storage: Storage, options: CollectOptions): Promise<CollectReport> {
  const survey = surveyOf(storage, options);
  const places = options.site ? collected : collected.filter((prefix) => prefix !== layout.siteFile.prefix);
  const { unreachable, mayGo, keptCommits, tiers } = await survey(places);
  const doomed = unreachable.filter(mayGo);
  const gone = options.dryRun ? doomed : await remove(storage, survey, doomed);
  if (!options.dryRun)
    for await (const { key, modified } of storage.list(layout.collecting.prefix))
      if (options.now.getTime() - modified.getTime() > recordHours * hour) await storage.delete(key);
  const leftovers = options.dryRun ? 0 : ((await storage.removeLeftovers?.()) ?? 0);
  return {
    keptCommits,
    tiers,
    deleted: { keys: gone.map(({ key }) => key), bytes: gone.reduce((sum, { bytes }) => sum + bytes, 0) },
    young: unreachable.length - doomed.length,
    leftovers,
  };
}

/**
 * Deletes the objects that a second survey confirms, and returns them. After an error the record stays, since a
 * deletion may be under way.
 */
async function remove(storage: Storage, survey: ReturnType<typeof surveyOf>, doomed: readonly ObjectInfo[]) {
  const id = randomBytes(8).toString("hex");
  const gone: ObjectInfo[] = [];
  for (let from = 0; from < doomed.length; from += recordKeys) {
    const batch = doomed.slice(from, from + recordKeys);
    const keys = batch.map(({ key }) => key);
    await announce(storage, id, keys);
    const until = Date.now() + deletingMinutes * 60_000;
    const prefixes = collected.filter((prefix) => keys.some((key) => key.startsWith(prefix)));
    const { unreachable, mayGo } = await survey(prefixes);
    const still = new Map(unreachable.filter(mayGo).map((info) => [info.key, info]));
    const unchanged = batch.filter((info) => isDeepStrictEqual(still.get(info.key), info));
    for (const kind of collectedKinds) {
      await inParallel(
        unchanged.filter(({ key }) => kindOf(key) === kind),
        async ({ key }) => {
          // Publishers ignore a record once it is too old, so deleting must end before that.
          if (Date.now() > until)
            throw new StorageError(`${storage.location}: deleting takes too long; run gc again`);
          await storage.delete(key);
        },
      );
    }
    gone.push(...unchanged);
  }
  if (doomed.length > 0) await storage.delete(layout.collecting(id));
  return gone;
}

/** A commit, and the rules that keep its snapshot, as a mask. */
type KeptCommit = readonly [commit: Commit, mask: number];

/** A function that surveys a store. What was reachable once counts as reachable from then on. */
function surveyOf(storage: Storage, options: CollectOptions) {
  const trust = options.anybody ? undefined : trustOf(options.signing ?? {});
  /** The rules that keep an object, by key. */
  const reachable = new Map<string, number>();
  /** The manifest that was read last. The next one shares most of its lists. */
  let last: Manifest | undefined;

  function reach(keys: Iterable<string>, keptBy: number): void {
    for (const key of keys) reachable.set(key, (reachable.get(key) ?? 0) | keptBy);
  }

  async function list(prefixes: readonly string[]): Promise<ObjectInfo[]> {
    const listed: ObjectInfo[] = [];
    for (const prefix of prefixes) for await (const info of storage.list(prefix)) listed.push(info);
    return listed;
  }

  /**
   * Marks the records of runs in parts that may still be joined. Returns when the first of them was planned, by the
   * store's clock, or Infinity: all that they need was put since, or belongs to the newest commit.
   */
  function reachRuns(listed: readonly ObjectInfo[]): number {
    const since = options.now.getTime() - runInPartsHours * hour;
    let first = Number.POSITIVE_INFINITY;
    for (const { key: plan, modified } of listed) {
      if (!layout.runPlan.has(plan) || modified.getTime() <= since) continue;
      const folder = `${layout.runPlan.prefix}${layout.runPlan.nameIn(plan)}/`;
      reach(
        listed.flatMap(({ key }) => (key.startsWith(folder) ? [key] : [])),
        rules.always,
      );
      first = Math.min(first, modified.getTime());
    }
    return first;
  }

  /** Bytes that only one rule keeps. */
  function tiersOf(listed: readonly ObjectInfo[]): RuleBytes {
    const { always: _, ...others } = rules;
    const bytesOf = (rule: number) =>
      listed.reduce((sum, { key, bytes }) => sum + (reachable.get(key) === rule ? bytes : 0), 0);
    return Object.fromEntries(
      Object.entries(others).map(([name, rule]) => [name, bytesOf(rule)]),
    ) as RuleBytes;
  }

  /** `published` is when the newest commit was stored, by the store's clock. */
  function isPastGrace({ key, modified }: ObjectInfo, published: Date | undefined): boolean {
    const { now, keepHours } = options;
    const isOfExport = ofExports.some((prefix) => key.startsWith(prefix));
    const mayBeOfARun = !published || modified >= published || isOfExport;
    const hours = mayBeOfARun ? Math.max(keepHours, runHours) : keepHours;
    return modified.getTime() <= now.getTime() - hours * hour;
  }

  /** Marks what retained commits reach. What an earlier survey marked is not read again. */
  async function reachSnapshots(kept: readonly KeptCommit[]): Promise<void> {
    const manifests = new Map<string, { commit: Commit; keptBy: number }>();
    for (const [commit, mask] of kept) {
      const key = layout.manifest(commit.manifest.hash);
      const keptBy = (manifests.get(key)?.keptBy ?? 0) | mask;
      if (keptBy > 0) manifests.set(key, { commit, keptBy });
    }
    const segments = new Map<string, { ref: SegmentRef; keptBy: number; manifest: string }>();
    for (const [key, { commit, keptBy }] of manifests) {
      const newest = (keptBy & rules.always) > 0;
      if (reachable.has(key) && !newest) continue;
      const manifest = await manifestOf(commit, newest);
      if (!manifest) continue;
      // Two manifests may have different objects beside the same segment, when digests of rows are made in another way.
      const named = namedBy(manifest).keys();
      reach([key, ...named.filter((one) => !layout.segment.has(one))], keptBy);
      if (newest) reach(namesOfProtocols(manifest), rules.always);
      for (const ref of manifest.segments) {
        const segment = layout.segment(ref.hash);
        segments.set(segment, { ref, keptBy: (segments.get(segment)?.keptBy ?? 0) | keptBy, manifest: key });
      }
    }
    await inParallel(segments, async ([key, { ref, keptBy, manifest }]) => {
      if (reachable.has(key)) return;
      const pages = await blamingManifest(manifest, async () =>
        readPages(key, await readObject(storage, key, ref)),
      );
      reach([key, ...pages.map(({ hash }) => layout.page(hash))], keptBy);
    });
  }

  async function manifestOf(commit: Commit, newest: boolean): Promise<Manifest | undefined> {
    const key = layout.manifest(commit.manifest.hash);
    try {
      last = await blamingManifest(key, () => readManifest(storage, commit, last));
      return last;
    } catch (error) {
      // An earlier collection with a shorter retention may have deleted it. Only the current snapshot must exist.
      if (error instanceof MissingObjectError && error.key === key && !newest) return undefined;
      throw error;
    }
  }

  /** Marks change records that are young enough, and those of which both snapshots stay: they could be made again. */
  async function reachChanges(
    commits: readonly Commit[],
    young: ReadonlySet<string>,
    listed: readonly ObjectInfo[],
  ): Promise<void> {
    let lost = false;
    await inParallel(commits.entries(), async ([index, commit]) => {
      if (!commit.changes) return;
      const key = layout.changeRecord(commit.changes.hash);
      const isYoung = young.has(key) || keepsChanges(commit, options);
      const keptBy = keptByBoth(commits[index - 1], commit) | (isYoung ? rules.changes : 0);
      if (reachable.has(key) || keptBy === 0) return;
      const { exportedChanges } = layout;
      const { files = [] } = (await readSound(storage, exportedChanges, commit.changes.hash)) ?? {};
      reach([exportedChanges(commit.changes.hash), ...objectsOf(files)], keptBy);
      const keys = await unless(ObjectError, () => changeObjects(storage, commit.changes!));
      reach(keys ?? [], keptBy);
      lost ||= !keys;
    });
    // Nobody can tell any more which parts the lost record names, so none is known to be garbage.
    const isPart = (key: string) => key.startsWith(layout.changePart.prefix) && !layout.changeRecord.has(key);
    if (lost) reach(listed.map(({ key }) => key).filter(isPart), rules.changes);
  }

  /** The rules that keep both snapshots, or else the older one. */
  function keptByBoth(older: Commit | undefined, newer: Commit): number {
    const keptBy = (commit: Commit) => reachable.get(layout.manifest(commit.manifest.hash)) ?? 0;
    if (!older || keptBy(newer) === 0) return 0;
    return keptBy(older) & keptBy(newer) || keptBy(older);
  }

  /** The newest exports stay, and those of snapshots that stay for long. */
  async function reachExports(kept: readonly KeptCommit[]): Promise<void> {
    const bySnapshot = new Map<string, number>();
    for (const [{ entry }, mask] of kept)
      bySnapshot.set(entry.snapshotId, (bySnapshot.get(entry.snapshotId) ?? 0) | mask);
    const records = await soundExports(storage, kept.at(-1)?.[0].entry, trust);
    for (const [index, { snapshotId, files }] of records.entries()) {
      const forLong = (bySnapshot.get(snapshotId) ?? 0) & (rules.daily | rules.monthly);
      const keptBy = index < newestExports ? rules.always : forLong;
      if (keptBy > 0) reach([layout.exportRecord(snapshotId), ...objectsOf(files)], keptBy);
    }
  }

  /**
   * Marks files of exports that no sound record names, as long as the commit that was newest when they were put is
   * kept: nobody can tell files whose record is lost or forged from those of a killed run.
   */
  async function reachUnnamed(kept: readonly KeptCommit[], listed: readonly ObjectInfo[]): Promise<void> {
    const unreached = listed.filter(({ key }) => !reachable.has(key));
    const files = unreached.filter(({ key }) => ofExports.some((prefix) => key.startsWith(prefix)));
    if (files.length === 0) return;
    const named = new Set<string>();
    await inParallel(unreached, async ({ key }) => {
      const kind = [layout.exportRecord, layout.exportedChanges].find(({ prefix }) => key.startsWith(prefix));
      const record = kind && (await readSound<ExportRecord | ChangeFiles>(storage, kind, hashIn(key), trust));
      for (const file of objectsOf(record ? record.files : [])) named.add(file);
    });
    const put = new Map((await list([layout.commit.prefix])).map(({ key, modified }) => [key, modified]));
    for (const { key, modified } of files) {
      const newest = kept.findLast(([{ entry }]) => put.get(layout.commit(entry.commit))! <= modified);
      const [, keptBy = 0] = newest ?? [];
      if (keptBy > 0 && !named.has(key)) reach([key], keptBy);
    }
  }

  reach(options.site?.keys ?? [], rules.always);

  /**
   * Lists all but holders, reads the commits, and lists the holders. Then marks what has to stay: what kept snapshots
   * and open runs reach, what holders name that may not go yet, change records, exports, and files that may be of one.
   * No running publish can need an object that is so old that it `mayGo`.
   */
  return async function survey(prefixes: readonly string[]) {
    const others = await list(prefixes.filter((prefix) => !isHolder(prefix)));
    // Commits are read after the listing, so that an object that a commit has just brought back counts as reachable.
    const commits = await countedLog(storage, options);
    const newest = commits.at(-1);
    reach(neededTiles(others, newest?.entry.commit ?? 0), rules.always);
    const listed = [...(await list(holders)), ...others];
    const masks = masksOf(commits, options);
    const kept = commits.map((commit, index): KeptCommit => [commit, masks[index]!]);
    await reachSnapshots(kept);
    const published = newest && (await infoOf(storage, layout.commit(newest.entry.commit)))?.modified;
    const planned = reachRuns(listed);
    const superseded = new Set(commits.slice(0, -1).map(({ manifest }) => layout.manifest(manifest.hash)));
    const mayGo = (info: ObjectInfo) =>
      (isPastGrace(info, published) && info.modified.getTime() < planned) ||
      // If its age alone kept a manifest, older objects of its snapshot would be deleted while it stays.
      (superseded.has(info.key) && published !== undefined && info.modified < published);
    // An object that is too young to delete keeps the objects that it names, even older ones.
    const young = new Set(listed.flatMap((info) => (isHolder(info.key) && !mayGo(info) ? [info.key] : [])));
    for (const commit of commits)
      if (young.has(layout.manifest(commit.manifest.hash)))
        await unless(ObjectError, () => reachSnapshots([[commit, rules.hours]]));
    await reachChanges(commits, young, listed);
    await reachExports(kept);
    await reachUnnamed(kept, listed);
    return {
      unreachable: listed.filter(({ key }) => !reachable.has(key)),
      mayGo,
      keptCommits: masks.filter((mask) => mask > 0).length,
      tiers: tiersOf(listed),
    };
  };
}

/** All of the public log but the partial tiles that have been filled since, in a log of this size. */
function neededTiles(listed: readonly ObjectInfo[], size: number): string[] {
  const keys = listed.map(({ key }) => key);
  const held = tilesAmong(keys, size);
  const isFilled = (tile: Tile | undefined) =>
    tile && tile.width < tileWidth && held.has(tileKey({ ...tile, width: tileWidth }));
  return keys.filter((key) => key.startsWith(layout.logTile.prefix) && !isFilled(tileNamed(key)));
}

/**
 * Works on a snapshot that a collection keeps. The error of a lost or damaged object then names the manifest, whose
 * deletion gives the snapshot up, unless that itself is gone.
 */
async function blamingManifest<T>(manifest: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isGone = error instanceof MissingObjectError && error.key === manifest;
    if (!isLoss(error) || isGone) throw error;
    const reason = error.message.slice(error.key.length + 2);
    const explanation =
      `${reason}. Nothing is deleted while a snapshot that is to be kept lacks it; its manifest is ` +
      `${manifest}`;
    throw new CorruptObjectError(error.key, explanation, { cause: error });
  }
}
