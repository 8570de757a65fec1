import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { ifPresent } from "../errors.ts";
import { ownerRuns } from "./process-mark.ts";

/** No process writes a temporary file for this long, and no publish run takes this long. */
const leftoverHours = 24;

/** Removes the matching files that killed processes left in or below a folder. Returns how many. */
export async function removeLeftFiles(folder: string, name: RegExp): Promise<number> {
  let removed = 0;
  for (const entry of await entriesOf(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) removed += await removeLeftFiles(path, name);
    else if (await isLeft(path, name.exec(entry.name))) {
      await rm(path, { force: true });
      removed += 1;
    }
  }
  return removed;
}

/**
 * Removes the matching folders that killed processes left directly in a folder. Skips those of other users, who may
 * share it. Returns how many.
 */
export async function removeLeftFolders(folder: string, name: RegExp): Promise<number> {
  let removed = 0;
  for (const entry of await entriesOf(folder)) {
    const path = join(folder, entry.name);
    if (!entry.isDirectory() || !(await isLeft(path, name.exec(entry.name)))) continue;
    if ((await lstat(path)).uid !== process.getuid?.()) continue;
    await rm(path, { recursive: true, force: true });
    removed += 1;
  }
  return removed;
}

async function entriesOf(folder: string) {
  return (await ifPresent(readdir(folder, { withFileTypes: true }))) ?? [];
}

/** Age decides only where nothing is known of the process. */
async function isLeft(path: string, match: RegExpExecArray | null): Promise<boolean> {
  if (!match) return false;
  const runs = ownerRuns(match);
  if (runs !== undefined) return !runs;
  const info = await ifPresent(lstat(path));
  return info !== undefined && Date.now() - info.mtimeMs > leftoverHours * 3_600_000;
}
