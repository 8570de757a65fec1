import { Fault } from "../../../schemas/errors.ts";
import type { PartRecord, PartsPlan } from "../../../schemas/store/parts.ts";
import { formatVersion } from "../../../schemas/versions.ts";
import { SourceRefusal } from "../../sources/contract/refusals.ts";
import type { KeyRange } from "../../sources/sources.ts";
import { unless } from "../../store/errors.ts";
import { writeArchive } from "../archive-writer.ts";
import { ExternalSort } from "../external-sort.ts";
import { snapshotWriter } from "../make-archive.ts";
import type { PreviousSnapshot } from "../previous-snapshot.ts";
import { overDamage, type PublishOptions } from "../publish.ts";
import { sortMarkets } from "../read-sources.ts";
import {
  findPart,
  pinnedBy,
  plannedCommit,
  type Run,
  rangeOf,
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
  const run: Run = { name, storage: options.storage, signing: options.signing };
  const plan = await readPlan(run);
  const planned = plan.parts[part - 1];
  if (!planned)
    throw new Fault("RUN_MISMATCH", `the run ${name} has ${plan.parts.length} parts, and none is ${part}`);
  const known = await findPart(run, plan, part);
  if (known && !known.refused) return known;
  const [started, before] = [performance.now(), process.cpuUsage()];
  const made = await makePart(options, run, plan, part);
  const used = process.cpuUsage(before);
  await writePart(run, {
    formatVersion,
    plan: plan.digest,
    part,
    ...made,
    seconds: {
      elapsed: (performance.now() - started) / 1e3,
      processor: (used.user + used.system) / 1e6,
    },
  });
  return (await findPart(run, plan, part))!;
}

type Made = Pick<PartRecord, "refused" | "segments" | "pages" | "markets" | "newestResolvedAt" | "objects">;

const nothing: Made = {
  segments: [],
  pages: 0,
  markets: 0,
  newestResolvedAt: 0,
  objects: [],
};

async function makePart(options: PartOptions, run: Run, plan: PartsPlan, part: number): Promise<Made> {
  if (plan.parts[part - 1]!.markets === 0) return nothing;
  const current = await plannedCommit(run, plan);
  const write = () =>
    overDamage(options, current, (previous) => writeRange(options, run, plan, part, previous));
  return unless(SourceRefusal, write, ({ counted }) => ({ ...nothing, refused: [...counted] }));
}

/** `previous` is the snapshot that the run builds on. */
async function writeRange(
  options: PartOptions,
  run: Run,
  plan: PartsPlan,
  part: number,
  previous: PreviousSnapshot | undefined,
): Promise<Made> {
  const { temporaryDirectory, progress = () => {} } = options;
  const { markets: total } = plan.parts[part - 1]!;
  const range = rangeOf(plan, part);
  const others = { rowDigests: plan.rowDigests, files: filesBeside(range, plan.files) };
  const sources = await options.sources(others, pinnedBy(plan));
  let sort: ExternalSort | undefined;
  try {
    requireSameRows(run, plan, sources.rowDigests);
    const cutPoints = plan.parts[part - 1]!.keys.slice(part === 1 ? 0 : 1);
    sort = await ExternalSort.create(temporaryDirectory, cutPoints);
    const reading = {
      previous,
      range,
      // Files may have more rows than the range.
      progress: (step: string, done: number) => progress(step, Math.min(done, total), total),
    };
    const read = { sources, sort, ...(await sortMarkets(reading, sources, sort)) };
    await sources.close();
    const objects = snapshotWriter(options, previous);
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
