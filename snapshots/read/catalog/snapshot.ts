import type { IntegerName, LabelName } from "../../../schemas/filters.ts";
import type { Manifest } from "../../../schemas/store/snapshot.ts";
import type { Archive } from "../archive/archive.ts";
import { invalidParameter } from "../errors.ts";
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

/** Throws INVALID_PARAMETER when a segment of the snapshot has no column for a field. */
export function requireIndexed({ archive, commit }: Snapshot, field: LabelName | IntegerName): void {
  const { snapshotId, publishedAt } = commit;
  if (!archive.indexes(field))
    throw invalidParameter(
      field,
      `The snapshot ${snapshotId}, published at ${publishedAt}, has no index for ${field}; leave it out, or ` +
        "ask for another snapshot.",
    );
}
