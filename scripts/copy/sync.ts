import { open as openFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import {
  ApiError,
  type Changes,
  type Client,
  checkpointIn,
  ForkedLogError,
  IntegrityError,
  type Rows,
  verifyCheckpoint,
  verifyCopy,
} from "../../proxy/site/client/client.ts";
import { Fault, isFault } from "../../schemas/errors.ts";
import { idOfLine } from "../../snapshots/format/market-line.ts";
import { messageOf } from "../../snapshots/store/errors.ts";
import type { Progress } from "../cli.ts";
import type { CopyFolder, CopyState } from "./copy-folder.ts";
import { checkIndex, type PublishedIndex, uncheckedIn } from "./index-check.ts";
import { type CopyTree, LineWriter, linesOf, mergeChanges, treeOf, wholeLines } from "./lines.ts";

/** A run takes the whole archive when more markets differ, because it keeps the ids of all changes in memory. */
const maxChanges = 500_000;

/** The service answers with these when it no longer has a snapshot, or no longer knows the difference to it. */
const goneCodes = ["SNAPSHOT_EXPIRED", "SNAPSHOT_NOT_FOUND", "CURSOR_EXPIRED"];

export interface SyncParts {
  client: Client;
  published: PublishedIndex;
  copy: CopyFolder;
  /**
   * Public keys, one of which must have signed what is accepted, or the text of a policy that it must satisfy.
   * Undefined accepts unsigned archives.
   */
  trusted: string | readonly string[] | undefined;
  say: (line: string) => void;
  progress: Progress;
}

export interface SyncReport extends CopyState {
  how: "unchanged" | "changes" | "whole";
  /** Lines received by this run. */
  received: number;
  /** Sentences about the parts of the published index that this program cannot judge. */
  unchecked: string[];
}

/**
 * Brings a copy in step with the archive, once. When that fails, the old copy stays in place. The checkpoints of a
 * forked log are kept in the folder as evidence.
 */
export async function syncOnce(parts: SyncParts): Promise<SyncReport> {
  const report = await syncThrough(parts).catch(async (error: unknown) => {
    if (!(error instanceof ForkedLogError)) throw error;
    const file = await parts.copy.keepEvidence(error.checkpoints);
    const [before, now] = error.checkpoints.map((note) => checkpointIn(note).size) as [number, number];
    // A service that is only behind catches up, and the next run then goes on.
    const why = now < before ? "The service is far behind, or somebody took" : "Somebody took";
    error.message +=
      ` ${why} commits away, or signed others in their place: ask the operator. Both are kept in ` +
      `${file}. For what the service has now, use another folder (--to).`;
    throw error;
  });
  return { ...report, unchecked: uncheckedIn(await parts.copy.index()) };
}

type Taken = Omit<SyncReport, "unchecked">;

async function syncThrough(parts: SyncParts): Promise<Taken> {
  const { client, copy } = parts;
  const before = await copy.state();
  const { published, checkpoint } = await askCurrent(parts, before);
  const state = before && { ...before, ...(checkpoint !== undefined && { checkpoint }) };
  if (state?.snapshotId === published.snapshotId) {
    await requireKey(client);
    // Another commit of the same snapshot may have another index.
    if (state.commit !== published.commit || state.indexRoot === undefined) {
      const tree = await treeOf(copy.archive);
      if (tree.archiveRoot !== state.archiveRoot) return takeWhole(parts, state, published.snapshotId);
      const checked = await check(parts, { path: copy.archive, snapshotId: state.snapshotId, tree, before });
      await copy.note(checked.state, checked.index);
      return { ...checked.state, how: "unchanged", received: 0 };
    }
    if (state.checkpoint !== before?.checkpoint) await copy.note(state);
    return { ...state, how: "unchanged", received: 0 };
  }
  if (state) requireNewer(published.commit, state);
  const begun = await copy.download();
  const { snapshotId } = published;
  const changed = state && (await takeChanges(parts, state, snapshotId));
  const report = changed ?? (await takeWhole(parts, state, snapshotId));
  // The download of an earlier run may be superseded by now.
  if (!begun || report.snapshotId === published.snapshotId) return report;
  const { received, ...further } = await syncThrough(parts);
  return { ...further, how: report.how, received: report.received + received };
}

/** A checkpoint that is not there yet is asked for so often, a second apart. Caches hold one for 5 seconds. */
const maxQuestions = 6;

/**
 * Asks for the current snapshot and the log's checkpoint for it, undefined where no key is trusted; this costs no unit.
 * So no unit is spent on a snapshot that no trusted key has signed, or that the log has left behind, which may be
 * withdrawn. Throws IntegrityError when the checkpoint does not count, ForkedLogError when its log is not the one of
 * the last run, and ApiError when the service stays behind the log.
 */
async function askCurrent({ client, trusted }: SyncParts, state: CopyState | undefined) {
  const seen = state?.checkpoint;
  const least = seen === undefined ? 0 : checkpointIn(seen).size;
  for (let question = 1; ; question += 1) {
    const published = await client.status();
    if (!trusted) return { published, checkpoint: undefined };
    const { commit } = published;
    const checkpoint = await client.checkpoint().catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    });
    const { size } = await verifyCheckpoint(checkpoint, trusted).catch((error: unknown) => {
      // Witnesses cosign what a publisher has just signed, so too few may have done so yet.
      if (typeof trusted !== "string" || question === maxQuestions) throw error;
      return { size: 0 };
    });
    // A process of the service, or a cache in front of it, may be behind for a moment.
    if (size > 0 && seen !== undefined && (size >= least || question === maxQuestions))
      await client.requireSameLog(seen, checkpoint!);
    if (size === commit && size >= least) return { published, checkpoint: checkpoint! };
    if (question === maxQuestions) {
      const both = `The signed log ends with commit ${size}, and the service answers from commit ${commit}.`;
      if (size <= commit) throw new IntegrityError(both);
      const detail = `${both} It may take up the newest soon, or hides it: run again, and ask the operator.`;
      throw new ApiError("BEHIND", detail, { title: "The service is behind its log" });
    }
    // A publisher signs the log a moment after its commit, and a process of the service picks it up a moment later.
    await setTimeout(1000);
  }
}

/**
 * Asking for the current snapshot needs no key. Only this question, which costs no unit, shows that a key has ended.
 */
async function requireKey(client: Client): Promise<void> {
  const { plan } = await client.usage();
  if (plan !== "aegis")
    throw new Fault("KEY_REFUSED", `the archive needs a key of the aegis plan, and this one is of ${plan}`);
}

/** Returns undefined when the whole archive has to be taken instead. */
async function takeChanges(
  parts: SyncParts,
  state: CopyState,
  published: string,
): Promise<Taken | undefined> {
  const { client, copy, say } = parts;
  const begun = await copy.download();
  const resumed = begun?.kind === "changes" && begun.since === state.snapshotId ? begun : undefined;
  const path = copy.work("changes.ndjson");
  const skip = resumed ? await wholeLines(path) : 0;
  const changes = client.changes(state.snapshotId, { until: resumed?.snapshotId ?? published, skip });
  const open = async () => {
    const { snapshotId, count } = changes;
    if (count > maxChanges) return undefined;
    if (!resumed) await copy.begin({ kind: "changes", since: state.snapshotId, snapshotId, count });
    return new LineWriter(await openFile(path, "a"));
  };
  try {
    if (!(await receive(parts, changes, open, ({ line }) => line))) {
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
    // A fork of the log says nothing of what came.
    if (error instanceof ForkedLogError || !(gone || error instanceof IntegrityError)) throw error;
    await copy.discard();
    // The copy itself may be at fault. Then the service must not be blamed.
    if (!gone && !resumed && (await treeOf(copy.archive)).archiveRoot === state.archiveRoot) throw error;
    say(`${messageOf(error)} The whole archive is taken.`);
    return undefined;
  }
}

/** Takes the whole archive, and goes on from the lines that an earlier run received. */
async function takeWhole(
  parts: SyncParts,
  state: CopyState | undefined,
  published: string,
  again = true,
): Promise<Taken> {
  const { client, copy, say } = parts;
  const begun = await copy.download();
  const resumed = begun?.kind === "whole" ? begun : undefined;
  const path = copy.work("archive.ndjson");
  const skip = resumed ? await wholeLines(path) : 0;
  if (resumed) say(`${skip} of ${resumed.count} lines are here from an earlier run`);
  const rows = client.rows(resumed ? { cursor: resumed.cursor, skip } : { asOf: published });
  const open = async () => {
    const { snapshotId, cursor = "", count } = rows;
    if (!resumed) await copy.begin({ kind: "whole", snapshotId, cursor, count });
    return new LineWriter(await openFile(path, "a"));
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
    const { snapshotId } = await client.status();
    return takeWhole(parts, state, snapshotId, false);
  }
}

/** Writes the lines of an answer. Returns false when `open`, which knows its head, gives no writer for them. */
async function receive<T>(
  { progress }: SyncParts,
  answer: (Rows | Changes) & AsyncIterable<T>,
  open: () => Promise<LineWriter | undefined>,
  textOf: (item: T) => string,
): Promise<boolean> {
  let writer: LineWriter | undefined;
  try {
    for await (const item of answer) {
      writer ??= await open();
      if (!writer) return false;
      const full = writer.write(textOf(item));
      if (full) await full;
      if (full || answer.skip === answer.count) progress("lines received", answer.skip, answer.count);
    }
    // An answer without lines still has a head.
    writer ??= await open();
    return true;
  } finally {
    await writer?.close();
  }
}

async function takeUp(
  parts: SyncParts,
  snapshotId: string,
  before: CopyState | undefined,
): Promise<CopyState> {
  const { copy } = parts;
  const path = copy.work("archive.ndjson");
  const tree = await treeOf(path);
  try {
    const { state, index } = await check(parts, { path, snapshotId, tree, before });
    await copy.replace(state, index);
    return state;
  } catch (error) {
    // The next run must begin anew: it may find another snapshot.
    if (isFault(error, "WRONG_INDEX")) await copy.discard();
    throw error;
  }
}

/** An archive that came, and the state of the copy before. */
interface CopyArchive {
  path: string;
  snapshotId: string;
  tree: CopyTree;
  before: CopyState | undefined;
}

/** Checks that an archive was published, and that its index follows from it. Returns the state and index to keep. */
async function check(parts: SyncParts, archive: CopyArchive) {
  const { path, snapshotId, tree, before } = archive;
  const { copy, published, progress } = parts;
  const { segments: _, ...totals } = tree;
  const { entry, checkpoint } = await requirePublished(parts, archive);
  const { commit, indexRoot } = entry;
  if (before) requireNewer(commit, before);
  const index = await checkIndex({ path, tree, entry, earlier: await copy.index(), published, progress });
  const signed = checkpoint !== undefined && { checkpoint };
  const state: CopyState = { snapshotId, commit, indexRoot, ...signed, ...totals };
  return { state, index };
}

/**
 * Checks that the log has a commit of the archive that came, and that a trusted key signed it. Returns its entry and
 * the newest known checkpoint. Everything needed comes with the proof of any market.
 */
async function requirePublished(parts: SyncParts, { path, snapshotId, tree, before }: CopyArchive) {
  const { client, trusted } = parts;
  const id = await firstId(path);
  const ask = () =>
    client.proof(id, { asOf: snapshotId }).catch((error: unknown) => {
      const unknown = error instanceof ApiError && error.code === "MARKET_NOT_FOUND";
      throw unknown ? new IntegrityError("The service does not know the market that it sent first.") : error;
    });
  let answer = await ask();
  if (trusted && answer.checkpoint === null) {
    // The checkpoint was published meanwhile.
    await askCurrent(parts, before);
    answer = await ask();
  }
  const trust = { snapshotId, ...(trusted && { key: trusted }) };
  const { archiveRoot, lines: markets } = tree;
  const entry = await verifyCopy(answer, { archiveRoot, markets }, trust);
  const checkpoints = [before?.checkpoint, trusted && answer.checkpoint].filter(
    (note) => typeof note === "string",
  );
  // The service's processes may be at different commits.
  checkpoints.sort((a, b) => checkpointIn(a).size - checkpointIn(b).size);
  const [older, newer = older] = checkpoints;
  if (newer !== undefined) await client.requireSameLog(older!, newer);
  return { entry, checkpoint: newer };
}

async function firstId(path: string): Promise<string> {
  for await (const line of linesOf(path)) return idOfLine(line);
  throw new IntegrityError("The archive that came is empty.");
}

function requireNewer(commit: number, state: CopyState): void {
  if (commit >= state.commit) return;
  throw new IntegrityError(
    `The service answers from commit ${commit}, and this copy is of commit ${state.commit}. Commits never ` +
      "go back, not even when a snapshot is rolled back.",
  );
}

const isGone = (error: unknown) => error instanceof ApiError && goneCodes.includes(error.code);
