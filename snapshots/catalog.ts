import type { Commit, Manifest } from "../schemas/snapshot.ts";

/** A snapshot that is whole: every index loaded and verified. */
export interface Snapshot {
  commit: Commit;
  manifest: Manifest;
}

/** The snapshots of one store, as a reader sees them. Keeps the last good one when the store fails. */
export interface Catalog {
  /** The newest snapshot taken up, or undefined before the first. */
  current(): Snapshot | undefined;
  /** When the newest publish run succeeded, as checked.json tells; ISO 8601. */
  checkedAt(): string | undefined;
  /** Takes up the newest commit of the store. Throws, and keeps what it has, when that fails. */
  refresh(): Promise<void>;
  /** The snapshot of a commit, from memory or the store; undefined when the store no longer holds it. */
  find(commit: number, snapshotId: string): Promise<Snapshot | undefined>;
}
