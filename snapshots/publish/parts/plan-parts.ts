import { Fault } from "../../../schemas/errors.ts";
import type { PartsPlan } from "../../../schemas/store/parts.ts";
import { type Commit, formatVersion } from "../../../schemas/store/snapshot.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { Cutter } from "../../format/cutter.ts";
import { unicodeVersion } from "../../index/encode-words.ts";
import type { CutPoint, NamedContent, Sources } from "../../sources/sources.ts";
import { prepareStore } from "../make-archive.ts";
import { logToFollow, type PublishOptions } from "../publish.ts";
import { bucketMarkets, readSources } from "../read-sources.ts";
import { findPlan, type Run, readPlan, writePlan } from "./run-records.ts";

/** A position where a part may begin: no page or segment crosses it. */
interface Edge extends CutPoint {
  ordinal: number;
}

interface Keys {
  markets: number;
  /** Where segments begin, without the first. */
  edges: Edge[];
  /** Where a bucket of a part's sort may begin, segments included. */
  buckets: Edge[];
  /** For each file: its number of markets, and the times of the oldest and the newest. */
  files: { rows: number; oldest: number | null; newest: number | null }[];
}

/**
 * Divides a publish run into `count` parts of about the same size, and stores the plan. Reads only ids and times of the
 * sources. A plan that the run already has stays; throws RUN_MISMATCH when it was made from something else.
 */
export async function planParts(options: PublishOptions, name: string, count: number): Promise<PartsPlan> {
  const { storage, signing, sources: open, progress = () => {} } = options;
  const run: Run = { name, storage, signing };
  const { newest: current } = await logToFollow(options);
  const startedAt = options.now().toISOString();
  const sources = await open(undefined);
  try {
    const same = async () => {
      const plan = await readPlan(run);
      requireSame(run, plan, { current, count, sources });
      return plan;
    };
    if (await findPlan(run)) return await same();
    // Refuses bad scores as early as a run of one part does.
    await sources.scores();
    const keys = await readKeys(sources, (done) => progress("planning", done, sources.marketCount));
    // The other rows have an id or a time that breaks a rule. A run of one part names them, and what else is wrong.
    if (keys.markets < sources.marketCount) {
      const { temporaryDirectory } = options;
      const read = await readSources({ open, previous: undefined, temporaryDirectory, progress });
      await read.close();
      throw new Error("the id or time of a row broke a rule, but a second look found none");
    }
    await prepareStore(storage);
    await writePlan(run, {
      formatVersion,
      feedVersion,
      rowDigests: sources.rowDigests,
      unicode: unicodeVersion,
      commit: current ? { commit: current.entry.commit, digest: current.digest } : null,
      startedAt,
      files: sources.files.map(({ unchanged: _, ...file }, index) => ({ ...file, ...keys.files[index]! })),
      scoreFiles: [...sources.scoreFiles],
      parts: divide(keys, count),
    });
    // Another process may have planned the run meanwhile.
    return await same();
  } finally {
    await sources.close();
  }
}

/** Throws RUN_MISMATCH unless the plan was made from the same. */
function requireSame(
  { name, storage }: Run,
  plan: PartsPlan,
  { current, count, sources }: { current: Commit | undefined; count: number; sources: Sources },
): void {
  const hashes = (files: readonly NamedContent[]) =>
    files.map((file) => `${file.name} ${file.hash}`).join("\n");
  const differs = [
    ["commit", plan.commit?.digest !== current?.digest],
    ["number of parts", plan.parts.length !== count],
    ["version", plan.rowDigests !== sources.rowDigests],
    [
      "sources",
      hashes(plan.files) !== hashes(sources.files) || hashes(plan.scoreFiles) !== hashes(sources.scoreFiles),
    ],
  ].flatMap(([what, other]) => (other ? [what] : []));
  if (differs.length === 0) return;
  throw new Fault(
    "RUN_MISMATCH",
    `${storage.location}: the run ${name} was planned before, with another ${differs.join(", ")}; ` +
      "choose another --run",
  );
}

async function readKeys(sources: Sources, progress: (done: number) => void): Promise<Keys> {
  const cutter = new Cutter();
  const keys: Keys = {
    markets: 0,
    edges: [],
    buckets: [],
    files: sources.files.map(() => ({ rows: 0, oldest: null, newest: null })),
  };
  let [segmentEnded, sinceBucket] = [false, 0];
  for await (const batch of sources.keys()) {
    for (const { resolvedAt, id, file } of batch) {
      const edge = { resolvedAt, id, ordinal: keys.markets };
      if (segmentEnded) keys.edges.push(edge);
      if (segmentEnded || sinceBucket === bucketMarkets) {
        keys.buckets.push(edge);
        sinceBucket = 0;
      }
      segmentEnded = cutter.next(id) === "segment";
      sinceBucket += 1;
      keys.markets += 1;
      const of = keys.files[file - 1]!;
      of.rows += 1;
      of.oldest ??= resolvedAt;
      of.newest = resolvedAt;
    }
    progress(keys.markets);
  }
  return keys;
}

/** Parts begin where segments do, as near to equal shares as these allow. The last ones may have no markets. */
function divide({ markets, edges, buckets }: Keys, count: number): PartsPlan["parts"] {
  const starts: Edge[] = [];
  for (let part = 1; part < count; part += 1) {
    const wanted = (part * markets) / count;
    const after = edges.filter(({ ordinal }) => ordinal > (starts.at(-1)?.ordinal ?? 0));
    const distance = ({ ordinal }: Edge) => Math.abs(ordinal - wanted);
    const nearest = after.reduce<Edge | undefined>(
      (best, edge) => (best && distance(best) <= distance(edge) ? best : edge),
      undefined,
    );
    if (nearest) starts.push(nearest);
  }
  return Array.from({ length: count }, (_, part) => {
    const [from, before] = [part === 0 ? 0 : starts[part - 1]?.ordinal, starts[part]?.ordinal ?? markets];
    if (from === undefined) return { markets: 0, keys: [] };
    const keys = buckets.filter(({ ordinal }) => from <= ordinal && ordinal < before);
    return {
      markets: before - from,
      keys: keys.map(({ resolvedAt, id }) => ({ resolvedAt, id })),
    };
  });
}
