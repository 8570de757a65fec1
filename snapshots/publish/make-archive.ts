import { maxProtocols, type ObjectRef } from "../../schemas/store/stored-objects.ts";
import { ChangeRecordWriter, maxRecordLines } from "../changes/record.ts";
import { DetailCount, type MarketChanges, summaryOf } from "../changes/summary.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import type { Sources } from "../sources/sources.ts";
import { layout } from "../store/layout.ts";
import { probeConditionalWrites } from "../store/open-storage.ts";
import type { Storage } from "../store/storage.ts";
import { type TakeDifference, type WrittenArchive, writeArchive } from "./archive-writer.ts";
import { type Allowance, type ArchiveDifference, checkGuards, compareRun, requireAtMost } from "./guards.ts";
import { ObjectWriter } from "./object-writer.ts";
import type { Before, PreviousSnapshot } from "./previous-snapshot.ts";
import type { ReadSources } from "./read-sources.ts";
import type { ScoreObjects } from "./score-objects.ts";

export interface BuildOptions {
  storage: Storage;
  /** Does everything except writing to the store. */
  dryRun?: boolean;
  /** Differences that the operator allows the guards to let pass. */
  allow?: Allowance;
  /** Called with what the operator should know before the commit is made. */
  warn?: (line: string) => void;
  /** Called as the work advances; `of` is the value of `done` at the end of the step. */
  progress?: (step: string, done: number, of: number) => void;
}

/** Sources that were read and found sound. `fileRows` are in the order of the files. */
export interface SoundSources {
  sources: Pick<Sources, "files" | "scoreFiles" | "rowDigests">;
  fileRows: readonly number[];
  scores: ScoreObjects;
}

/** An archive whose pages and segments are written, with all that a run needs to finish a snapshot of it. */
export interface MadeArchive extends SoundSources {
  archive: WrittenArchive;
  /** Counts and writes the objects of the snapshot, and holds what only a new commit may need. */
  objects: ObjectWriter;
  changes: ArchiveChanges;
}

/** Compares what was read with the current snapshot, and writes pages and segments. */
export async function makeArchive(
  options: BuildOptions,
  read: ReadSources,
  before: Before,
): Promise<MadeArchive> {
  const { storage, dryRun = false, progress = () => {} } = options;
  const { previous } = before;
  const { kept, sides, markets: total } = read;
  requireFewProtocols(read);
  const compared = previous && sides && (await compareRun(previous, kept, sides));
  checkGuards(before, compared, read, options.allow);
  // Every row has passed validation and the guards. Nothing is written to the store before this point.
  if (!dryRun) await storage.removeLeftovers?.();
  let probed: Promise<void> | undefined;
  const probe = async () => {
    probed ??= probeConditionalWrites(storage);
    await probed;
  };
  const objects = snapshotWriter(options, previous, probe);
  const changes = new ArchiveChanges(new ObjectWriter(storage, new Set(), dryRun, probe), compared, total);
  const written = (done: number) => progress("writing pages", done, total);
  const archive = await writeArchive(objects, previous, read, written, changes.take);
  if (archive.markets !== total)
    throw new Error(`${total} markets were read, but ${archive.markets} were written`);
  return { ...read, archive, objects, changes };
}

/** Writes what the current snapshot does not have. `ready` is as in ObjectWriter. */
export function snapshotWriter(
  { storage, dryRun = false, warn }: Pick<BuildOptions, "storage" | "dryRun" | "warn">,
  previous: PreviousSnapshot | undefined,
  ready?: () => Promise<void>,
): ObjectWriter {
  const present = new Set(previous?.present.keys());
  if (previous) present.add(layout.manifest(previous.commit.manifest.hash));
  return new ObjectWriter(storage, present, dryRun, ready, warn);
}

/** Throws SourceRefusal when there are more protocols than a snapshot can have. */
export function requireFewProtocols({ sources, scores }: SoundSources): void {
  const name = nameOfAll(sources.scoreFiles, "protocol_scores");
  requireAtMost(name, scores.records.size, maxProtocols, "protocols");
}

/** Makes sure that the store can keep commits apart, and removes what killed writers left in it. */
export async function prepareStore(storage: Storage): Promise<void> {
  await probeConditionalWrites(storage);
  await storage.removeLeftovers?.();
}

/** Sums up and records what a run changes in the archive, while the rows that differ are walked. */
export class ArchiveChanges {
  readonly objects: ObjectWriter;
  readonly #compared: ArchiveDifference | undefined;
  readonly #markets: number;
  readonly #record: ChangeRecordWriter;
  readonly #details: DetailCount | undefined;

  /**
   * `objects` takes the record, which is no part of the snapshot. `compared` is undefined where there is nothing to
   * compare the archive of `markets` markets with.
   */
  constructor(objects: ObjectWriter, compared: ArchiveDifference | undefined, markets: number) {
    this.objects = objects;
    this.#compared = compared;
    this.#markets = markets;
    this.#record = new ChangeRecordWriter(objects);
    if (compared && isRecordable(compared)) this.#details = new DetailCount(compared.sides, compared.found);
  }

  /** Takes the rows that differ, oldest place first. Undefined when nobody looks at them. */
  get take(): TakeDifference | undefined {
    const details = this.#details;
    return (
      details &&
      (async (rows) => {
        details.add(rows);
        await this.#record.add(rows);
      })
    );
  }

  /** Undefined where damaged rows of the current snapshot would count as new. */
  get markets(): MarketChanges | undefined {
    const compared = this.#compared;
    if (!compared) return allNew(this.#markets);
    if (!compared.whole) return undefined;
    return { ...summaryOf(compared.sides, compared.found), details: this.#details?.details ?? null };
  }

  /** Null when there are no changes, or too many. */
  async finishRecord(since: string | undefined, until: string): Promise<ObjectRef | null> {
    const counts = this.markets;
    if (since === undefined || !counts || !this.#details) return null;
    return this.#record.finish({ since, until, counts });
  }
}

function isRecordable({ whole, found: { added, changed, removed } }: ArchiveDifference): boolean {
  return whole && added.length + 2 * changed.after.length + removed.length <= maxRecordLines;
}

/** The changes of the first snapshot, or of one whose predecessor is gone. */
function allNew(added: number): MarketChanges {
  return { added, changed: 0, removed: 0, first: { added: [], changed: [], removed: [] }, details: null };
}
