import { Fault } from "../../../schemas/errors.ts";
import type { PartRecord, PartsPlan } from "../../../schemas/store/parts.ts";
import type { Commit } from "../../../schemas/store/snapshot.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { unicodeVersion } from "../../index/encode-words.ts";
import type { KeyRange, PinnedFiles } from "../../sources/sources.ts";
import { FormatError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { type Kind, layout } from "../../store/layout.ts";
import { readCommit } from "../../store/log/commits.ts";
import { readRecord, seal } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { signRecord, subjectOf } from "../../trust/notes/texts.ts";
import { refuseUntrustedRun, type Signing, trustOf } from "../../trust/signing.ts";
import { UntrustedError } from "../../trust/trust.ts";

/** A run in parts: the store is where its parts meet, and `signing` signs what they leave there for one another. */
export interface Run {
  name: string;
  storage: Storage;
  signing?: Signing | undefined;
}

type Unsealed<Record> = Omit<Record, "digest" | "note">;

/** Returns false when the run already has a plan. */
export function writePlan({ name, storage, signing }: Run, plan: Unsealed<PartsPlan>): Promise<boolean> {
  const key = layout.runPlan(name);
  return storage.putIfAbsent(key, sealed(key, plan, signing));
}

/** Replaces what an earlier try left. */
export async function writePart({ name, storage, signing }: Run, part: Unsealed<PartRecord>): Promise<void> {
  const key = layout.runPart(name, part.part);
  await storage.put(key, sealed(key, part, signing));
}

function sealed(key: string, record: object, signing: Signing = {}): Buffer {
  return seal(record, signRecord(signing.key, subjectOf.ofRun(key)));
}

/** Undefined when the run has no plan. Throws UNTRUSTED_PREDECESSOR when nobody trusted made it. */
export function findPlan(run: Run): Promise<PartsPlan | undefined> {
  return readTrusted(run, layout.runPlan, run.name);
}

/** Throws PARTS_MISSING when there is no plan, FormatError when this program cannot go on with it. */
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

/** Throws FormatError when another version of DuckDB, or of the rules for sources, made the plan. */
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

/** In order. Throws PARTS_MISSING, which names those that are missing. */
export async function readParts(run: Run, plan: PartsPlan): Promise<PartRecord[]> {
  const found: (PartRecord | undefined)[] = plan.parts.map(() => undefined);
  await inParallel(plan.parts.keys(), async (index) => {
    found[index] = await findPart(run, plan, index + 1);
  });
  const missing = found.flatMap((record, index) => (record ? [] : [index + 1]));
  if (missing.length === 0) return found as PartRecord[];
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
    : trustOf(signing)?.ofRun(key, record);
  if (refusal) throw refuseUntrustedRun(storage.location, refusal);
  return record;
}

/**
 * The commit on which a run builds; undefined where it makes the first. Throws RUN_MISMATCH when that number is another
 * commit now.
 */
export async function plannedCommit({ storage }: Run, { commit }: PartsPlan): Promise<Commit | undefined> {
  const found = commit ? await readCommit(storage, commit.commit) : undefined;
  if (found?.digest === commit?.digest) return found;
  throw new Fault(
    "RUN_MISMATCH",
    `${storage.location}: ${layout.commit(commit!.commit)} is not the commit that the run was planned on; plan another`,
  );
}

/** What the sources of all parts of a run must be. */
export function pinnedBy({ startedAt, files, scoreFiles }: PartsPlan): PinnedFiles {
  return { now: new Date(startedAt), files: [...files, ...scoreFiles] };
}

/** The markets of a part. */
export function rangeOf({ parts }: PartsPlan, part: number): KeyRange {
  const [from, before] = [parts[part - 1], parts.slice(part).find(({ markets }) => markets > 0)];
  return { from: part === 1 ? undefined : from?.keys[0], before: before?.keys[0] };
}
