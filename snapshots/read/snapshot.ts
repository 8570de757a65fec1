import type { Commit, Manifest } from "../../schemas/snapshot.ts";
import type { Archive } from "./archive.ts";

/** A snapshot whose indexes are all loaded and verified. */
export interface Snapshot {
  commit: Commit;
  manifest: Manifest;
  archive: Archive;
}
