import { Fault } from "../../../schemas/errors.ts";
import type { PartRecord, PartsPlan } from "../../../schemas/store/parts.ts";
import type { Commit, Manifest } from "../../../schemas/store/stored-objects.ts";
import { differingRows } from "../../changes/walk.ts";
import { scoresRootOf } from "../../format/roots.ts";
import { rootOver } from "../../format/tree.ts";
import { type Refusal, SourceRefusal } from "../../sources/contract/refusals.ts";
import { isLoss } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { objectsIn } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import type { WrittenArchive } from "../archive-writer.ts";
import { type ArchiveDifference, ArchiveSides, checkGuards } from "../guards.ts";
import {
  ArchiveChanges,
  type MadeArchive,
  requireFewProtocols,
  type SoundSources,
  snapshotWriter,
} from "../make-archive.ts";
import { ObjectWriter } from "../object-writer.ts";
import type { Before, PreviousSnapshot } from "../previous-snapshot.ts";
import { beginRun, finishPublish, overDamage, type PublishOptions, type PublishReport } from "../publish.ts";
import { readSources } from "../read-sources.ts";
import { referToScores, renderScores } from "../score-objects.ts";
import { pinnedBy, type Run, readParts, readPlan, requireSameRows } from "./plan-parts.ts";

/**
 * Finishes a run whose parts have all been made, as `publish` finishes one of its own. A repeated join that was
 * interrupted after its commit finishes that. Throws COMMIT_LOST when the commit that the run builds on is no longer
 * the newest.
 */
export async function joinParts(options: PublishOptions, name: string): Promise<PublishReport> {
  const run: Run = { name, storage: options.storage, signing: options.signing };
  const plan = await readPlan(run);
  const parts = await readParts(run, plan);
  const log = await beginRun(options);
  const { newest: current } = log;
  const moved = current?.digest !== plan.commit?.digest;
  // Only the commit after that one can be the run's own.
  if (moved && current?.previous !== (plan.commit?.digest ?? null)) throw lost(run, current);
  const refusals = parts.flatMap(({ refused = [] }) => refused);
  if (refusals.length > 0) throw await refusalOf(options, plan, refusals);
  const archive = join(parts);
  const sources = await readSound(options, run, plan);
  requireFewProtocols(sources);
  if (moved && !isOf(current!, archive, sources)) throw lost(run, current);
  return overDamage(options, current, async (previous) => {
    const made = await compare(options, { archive, parts, sources }, { log, previous });
    return finishPublish(options, made, { log, previous });
  });
}

function lost({ name, storage }: Run, current: Commit | undefined): Fault {
  const newest = current ? `is ${current.entry.commit} now` : "is gone";
  return new Fault(
    "COMMIT_LOST",
    `${storage.location}: the newest commit ${newest}, and not the one that the run ${name} builds on; plan another`,
  );
}

/** Whether an earlier join has made this commit: it has the same archive and scores. */
function isOf(
  { entry: { archiveRoot, scoresRoot } }: Commit,
  { segments }: WrittenArchive,
  { scores }: SoundSources,
): boolean {
  return (
    archiveRoot === rootOver("archive", segments).toString("hex") &&
    scoresRoot === scoresRootOf(referToScores(scores))
  );
}

/**
 * The error of a run whose parts found the sources at fault. All sources are read once more, since each part has seen a
 * few of the rows, and a refusal names the first ones of each rule.
 */
async function refusalOf(
  { sources: open, temporaryDirectory, progress = () => {} }: PublishOptions,
  plan: PartsPlan,
  refusals: NonNullable<PartRecord["refused"]>,
): Promise<SourceRefusal> {
  try {
    const whole = () => open(undefined, pinnedBy(plan));
    await (await readSources({ open: whole, previous: undefined, temporaryDirectory, progress })).close();
  } catch (error) {
    if (error instanceof SourceRefusal) return error;
    throw error;
  }
  // What a part has seen is gone, such as a file that changed while it was read.
  const totals = new Map(refusals.map(({ rule, total }) => [rule, total]));
  return new SourceRefusal(
    refusals.map(({ total: _, ...refusal }) => refusal as Refusal),
    totals,
  );
}

function join(parts: readonly PartRecord[]): WrittenArchive {
  const sum = (of: "pages" | "markets") => parts.reduce((total, part) => total + part[of], 0);
  return {
    segments: parts.flatMap(({ segments }) => segments),
    pages: sum("pages"),
    markets: sum("markets"),
    newestResolvedAt: parts.findLast(({ markets }) => markets > 0)?.newestResolvedAt ?? 0,
  };
}

/** Reads the scores. The files of markets are not read again. */
async function readSound(
  { sources: open }: PublishOptions,
  run: Run,
  plan: PartsPlan,
): Promise<SoundSources> {
  const sources = await open({ rowDigests: plan.rowDigests, files: plan.files }, pinnedBy(plan));
  try {
    requireSameRows(run, plan, sources.rowDigests);
    const rows = new Map(plan.files.map((file) => [file.name, file.rows]));
    return {
      sources,
      scores: renderScores(await sources.scores()),
      fileRows: sources.files.map(({ name }) => rows.get(name)!),
    };
  } finally {
    await sources.close();
  }
}

interface Joined {
  archive: WrittenArchive;
  parts: readonly PartRecord[];
  sources: SoundSources;
}

/** Compares an archive that is already written with the current snapshot. */
async function compare(
  options: PublishOptions,
  { archive, parts, sources }: Joined,
  before: Before,
): Promise<MadeArchive> {
  const { storage, allow } = options;
  const { previous } = before;
  const compared = previous && (await differenceTo(storage, previous, archive));
  checkGuards(before, compared, { ...sources, markets: archive.markets }, allow);
  const objects = snapshotWriter(options, previous);
  for (const { objects: made } of parts)
    for (const [key, bytes] of made) {
      if (key.startsWith(layout.origins.prefix)) objects.hold(key, bytes);
      else objects.countWritten(key, bytes);
    }
  const changes = new ArchiveChanges(new ObjectWriter(storage, new Set(), false), compared, archive.markets);
  if (previous && changes.take)
    for await (const rows of differingRows(objectsIn(storage), previous.manifest, archive))
      await changes.take(rows);
  return { ...sources, archive, objects, changes };
}

/** Compares two stored archives. Damaged parts of the older one are not compared. */
async function differenceTo(
  storage: Storage,
  { commit, manifest, markets }: PreviousSnapshot,
  archive: Pick<Manifest, "segments">,
): Promise<ArchiveDifference> {
  const { feedVersion, counts } = commit.entry;
  const sides = new ArchiveSides(feedVersion);
  try {
    for await (const { before, after } of differingRows(objectsIn(storage), manifest, archive)) {
      if (before) sides.add("before", before);
      if (after) sides.add("after", after);
    }
    return await sides.difference(markets === counts.markets);
  } catch (error) {
    if (!isLoss(error)) throw error;
    return new ArchiveSides(feedVersion).difference(false);
  }
}
