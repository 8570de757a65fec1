import { hash } from "node:crypto";
import {
  ApiError,
  archiveRoot,
  type Changes,
  type Client,
  IntegrityError,
  linesFromEnd,
  type Rows,
  snapshotIdOf,
  verifyCheckpoint,
} from "../../proxy/site/client/client.js";
import type { Status } from "../../schemas/envelopes.ts";
import { messageOf } from "../../snapshots/store/errors.ts";
import { parseCheckpoint, type Stated } from "../../snapshots/trust/checkpoint.ts";
import { UsageError } from "../cli.ts";
import type { Progress } from "../progress.ts";
import type { CopyFolder, CopyState } from "./copy-folder.ts";
import { fileOf, LineWriter, linesOf, wholeLines } from "./lines.ts";
import { mergeChanges } from "./merge.ts";

/** A run takes the whole archive when more than this differs: it keeps the ids of all changes in memory. */
const maxChanges = 500_000;

/** Codes of the service when it no longer has a snapshot, or no longer knows the difference to it. */
const goneCodes = ["SNAPSHOT_EXPIRED", "SNAPSHOT_NOT_FOUND", "CURSOR_EXPIRED"];

/** The parts that a sync works with. */
export interface SyncParts {
  client: Client;
  copy: CopyFolder;
  /** Public keys, of which one must have signed what is taken up. Undefined when no signature is asked for. */
  trusted: readonly string[] | undefined;
  say: (line: string) => void;
  progress: Progress;
}

/** The result of a run. */
export interface SyncReport extends CopyState {
  how: "unchanged" | "changes" | "whole";
  /** Lines received by this run. */
  received: number;
}

/**
 * Brings a copy in step with the archive, once. Throws IntegrityError, with the old copy in place, when what came
 * cannot be what was published; ApiError when the service cannot be asked, or refuses the key; UsageError when the key
 * is of another plan.
 */
export async function syncOnce(parts: SyncParts): Promise<SyncReport> {
  const { client, copy } = parts;
  const published = await client.status();
  const state = await copy.state();
  await requireSigned(parts, published, state);
  if (state?.snapshotId === published.snapshotId) {
    await requireKey(client);
    return { ...state, how: "unchanged", received: 0 };
  }
  if (state) {
    requireNewer(published.commit, state);
    await requireLineage(parts, state);
  }
  const begun = await copy.download();
  const report = (state && (await takeChanges(parts, state))) ?? (await takeWhole(parts, state));
  // The transfer of an earlier run may be superseded by now.
  if (!begun || report.snapshotId === published.snapshotId) return report;
  const { received, ...further } = await syncOnce(parts);
  return { ...further, how: report.how, received: report.received + received };
}

/**
 * Asks for the checkpoint, which costs no unit, so that none is spent on an archive that no trusted key has signed. A
 * publish may come between the two questions, so what comes is checked again.
 */
async function requireSigned(
  { client, trusted }: SyncParts,
  { commit, snapshotId }: Pick<Status, "commit" | "snapshotId">,
  state: CopyState | undefined,
): Promise<void> {
  if (!trusted) return;
  const checkpoint = await client.checkpoint().catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  });
  const signed = await signedBy(trusted, checkpoint);
  if (signed.commit === commit && signed.snapshotId !== snapshotId) throw signedOther(signed);
  if (state) requireSame(signed, state);
}

/** What one of the keys signed. Throws IntegrityError. */
async function signedBy(trusted: readonly string[], checkpoint: string | null): Promise<Stated> {
  await verifyCheckpoint(checkpoint, trusted);
  return parseCheckpoint(checkpoint!);
}

/** Throws IntegrityError when the service has another commit under the number of the one that the copy is of. */
function requireSame({ commit, digest }: Stated, state: CopyState): void {
  if (commit === state.commit && digest !== (state.digest ?? digest)) throw forked(state);
}

const forked = ({ commit, snapshotId }: CopyState) =>
  new IntegrityError(
    `The log of the service does not lead back to commit ${commit}, of which this copy is, with snapshot ${snapshotId}: ` +
      "somebody took commits away, or had others signed in their place. Ask the operator; for what the service has now, use another folder (--to).",
  );

/**
 * Checks that what the service publishes follows the commit that the copy is of, which a trusted key signed. Costs one
 * unit. A commit that was collected is still in the log. Throws IntegrityError when it is not, or is another one there.
 */
async function requireLineage({ client, copy, trusted }: SyncParts, state: CopyState): Promise<void> {
  if (!trusted || state.digest === undefined) return;
  try {
    const id = await firstId(copy.archive);
    const { checkpoint } = await client.proof(id, { asOf: state.snapshotId });
    // The signature may be of a key that is no longer trusted. That it is of the same commit is enough.
    if (checkpoint !== null) requireSame(parseCheckpoint(checkpoint), state);
  } catch (error) {
    if (error instanceof ApiError && error.code === "SNAPSHOT_NOT_FOUND") throw forked(state);
    if (!isGone(error)) throw error;
  }
}

const signedOther = (signed: Pick<Status, "commit" | "snapshotId">) =>
  new IntegrityError(`The signature is of commit ${signed.commit} and snapshot ${signed.snapshotId}.`);

/** Everybody may ask what is current. Only this question, which costs no unit, shows that a key has ended. */
async function requireKey(client: Client): Promise<void> {
  const { plan } = await client.usage();
  if (plan !== "aegis")
    throw new UsageError(`the archive needs a key of the aegis plan, and this one is of ${plan}`);
}

/** Takes up what changed. Returns undefined when the whole archive has to be taken instead. */
async function takeChanges(parts: SyncParts, state: CopyState): Promise<SyncReport | undefined> {
  const { client, copy, say } = parts;
  const begun = await copy.download();
  const resumed = begun?.kind === "changes" && begun.since === state.snapshotId ? begun : undefined;
  const path = copy.work("changes.ndjson");
  const skip = resumed ? await wholeLines(path) : 0;
  const changes = client.changes(state.snapshotId, { until: resumed?.snapshotId, skip });
  const open = async () => {
    const { snapshotId, count } = changes;
    if (!resumed) await copy.begin({ kind: "changes", since: state.snapshotId, snapshotId, count });
    return LineWriter.open(path, { fresh: !resumed });
  };
  try {
    const few = () => changes.count <= maxChanges;
    if (!(await receive(parts, changes, open, ({ line }) => line, few))) {
      say(`${changes.count} markets differ; the whole archive is taken`);
      return undefined;
    }
    await mergeChanges(copy.archive, path, copy.work("archive.ndjson"));
    return {
      ...(await takeUp(parts, changes.snapshotId, state)),
      how: "changes",
      received: changes.skip - skip,
    };
  } catch (error) {
    const gone = isGone(error);
    if (!gone && !(error instanceof IntegrityError)) throw error;
    await copy.discard();
    // The copy may be at fault. Then the service must not be blamed.
    if (!gone && !resumed && (await rootOf(copy.archive)).archiveRoot === state.archiveRoot) throw error;
    say(`${messageOf(error)} The whole archive is taken.`);
    return undefined;
  }
}

/** Takes the whole archive, and goes on with what an earlier run received of it. */
async function takeWhole(parts: SyncParts, state: CopyState | undefined, again = true): Promise<SyncReport> {
  const { client, copy, say } = parts;
  const begun = await copy.download();
  const resumed = begun?.kind === "whole" ? begun : undefined;
  const path = copy.work("archive.ndjson");
  const skip = resumed ? await wholeLines(path) : 0;
  if (resumed) say(`${skip} of ${resumed.count} lines are here from an earlier run`);
  const rows = client.rows(resumed ? { cursor: resumed.cursor, skip } : {});
  const open = async () => {
    const { snapshotId, cursor = "", count } = rows;
    if (!resumed) await copy.begin({ kind: "whole", snapshotId, cursor, count });
    return LineWriter.open(path, { fresh: !resumed });
  };
  try {
    await receive(parts, rows, open, ({ text }) => text);
    return { ...(await takeUp(parts, rows.snapshotId, state)), how: "whole", received: rows.skip - skip };
  } catch (error) {
    const gone = isGone(error);
    if (!gone && !(error instanceof IntegrityError)) throw error;
    await copy.discard();
    // A power cut may have damaged the files of an earlier run, and a snapshot may have been withdrawn meanwhile.
    if (!again || !(gone || resumed)) throw error;
    say(`${messageOf(error)} The download begins anew.`);
    return takeWhole(parts, state, false);
  }
}

/** Writes the lines of an answer into a file. Returns false when `acceptable` refuses the answer by its head. */
async function receive<T>(
  { progress }: SyncParts,
  answer: (Rows | Changes) & AsyncIterable<T>,
  open: () => Promise<LineWriter>,
  textOf: (item: T) => string,
  acceptable = () => true,
): Promise<boolean> {
  let writer: LineWriter | undefined;
  try {
    for await (const item of answer) {
      if (!acceptable()) return false;
      writer ??= await open();
      const full = writer.write(textOf(item));
      if (full) await full;
      if (full || answer.skip === answer.count) progress("lines received", answer.skip, answer.count);
    }
    // An answer without lines has a head all the same.
    writer ??= await open();
    return true;
  } finally {
    await writer?.close();
  }
}

/** Checks the archive in the work folder, and puts it in place. */
async function takeUp(
  parts: SyncParts,
  snapshotId: string,
  before: CopyState | undefined,
): Promise<CopyState> {
  const { copy } = parts;
  const path = copy.work("archive.ndjson");
  const found = await rootOf(path);
  const { commit, digest } = await requirePublished(parts, path, snapshotId, found);
  if (before) requireNewer(commit, before);
  const state = { snapshotId, commit, ...(digest && { digest }), ...found };
  await copy.replace(state);
  return state;
}

type Found = Pick<CopyState, "archiveRoot" | "lines" | "bytes">;

/** The root of a file of lines in the archive's order, the number of its lines and its length. */
async function rootOf(path: string): Promise<Found> {
  await using file = await fileOf(path);
  const sha256 = (bytes: Uint8Array) => hash("sha256", bytes, "buffer");
  const { archiveRoot: root, markets } = await archiveRoot(linesFromEnd(file), { sha256 });
  return { archiveRoot: root, lines: markets, bytes: file.size };
}

/**
 * Checks that a snapshot's id commits to the archive that came, and that a trusted key signed a commit of it. Returns
 * that commit, with its digest where it was asked for. What else the id commits to comes with the proof of any market.
 */
async function requirePublished(
  { client, trusted }: SyncParts,
  path: string,
  snapshotId: string,
  { archiveRoot: root, lines }: Found,
): Promise<{ commit: number; digest?: string }> {
  const { proof, checkpoint, commit } = await client
    .proof(await firstId(path), { asOf: snapshotId })
    .catch((error: unknown) => {
      const unknown = error instanceof ApiError && error.code === "MARKET_NOT_FOUND";
      throw unknown ? new IntegrityError("The service does not know the market that it sent first.") : error;
    });
  const found = await snapshotIdOf({ archiveRoot: root, markets: lines }, proof);
  if (found !== snapshotId) {
    throw new IntegrityError(
      `What came is not the archive of snapshot ${snapshotId}: it has ${lines} markets and the root ${root}.`,
    );
  }
  if (!trusted) return { commit };
  const signed = await signedBy(trusted, checkpoint);
  if (signed.snapshotId === snapshotId && signed.commit === commit) return signed;
  throw signedOther(signed);
}

/** The id in the first line of an archive. */
async function firstId(path: string): Promise<string> {
  for await (const line of linesOf(path)) return line.toString("latin1", 7, 43);
  throw new IntegrityError("The archive that came is empty.");
}

function requireNewer(commit: number, state: CopyState): void {
  if (commit >= state.commit) return;
  throw new IntegrityError(
    `The service answers from commit ${commit}, and this copy is of commit ${state.commit}. Commits never go back, not even when a snapshot is rolled back.`,
  );
}

const isGone = (error: unknown) => error instanceof ApiError && goneCodes.includes(error.code);
