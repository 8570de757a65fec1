import type { Commit } from "../../schemas/store/stored-objects.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";

/** Why the current commit cannot stay. */
export type Reason =
  /** The store has no commit. */
  | "first"
  /** The sources have other content than the current snapshot. */
  | "content"
  /** A rollback put publishing on hold, and the operator resumes it. */
  | "hold"
  /** Objects of the current snapshot were lost, and those made in their place have other names. */
  | "objects"
  /** Segments lacked a column for a filter and were made anew. */
  | "index"
  /** The current commit does not carry the signature of this run's key: there was none, or the key was changed. */
  | "signature";

/** What a run does with the snapshot that it built. */
export interface RunPlan {
  /** Let the current commit stay, make a new one, or write nothing at all. */
  kind: "same" | "commit" | "dry-run";
  /** Why a run makes a commit, or would without --dry-run; none when the current commit stays. */
  reasons: readonly Reason[];
  /**
   * Whether the store keeps the manifest and source files that the current commit names. They name the files that it
   * was made from, which need not be those of this run. Otherwise the run's own are written.
   */
  keepsManifest: boolean;
}

export interface RunFacts {
  current: Pick<Commit, "entry" | "manifest" | "hold"> | undefined;
  /** The snapshot of the current commit; undefined when its manifest is gone or damaged. */
  previous: Pick<PreviousSnapshot, "complete" | "unindexed"> | undefined;
  built: { snapshotId: string; manifestHash: string };
  /** Whether the current commit carries the signature that this run would give it. */
  signed: boolean;
  dryRun: boolean;
}

export function planRun({ current, previous, built, signed, dryRun }: RunFacts): RunPlan {
  const reasons = current ? reasonsAgainst(current, previous, built, signed) : (["first"] as const);
  const stays = reasons.length === 0;
  return {
    kind: dryRun ? "dry-run" : stays ? "same" : "commit",
    reasons,
    keepsManifest: stays && previous?.complete === true,
  };
}

function reasonsAgainst(
  current: NonNullable<RunFacts["current"]>,
  previous: RunFacts["previous"],
  built: RunFacts["built"],
  signed: boolean,
): Reason[] {
  const otherContent = current.entry.snapshotId !== built.snapshotId;
  const sameObjects = previous?.complete || current.manifest.hash === built.manifestHash;
  const checks: [Reason, boolean][] = [
    ["content", otherContent],
    ["hold", current.hold],
    ["objects", !otherContent && !sameObjects],
    ["index", (previous?.unindexed ?? 0) > 0],
    ["signature", !signed],
  ];
  return checks.filter(([, applies]) => applies).map(([reason]) => reason);
}
