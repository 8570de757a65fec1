import { Fault } from "../../schemas/errors.ts";
import type { Commit } from "../../schemas/store/snapshot.ts";
import type { OpenSources } from "../sources/sources.ts";
import { type CorruptObjectError, isLoss, type MissingObjectError } from "../store/errors.ts";
import { type RunLog, readRunLog } from "../trust/log/believe.ts";
import { requireKey } from "../trust/signing.ts";
import { type FinishOptions, finishPublish, type PublishReport } from "./finish-publish.ts";
import { type Before, makeArchive } from "./make-archive.ts";
import { PreviousSnapshot } from "./previous/snapshot.ts";
import { updateMutableObjects } from "./public/mutable-objects.ts";
import { readSources } from "./read-sources.ts";

export type { PublishReport };

/** How often a run begins anew because it met a damaged object. Each time it reads the sources again. */
const maxTries = 16;

export interface ReadOptions {
  /** The run closes what it opens. */
  sources: OpenSources;
  /** A local folder for the external sort. A new or changed market of 3.3 kB needs about 1 kB there. */
  temporaryDirectory: string;
}

export interface PublishOptions extends FinishOptions, ReadOptions {
  /** Publishes although a rollback put publishing on hold. */
  resume?: boolean;
}

/**
 * Builds a snapshot and commits it. Objects are written in this order: pages, segments and scores, manifest, commit,
 * public names. Sources with the content of the current snapshot make no new commit. When this throws, readers still see
 * the previous snapshot; after COMMIT_UNKNOWN they may see either.
 */
export async function publish(options: PublishOptions): Promise<PublishReport> {
  const log = await logToFollow(options);
  const { newest: current, storage } = log;
  return overDamage({ ...options, storage }, current, (previous) =>
    publishAfter(options, { current, previous, log }),
  );
}

async function publishAfter(options: PublishOptions, before: Before): Promise<PublishReport> {
  const { sources: open, temporaryDirectory, progress = () => {} } = options;
  const read = await readSources({ open, previous: before.previous, temporaryDirectory, progress });
  try {
    return await finishPublish(options, await makeArchive(options, read, before), before);
  } finally {
    await read.close();
  }
}

/** Undefined `newest` means that the run makes the first commit. */
export async function logToFollow(options: Omit<PublishOptions, keyof ReadOptions>): Promise<RunLog> {
  const { storage, resume = false, signing = {} } = options;
  const log = await readRunLog(storage, signing);
  const { newest: current } = log;
  if (!options.dryRun) requireKey(storage, current, signing);
  if (!current?.hold || resume) return log;
  // The rollback may have been interrupted before it updated the public names.
  if (!options.dryRun && signing.over !== current.entry.commit)
    await updateMutableObjects(storage, options, { objects: new Map(), commit: current, log }).catch(
      (error) => {
        // Only a run that goes on makes lost objects anew.
        if (!isLoss(error)) throw error;
        options.warn?.(error.message);
      },
    );
  const detail =
    `commit ${current.entry.commit} is a rollback, which puts publishing on hold; publish with --resume to end ` +
    "that";
  throw new Fault("PUBLISHING_ON_HOLD", `${storage.location}: ${detail}`);
}

/** Does work over the current snapshot, and repeats it without those objects that turn out damaged meanwhile. */
export async function overDamage<T>(
  options: Pick<FinishOptions, "storage" | "faulty" | "warn">,
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
    const previous =
      current && (await PreviousSnapshot.readIfKept(options.storage, current, faulty, damaged));
    try {
      return await work(previous);
    } catch (error) {
      if (tries === maxTries || !previous?.isHurtBy(error)) throw error;
      damaged(error);
    }
  }
}
