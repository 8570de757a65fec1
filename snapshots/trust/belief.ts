import type { Checked, Commit, ExportRecord } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { newestCommit } from "../store/log/commits.ts";
import type { Storage } from "../store/storage.ts";
import type { CheckpointFile } from "./checkpoint-file.ts";
import { type Known, Lineage } from "./lineage.ts";
import { newestTrusted } from "./newest-trusted.ts";
import { type Trust, UntrustedError } from "./trust.ts";

/** Kinds of records, each with the last reason that was told. */
type RecordKind = "commit" | "run" | "export";

/** Which records of a store a reader believes. Older commits are believed because the newest one leads back to them. */
export interface Belief {
  /**
   * The newest commit; undefined when there is none. Throws CorruptObjectError when the one that is known is gone, or, where
   * keys are trusted, when the newest does not lead back to it; or StorageError.
   */
  newest(known: Known | undefined): Promise<Commit | undefined>;
  /** What is believed of an older commit's checkpoint; undefined where that is nothing. */
  checkpointOf(commit: Commit): string | undefined;
  /** Whether the record of a publish run is believed, where `newest` is the number of the newest commit. */
  believesRun(run: Checked, newest: number): boolean;
  /** Whether the record of an export is believed. */
  believesExport(record: ExportRecord): boolean;
  /** Remembers that the commit of this checkpoint was taken up. Throws CheckpointFileError. */
  remember(checkpoint: string): Promise<void>;
}

/** A reader that believes whoever can write to the store. */
export function believeAll(storage: Storage): Belief {
  return {
    async newest(known) {
      const commit = await newestCommit(storage, known?.commit);
      if (!commit || !known || commit.commit >= known.commit) return commit;
      const reason = `it is gone, and commit ${commit.commit} the newest`;
      throw new CorruptObjectError(layout.commit(known.commit), reason);
    },
    checkpointOf: ({ checkpoint }) => checkpoint,
    believesRun: () => true,
    believesExport: () => true,
    async remember() {},
  };
}

/**
 * A reader that believes the holders of trusted keys. `file` keeps the newest checkpoint over restarts. `refused` is called
 * with the reason when a record of the newest state cannot be believed, and again only when the reason changes.
 */
export function believeSigned(
  storage: Storage,
  trust: Trust,
  { file, refused }: { file?: CheckpointFile | undefined; refused: (error: Error) => void },
): Belief {
  const lineage = new Lineage(storage);
  const told = new Map<RecordKind, string>();
  /** The digest of the run's record that named a commit above the newest when it was last looked at. */
  let aheadBefore: string | undefined;
  const tell = (what: RecordKind, error: Error | undefined) => {
    if (error && error.message !== told.get(what)) refused(error);
    if (error) told.set(what, error.message);
    else told.delete(what);
  };
  return {
    async newest(known) {
      const kept = file?.newest;
      const least = kept && kept.commit > (known?.commit ?? 0) ? kept : known;
      const found = await newestTrusted(storage, trust, least?.commit ?? 0);
      tell("commit", found.refused[0]);
      const { commit } = found;
      if (!least || commit?.digest === least.digest) return commit;
      if (commit && commit.commit > least.commit) {
        await lineage.require(commit, least);
        return commit;
      }
      const reason = commit
        ? "a trusted key signed another one before"
        : "it was taken up before, and is gone";
      throw new CorruptObjectError(layout.commit(least.commit), reason);
    },
    checkpointOf(commit) {
      const trusted = trust.commit(commit);
      return trusted instanceof Error ? undefined : trusted.checkpoint;
    },
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
      const error = trust.run(run) ?? (gone || undefined);
      aheadBefore = ahead ? run.digest : undefined;
      tell("run", error);
      return error === undefined && !ahead;
    },
    believesExport(record) {
      const error = trust.export(record);
      tell("export", error);
      return error === undefined;
    },
    async remember(checkpoint) {
      await file?.keep(checkpoint);
    },
  };
}
