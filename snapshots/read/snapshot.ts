import type { Manifest } from "../../schemas/snapshot.ts";
import type { Archive } from "./archive.ts";
import type { LogEntry } from "./commit-log.ts";

/** A commit with the verified list of everything that its snapshot consists of. */
export interface ListedSnapshot {
  commit: LogEntry;
  manifest: Manifest;
}

/** A snapshot whose indexes are all loaded and verified. */
export interface Snapshot extends ListedSnapshot {
  archive: Archive;
}
