import { Fault } from "../../../schemas/errors.ts";
import type { Commit, Manifest, PartRecord, PartsPlan } from "../../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../../schemas/versions.ts";
import { differingRows } from "../../changes/walk.ts";
import { rootOver } from "../../format/tree.ts";
import { type KeyRange, type Refusal, SourceRefusal } from "../../sources/sources.ts";
import { unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { scoresRootOf } from "../../store/manifest.ts";
import { objectsIn } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { type WrittenArchive, writeArchive } from "../archive-writer.ts";
import { commitSnapshot, type PublishReport, type SoundSources } from "../commit-snapshot.ts";
import { ExternalSort } from "../external-sort.ts";
import {
  type ArchiveDifference,
  archiveChanges,
  archiveSides,
  checkGuards,
  requireFewProtocols,
} from "../guards.ts";
import { objectWriter } from "../object-writer.ts";
import type { PreviousSnapshot } from "../previous-snapshot.ts";
import { beginRun, type PublishOptions, retryWithoutDamaged } from "../publish.ts";
import { readSources, sortMarkets } from "../read-sources.ts";
import { referToScores, renderScores } from "../score-objects.ts";
import {
  findPart,
  pinnedBy,
  plannedCommit,
  type Run,
  rangeOf,
  readParts,
  readPlan,
  requireSameRows,
  writePart,
} from "./plan-parts.ts";

export type PartOptions = Pick<
  PublishOptions,
  "sources" | "temporaryDirectory" | "storage" | "signing" | "progress" | "warn" | "faulty"
>;

/**
 * Makes one part of a run's archive, and records in the store what it made. A part that has been made is not made
 * again. Faults of the sources are recorded too and not thrown: the join reports them.
 */
export async function publishPart(options: PartOptions, name: string, part: number): Promise<PartRecord> {
  const run = { ...options, name };
  const plan = await readPlan(run);
  const planned = plan.parts[part - 1];
  if (!planned)
    throw new Fault("RUN_MISMATCH", `the run ${name} has ${plan.parts.length} parts, and none is ${part}`);
  const record = await findPart(run, plan, part);
  if (record && !record.refused) return record;
  const [started, before] = [performance.now(), process.cpuUsage()];
  const make = async () =>
    retryWithoutDamaged(options, await plannedCommit(run, plan), (previous) =>
      writeRange(run, plan, part, previous),
    );
  const result =
    planned.markets === 0
      ? nothing
      : await unless(SourceRefusal, make, ({ counted }) => ({ ...nothing, refused: [...counted] }));
  const used = process.cpuUsage(before);
  await writePart(run, {
    formatVersion,
    plan: plan.digest,
    part,
    ...result,
    seconds: {
      elapsed: (performance.now() - started) / 1e3,
      processor: (used.user + used.system) / 1e6,
    },
  });
  return (await findPart(run, plan, part))!;
}

type Part = Pick<PartRecord, "refused" | "segments" | "pages" | "markets" | "newestResolvedAt" | "objects">;

const nothing: Part = { segments: [], pages: 0, markets: 0, newestResolvedAt: 0, objects: [] };

/** `previous` is the snapshot that the run builds on. */
async function writeRange(
  run: PartOptions & Run,
  plan: PartsPlan,
  part: number,
  previous: PreviousSnapshot | undefined,
): Promise<Part> {
  const { storage, sources: open, temporaryDirectory, warn, progress = () => {} } = run;
  const { markets: total, keys } = plan.parts[part - 1]!;
  const range = rangeOf(plan, part);
  const others = { rowDigests: plan.rowDigests, files: filesBeside(range, plan.files) };
  const sources = await open(others, pinnedBy(plan));
  let sort: ExternalSort | undefined;
  try {
    requireSameRows(run, plan, sources.rowDigests);
    sort = await ExternalSort.create(temporaryDirectory, keys.slice(part === 1 ? 0 : 1));
    const reading = {
      previous,
      range,
      // Files may have more rows than the range.
      progress: (step: string, done: number) => progress(step, Math.min(done, total), total),
    };
    const read = { sources, sort, ...(await sortMarkets(reading, sources, sort)) };
    await sources.close();
    const objects = objectWriter(storage, { present: previous?.keys, warn });
    const archive = await writeArchive(objects, previous, read, (done) =>
      progress("writing pages", done, total),
    );
    if (read.markets !== total || archive.markets !== total)
      throw new Error(
        `part ${part} of ${total} markets has read ${read.markets} and written ${archive.markets}`,
      );
    await objects.writeHeld();
    return { ...archive, objects: [...objects.objects] };
  } finally {
    await Promise.allSettled([sort?.close(), sources.close()]);
  }
}

/** Files without a market of the range. They are not read, and not even fetched. */
function filesBeside({ from, before }: KeyRange, files: PartsPlan["files"]): PartsPlan["files"] {
  const [oldest, newest] = [from?.resolvedAt, before?.resolvedAt];
  return files.filter(
    (file) =>
      file.oldest === null ||
      file.newest === null ||
      (oldest !== undefined && file.newest < oldest) ||
      (newest !== undefined && file.oldest > newest),
  );
}

/**
 * Finishes a run whose parts have all been made, as `publish` finishes one of its own. A repeated join that was
 * interrupted after its commit finishes that.
 */
export async function joinParts(options: PublishOptions, name: string): Promise<PublishReport> {
  const { storage, allow, dryRun, warn } = options;
  const run = { ...options, name };
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
  const sources = await readSound(run, plan);
  requireFewProtocols(sources.sources, sources.scores.records.size);
  // An earlier join has made that commit if it has the same archive and scores.
  const { archiveRoot, scoresRoot } = current?.entry ?? {};
  const isOwn =
    archiveRoot === rootOver("archive", archive.segments).toString("hex") &&
    scoresRoot === scoresRootOf(referToScores(sources.scores));
  if (moved && !isOwn) throw lost(run, current);
  return retryWithoutDamaged(options, current, async (previous) => {
    const before = { log, previous };
    const compared = previous && (await differenceTo(storage, previous, archive));
    checkGuards(before, compared, { ...sources, markets: archive.markets }, allow);
    const objects = objectWriter(storage, { present: previous?.keys, dryRun, warn });
    for (const [key, bytes] of parts.flatMap((part) => part.objects))
      if (key.startsWith(layout.origins.prefix)) objects.hold(key, bytes);
      else objects.countWritten(key, bytes);
    const changes = archiveChanges(objectWriter(storage), compared, archive.markets);
    if (previous && changes.take)
      for await (const rows of differingRows(objectsIn(storage), previous.manifest, archive))
        await changes.take(rows);
    return commitSnapshot(options, { ...sources, archive, objects, changes }, before);
  });
}

function lost({ name, storage }: Run, current: Commit | undefined): Fault {
  const newest = current ? `is ${current.entry.commit} now` : "is gone";
  return new Fault(
    "COMMIT_LOST",
    `${storage.location}: the newest commit ${newest}, and not the one that the run ${name} builds on; plan another`,
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
async function readSound(run: PublishOptions & Run, plan: PartsPlan): Promise<SoundSources> {
  const sources = await run.sources({ rowDigests: plan.rowDigests, files: plan.files }, pinnedBy(plan));
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

/** Compares two stored archives, as far as the older one can be read. */
async function differenceTo(
  storage: Storage,
  { commit, segments, rows: { pages }, knowsPages }: PreviousSnapshot,
  archive: Pick<Manifest, "segments">,
): Promise<ArchiveDifference> {
  const sides = archiveSides(commit.entry.feedVersion);
  const older = { segments: segments.map(({ ref }) => ref) };
  const lost = new Set(pages.flatMap(({ usable, root }) => (usable ? [] : [root])));
  for await (const { before, after } of differingRows(objectsIn(storage), older, archive, undefined, lost)) {
    if (before) sides.add("before", before);
    if (after) sides.add("after", after);
  }
  return sides.difference(knowsPages && lost.size === 0);
}
