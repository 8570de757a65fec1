import { Fault } from "../../schemas/errors.ts";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import type { OpenSources } from "../sources/sources.ts";
import { type CorruptObjectError, isLoss, type MissingObjectError } from "../store/errors.ts";
import { probeConditionalWrites } from "../store/open-storage.ts";
import { type RunLog, readRunLog, requireKey } from "../trust/log/believe.ts";
import { writeArchive } from "./archive-writer.ts";
import {
  type CommitOptions,
  commitSnapshot,
  type MadeArchive,
  type PublishReport,
} from "./commit-snapshot.ts";
import { type Allowance, archiveChanges, checkGuards, compareRun, requireFewProtocols } from "./guards.ts";
import { objectWriter } from "./object-writer.ts";
import { type Before, type PreviousSnapshot, readPreviousIfKept } from "./previous-snapshot.ts";
import { updateMutableObjects } from "./public/mutable-objects.ts";
import { type ReadSources, readSources } from "./read-sources.ts";

/** How often a run begins anew because it met a damaged object. Each time it reads the sources again. */
const maxTries = 16;

export interface PublishOptions extends CommitOptions {
  /** The run closes what it opens. */
  sources: OpenSources;
  /** A local folder for the external sort. A new or changed market of 3.3 kB needs about 1 kB there. */
  temporaryDirectory: string;
  /** Differences that the operator allows the guards to let pass. */
  allow?: Allowance;
  /** Called as the work advances; `of` is the value of `done` at the end of the step. */
  progress?: (step: string, done: number, of: number) => void;
  /** Publishes although a rollback put publishing on hold. */
  resume?: boolean;
}

/**
 * Builds a snapshot and commits it. Objects are written in this order: pages, segments and scores, manifest, commit,
 * public names. Sources with the content of the current snapshot make no new commit. When this throws, readers still
 * see the previous snapshot; after COMMIT_UNKNOWN they may see either.
 */
export async function publish(options: PublishOptions): Promise<PublishReport> {
  const log = await beginRun(options);
  // Bundling the site takes a quarter of a run that finds nothing new, and can go on beside the rest of it.
  if (!options.dryRun) options.site?.files(null).catch(() => {});
  const { sources: open, temporaryDirectory, progress = () => {} } = options;
  return retryWithoutDamaged({ ...options, storage: log.storage }, log.newest, async (previous) => {
    const before = { log, previous };
    const read = await readSources({ open, previous, temporaryDirectory, progress });
    try {
      return await commitSnapshot(options, await makeArchive(options, read, before), before);
    } finally {
      await read.close();
    }
  });
}

/** Compares what was read with the current snapshot, and writes pages and segments. */
async function makeArchive(options: PublishOptions, read: ReadSources, before: Before): Promise<MadeArchive> {
  const { storage, dryRun, warn, progress = () => {} } = options;
  const { previous } = before;
  const { kept, sides, markets: total } = read;
  requireFewProtocols(read.sources, read.scores.records.size);
  const compared = previous && sides && (await compareRun(previous, kept, sides));
  checkGuards(before, compared, read, options.allow);
  // Every row has passed validation and the guards. Nothing is written to the store before this point.
  if (!dryRun) await storage.removeLeftovers?.();
  let probed: Promise<void> | undefined;
  const ready = async () => {
    probed ??= probeConditionalWrites(storage);
    await probed;
  };
  const objects = objectWriter(storage, { present: previous?.keys, dryRun, ready, warn });
  const changes = archiveChanges(objectWriter(storage, { dryRun, ready }), compared, total);
  const written = (done: number) => progress("writing pages", done, total);
  const archive = await writeArchive(objects, previous, read, written, changes.take);
  if (archive.markets !== total)
    throw new Error(`${total} markets were read, but ${archive.markets} were written`);
  return { ...read, archive, objects, changes };
}

/**
 * Reads the log that a run goes on from; undefined `newest` means that it makes the first commit. While publishing is
 * on hold, ends what an interrupted rollback has begun, and refuses the run.
 */
export async function beginRun(options: PublishOptions): Promise<RunLog> {
  const { storage, resume = false, signing = {} } = options;
  const log = await readRunLog(storage, signing);
  const { newest: current } = log;
  if (!options.dryRun) requireKey(storage, current, signing);
  if (!current?.hold || resume) return log;
  // The rollback may have been interrupted before it updated the public names.
  if (!options.dryRun && signing.over !== current.entry.commit)
    await updateMutableObjects(storage, options, { commit: current, log }).catch((error) => {
      // Only a run that goes on makes lost objects anew.
      if (!isLoss(error)) throw error;
      options.warn?.(error.message);
    });
  const detail =
    `commit ${current.entry.commit} is a rollback, which puts publishing on hold; publish with --resume to end ` +
    "that";
  throw new Fault("PUBLISHING_ON_HOLD", `${storage.location}: ${detail}`);
}

/** Does work over the current snapshot, and repeats it without those objects that turn out damaged meanwhile. */
export async function retryWithoutDamaged<T>(
  options: Pick<PublishOptions, "storage" | "faulty" | "warn">,
  current: Commit | undefined,
  work: (previous: PreviousSnapshot | undefined) => Promise<T>,
): Promise<T> {
  const faulty = new Set(options.faulty);
  const damaged = ({ key, message }: CorruptObjectError | MissingObjectError) => {
    faulty.add(key);
    options.warn?.(`${message}; it is made again from the sources`);
  };
  for (let tries = 1; ; tries += 1) {
    // Without its manifest nothing can be reused, and every object is written again.
    const previous = current && (await readPreviousIfKept(options.storage, current, faulty, damaged));
    try {
      return await work(previous);
    } catch (error) {
      if (tries === maxTries || !previous?.isDamage(error)) throw error;
      damaged(error);
    }
  }
}
