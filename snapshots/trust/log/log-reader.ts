import { Fault } from "../../../schemas/errors.ts";
import type { ChangeFiles, Checked, Commit, ExportRecord } from "../../../schemas/store/stored-objects.ts";
import type { TreeHead } from "../../format/tree.ts";
import { CorruptObjectError, messageOf, unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { newestCommit, readCommit } from "../../store/log/commits.ts";
import { LogTree } from "../../store/log/tiles.ts";
import type { Storage } from "../../store/storage.ts";
import { believedPolicy } from "../notes/note-keys.ts";
import type { NotedCheckpoint } from "../notes/signed-note.ts";
import { judge, Trust, UntrustedError } from "../trust.ts";
import {
  anyCheckpoint,
  type CheckpointFile,
  keepEvidence,
  openCheckpointFile,
  storedCheckpoint,
} from "./checkpoints.ts";

type RecordKind = "commit" | "run" | "export";

/** Which records of a store a reader believes. Older commits are believed because the newest one leads back to them. */
export interface LogReader {
  /**
   * The newest commit; undefined when there is none. Where keys are trusted, it is that of the newest checkpoint which
   * counts. Throws CorruptObjectError when `start` is gone, or the log does not continue the one taken up before.
   */
  newest(start: Commit | undefined): Promise<Commit | undefined>;
  /** The checkpoint of the log that was taken up, or else the store's; undefined when there is none. */
  checkpoint(): Promise<NotedCheckpoint | undefined>;
  /** Why the newest that the store shows is not taken up; undefined when it is. */
  refusal(): string | undefined;
  /** `newest` is the number of the newest commit. */
  believesRun(run: Checked, newest: number): boolean;
  believesExport(key: string, record: ExportRecord | ChangeFiles): boolean;
  /** Remembers over restarts the log that was taken up. */
  remember(): Promise<void>;
}

/** A reader that believes whoever can write to the store. */
export function readAnyLog(storage: Storage): LogReader {
  return {
    async newest(start) {
      const commit = await newestCommit(storage, start?.entry.commit);
      if (!commit || !start || commit.entry.commit >= start.entry.commit) return commit;
      const reason = `it is gone, and commit ${commit.entry.commit} the newest`;
      throw new CorruptObjectError(layout.commit(start.entry.commit), reason);
    },
    checkpoint: () => anyCheckpoint(storage),
    refusal: () => undefined,
    believesRun: () => true,
    believesExport: () => true,
    async remember() {},
  };
}

/**
 * A reader that believes the holders of trusted keys. `file` keeps the newest checkpoint over restarts. `refused` is
 * called with the reason when a record of the newest state cannot be believed, and again only when the reason changes.
 */
export function readSignedLog(
  storage: Storage,
  trust: Trust,
  { file, refused }: { file?: CheckpointFile | undefined; refused: (error: Error) => void },
): LogReader {
  let taken: { checkpoint: NotedCheckpoint; commit: Commit } | undefined;
  /** The reason that was told last. */
  const reasons = new Map<RecordKind, string>();
  /** The digest of the run's record that named a commit above the newest when it was last looked at. */
  let aheadBefore: string | undefined;
  const tell = (what: RecordKind, error: Error | undefined) => {
    if (error && error.message !== reasons.get(what)) refused(error);
    if (error) reasons.set(what, error.message);
    else reasons.delete(what);
  };
  return {
    async newest() {
      const kept = file?.newest;
      const least = taken && taken.checkpoint.size >= (kept?.size ?? 0) ? taken.checkpoint : kept;
      const { checkpoint, refused: why } = await storedCheckpoint(storage, trust, least?.size);
      // A commit that nobody signed has no checkpoint. Whoever made it by mistake is to be told.
      const next = await judge(storage, trust, (checkpoint?.size ?? 0) + 1);
      tell("commit", next instanceof Error ? next : why);
      if (least) await requireContinued(storage, least, checkpoint, file);
      if (!checkpoint) return undefined;
      const commit = await lastOf(storage, checkpoint, taken?.commit);
      taken = { checkpoint, commit };
      return commit;
    },
    checkpoint: async () => taken?.checkpoint,
    refusal: () => reasons.get("commit"),
    believesRun(run, newest) {
      const ahead = run.commit > newest;
      // One that is signed shows that a commit was taken away, unless it was made since the log was read.
      const gone =
        ahead &&
        run.digest === aheadBefore &&
        new UntrustedError(
          layout.checked,
          `it is signed and names commit ${run.commit}, which the log does not have`,
        );
      const error = trust.refusalOf(layout.checked, run) ?? (gone || undefined);
      aheadBefore = ahead ? run.digest : undefined;
      tell("run", error);
      return error === undefined && !ahead;
    },
    believesExport(key, record) {
      const error = trust.refusalOf(key, record);
      tell("export", error);
      return error === undefined;
    },
    async remember() {
      if (taken) await file?.keep(taken.checkpoint.note);
    },
  };
}

/** Files that say whose log a reader believes, by the variables that name them. */
type TrustFiles = Partial<Record<"TRUST_POLICY" | "TRUSTED_KEYS" | "CHECKPOINT_FILE", string | undefined>>;

/** `warn` is told what is missing, `refused` as readSignedLog says. */
export async function openLogReader(
  storage: Storage,
  { TRUST_POLICY: policyFile, TRUSTED_KEYS: keys, CHECKPOINT_FILE: path }: TrustFiles,
  { warn, refused }: { warn: (line: string) => void; refused: (error: Error) => void },
): Promise<LogReader> {
  const policy = await usable(policyFile ? "TRUST_POLICY" : "TRUSTED_KEYS", () =>
    believedPolicy({ policy: policyFile, keys }),
  );
  if (!policy && path)
    throw new Fault(
      "CONFIG",
      "CHECKPOINT_FILE needs TRUST_POLICY or TRUSTED_KEYS, which say whose checkpoints count",
    );
  if (!policy) return readAnyLog(storage);
  if (!path)
    warn("CHECKPOINT_FILE is not set; after this start an older commit may be replayed as the newest");
  const file = path ? await usable("CHECKPOINT_FILE", () => openCheckpointFile(path)) : undefined;
  return readSignedLog(storage, new Trust(policy), { file, refused });
}

async function usable<T>(variable: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    throw new Fault("CONFIG", `${variable}: ${messageOf(error)}`, { cause: error });
  }
}

/** A trusted key signed two checkpoints that contradict each other. The message names both. */
export class ForkedLogError extends CorruptObjectError {
  override readonly code = "FORKED_LOG";
}

const describeTree = ({ size, head }: TreeHead) => `${size} entries with root ${head.toString("hex")}`;

/**
 * Throws ForkedLogError when a checkpoint is of another log than the one that was taken up before, and keeps both
 * beside `file`; CorruptObjectError when that cannot be told, because the newer one or its tiles are gone.
 */
async function requireContinued(
  storage: Storage,
  before: NotedCheckpoint,
  checkpoint: NotedCheckpoint | undefined,
  file: CheckpointFile | undefined,
): Promise<void> {
  const key = layout.logCheckpoint;
  const taken = `the log of ${describeTree(before)} that was taken up before`;
  if (!checkpoint) throw new CorruptObjectError(key, `it is gone, and so is ${taken}`);
  const head = await new LogTree(storage, checkpoint).headAt(before.size);
  if (head?.equals(before.head)) return;
  const reason = `it is of ${describeTree(checkpoint)}, which does not continue ${taken}`;
  if (!head) throw new CorruptObjectError(key, reason);
  if (file) await keepEvidence(file.path, before.note, checkpoint.note);
  throw new ForkedLogError(key, `${reason} (FORKED_LOG)`);
}

/** The last commit of a log, which tiles or commits show to be that. */
async function lastOf(storage: Storage, log: TreeHead, start: Commit | undefined): Promise<Commit> {
  const { size } = log;
  const commit = await readCommit(storage, size);
  const key = layout.commit(size);
  if (!commit) throw new CorruptObjectError(key, `it is gone, and ${layout.logCheckpoint} names it`);
  if (commit.digest === start?.digest) return commit;
  const tree = await unless(CorruptObjectError, () => LogTree.upTo(storage, commit));
  if (tree?.head.equals(log.head)) return commit;
  throw new CorruptObjectError(
    key,
    `its entry is not the last one of the signed log of ${describeTree(log)}`,
  );
}
