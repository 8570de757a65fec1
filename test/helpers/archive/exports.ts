import { mkdtemp, realpath } from "node:fs/promises";
import { join } from "node:path";
import { type ExportOptions, exportSnapshot } from "../../../snapshots/maintain/export.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";

/** Exports the newest snapshot, or that of a commit. `folder` takes temporary files. */
export async function exportNewest(
  storage: Storage,
  folder: string,
  choices: Partial<Pick<ExportOptions, "maxTextBytes" | "signing" | "changes">> = {},
  commit?: string,
) {
  const temporaryDirectory = await realpath(await mkdtemp(join(folder, "export-")));
  return exportSnapshot(storage, commit, { temporaryDirectory, progress: () => {}, ...choices });
}
