import { crc32 } from "node:zlib";
import { Fault } from "../../../schemas/errors.ts";
import type { Commit, PartRecord, PartsPlan } from "../../../schemas/store/stored-objects.ts";
import { feedVersion, formatVersion } from "../../../schemas/versions.ts";
import { Cutter } from "../../format/bytes.ts";
import type { MarketKey } from "../../format/market-line.ts";
import { unicodeVersion } from "../../index/encode-words.ts";
import type { KeyRange, NamedContent, PinnedFiles, Sources } from "../../sources/sources.ts";
import { FormatError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { type Kind, layout } from "../../store/layout.ts";
import { readCommit } from "../../store/log/commits.ts";
import { readRecord } from "../../store/objects.ts";
import { probeConditionalWrites } from "../../store/open-storage.ts";
import type { Storage } from "../../store/storage.ts";
import { type Signing, trustOf } from "../../trust/log/believe.ts";
import { sealSigned } from "../../trust/notes/signed-note.ts";
import { UntrustedError } from "../../trust/trust.ts";
import { beginRun, type PublishOptions } from "../publish.ts";
import { bucketMarkets, readSources } from "../read-sources.ts";

/** A position where a part may begin: no page or segment crosses it. */
interface Edge extends MarketKey {
  ordinal: number;
}

/**
 * Divides a publish run into `count` parts of about the same size, and stores the plan. Reads only ids and times of the
 * sources. A plan that the run already has stays, and must have been made from the same.
 */
export async function planParts(options: PublishOptions, name: string, count: number): Promise<PartsPlan> {
  const { storage, signing, sources: open, progress = () => {} } = options;
  const run: Run = { name, storage, signing };
  const { newest: current } = await beginRun(options);
  const startedAt = options.now().toISOString();
  const sources = await open(undefined);
  try {
    const same = async () => {
      const plan = await readPlan(run);
      const hashes = (files: readonly NamedContent[]) =>
        files.map((file) => `${file.name} ${file.hash}`).join("\n");
      const differs = Object.entries({
        commit: plan.commit?.digest !== current?.digest,
        "number of parts": plan.parts.length !== count,
        version: plan.rowDigests !== sources.rowDigests,
        sources:
          hashes(plan.files) !== hashes(sources.files) ||
          hashes(plan.scoreFiles) !== hashes(sources.scoreFiles),
      }).flatMap(([what, other]) => (other ? [what] : []));
      if (differs.length === 0) return plan;
      throw new Fault(
        "RUN_MISMATCH",
        `${storage.location}: the run ${name} was planned before, with another ${differs.join(", ")}; ` +
          "choose another --run",
      );
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
    await probeConditionalWrites(storage);
    await storage.removeLeftovers?.();
    const key = layout.runPlan(name);
    const plan: Unsealed<PartsPlan> = {
      formatVersion,
      feedVersion,
      rowDigests: sources.rowDigests,
      unicode: unicodeVersion,
      commit: current ? { commit: current.entry.commit, digest: current.digest } : null,
      startedAt,
      files: sources.files.map(({ unchanged: _, ...file }, index) => ({ ...file, ...keys.files[index]! })),
      scoreFiles: [...sources.scoreFiles],
      parts: divide(keys, count),
    };
    await storage.putIfAbsent(key, sealSigned(signing?.key, key, plan));
    // Another process may have planned the run meanwhile.
    return await same();
  } finally {
    await sources.close();
  }
}

type Keys = Awaited<ReturnType<typeof readKeys>>;

async function readKeys(sources: Sources, progress: (done: number) => void) {
  const cutter = new Cutter();
  const keys = {
    markets: 0,
    /** Where segments begin, without the first. */
    edges: [] as Edge[],
    /** Where a bucket of a part's sort may begin, segments included. */
    buckets: [] as Edge[],
    /** Of each file the number of markets, and the times of the oldest and the newest. */
    files: sources.files.map((): Pick<PartsPlan["files"][number], "rows" | "oldest" | "newest"> => {
      return { rows: 0, oldest: null, newest: null };
    }),
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
      segmentEnded = cutter.next(crc32(id)) === "segment";
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

/** A run in parts: the store is where its parts meet, and `signing` signs what they leave there for one another. */
export interface Run {
  name: string;
  storage: Storage;
  signing?: Signing | undefined;
}

type Unsealed<Record> = Omit<Record, "digest" | "note">;

/** Replaces what an earlier try left. */
export async function writePart({ name, storage, signing }: Run, part: Unsealed<PartRecord>): Promise<void> {
  const key = layout.runPart(name, part.part);
  await storage.put(key, sealSigned(signing?.key, key, part));
}

/** Undefined when the run has no plan. */
function findPlan(run: Run): Promise<PartsPlan | undefined> {
  return readTrusted(run, layout.runPlan, run.name);
}

export async function readPlan(run: Run): Promise<PartsPlan> {
  const key = layout.runPlan(run.name);
  const plan = await findPlan(run);
  if (!plan)
    throw new Fault("PARTS_MISSING", `${run.storage.location}: ${key} is missing; publish with --plan first`);
  const ours = { feedVersion, unicode: unicodeVersion };
  for (const [what, own] of Object.entries(ours)) {
    const planned = plan[what as keyof typeof ours];
    if (planned !== own)
      throw new FormatError(
        key,
        `it was made with ${what} ${planned}, and this program has ${own}: ${sameProgram}`,
      );
  }
  return plan;
}

const sameProgram = "use the same version of program and Node for all parts of a run";

/** Another version of DuckDB, or of the rules for sources, makes other digests of rows. */
export function requireSameRows({ name }: Run, { rowDigests: planned }: PartsPlan, own: string): void {
  if (planned === own) return;
  const reason = `it was made by rules for rows ${planned}, and this program has ${own}: ${sameProgram}`;
  throw new FormatError(layout.runPlan(name), reason);
}

/** Undefined when the part has recorded nothing for this plan. */
export async function findPart(run: Run, plan: PartsPlan, part: number): Promise<PartRecord | undefined> {
  const record = await readTrusted(run, layout.runPart, run.name, part);
  return record?.plan === plan.digest && record.part === part ? record : undefined;
}

/** In order. */
export async function readParts(run: Run, plan: PartsPlan): Promise<PartRecord[]> {
  const records = await inParallel(plan.parts.keys(), (index) => findPart(run, plan, index + 1));
  const missing = records.flatMap((record, index) => (record ? [] : [index + 1]));
  if (missing.length === 0) return records as PartRecord[];
  const parts = missing.map((part) => layout.runPart(run.name, part)).join(", ");
  const commands = missing.map((part) => `\n  publish … --part ${part} --run ${run.name}`).join("");
  throw new Fault(
    "PARTS_MISSING",
    `${run.storage.location}: missing ${parts}; make each, and join again:${commands}`,
  );
}

async function readTrusted<Name extends unknown[], T extends { digest: string; note?: string | undefined }>(
  { storage, signing = {} }: Run,
  kind: Kind<Name, T>,
  ...name: Name
): Promise<T | undefined> {
  const record = await readRecord(storage, kind, name, { fresh: true });
  if (!record) return undefined;
  const key = kind(...name);
  const needsKey = record.note !== undefined && !signing.key && !signing.unsigned;
  const refusal = needsKey
    ? new UntrustedError(key, "it is signed, and SIGNING_KEY is not set")
    : trustOf(signing)?.refusalOf(key, record);
  if (!refusal) return record;
  const wayOut = "Give SIGNING_KEY to the plan, all parts and the join of a run, and plan another";
  throw new Fault("UNTRUSTED_PREDECESSOR", `${storage.location}: ${refusal.message}. ${wayOut}`, {
    cause: refusal,
  });
}

/** The commit on which a run builds; undefined where it makes the first. */
export async function plannedCommit({ storage }: Run, { commit }: PartsPlan): Promise<Commit | undefined> {
  const stored = commit ? await readCommit(storage, commit.commit) : undefined;
  if (stored?.digest === commit?.digest) return stored;
  throw new Fault(
    "RUN_MISMATCH",
    `${storage.location}: ${layout.commit(commit!.commit)} is not the commit that the run was planned on; plan another`,
  );
}

/** What the sources of all parts of a run must be. */
export function pinnedBy({ startedAt, files, scoreFiles }: PartsPlan): PinnedFiles {
  return { now: new Date(startedAt), files: [...files, ...scoreFiles] };
}

/** `part` counts from 1. */
export function rangeOf({ parts }: PartsPlan, part: number): KeyRange {
  const [from, before] = [parts[part - 1], parts.slice(part).find(({ markets }) => markets > 0)];
  return { from: part === 1 ? undefined : from?.keys[0], before: before?.keys[0] };
}
