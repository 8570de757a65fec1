import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ownerMark, ownerPattern, removeLeftFolders } from "../snapshots/store/leftovers.ts";
import { localFailure } from "../snapshots/store/local-folder-error.ts";

const prefix = "prs-publish-";
const folderName = new RegExp(`^${prefix}${ownerPattern}[0-9A-Za-z]{6}$`);

/**
 * Runs work with a temporary folder of its own, which goes when the work ends or the process is told to stop. Throws
 * LocalFolderError when there can be none, or it gets full.
 */
export async function withTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  let folder = tmpdir();
  try {
    await removeLeftTemporaryFolders();
    folder = await mkdtemp(join(folder, `${prefix}${ownerMark()}`));
    const forget = removeWhenStopped(folder);
    try {
      return await work(folder);
    } finally {
      forget();
    }
  } catch (error) {
    throw localFailure(error, folder, "TMPDIR");
  } finally {
    if (folder !== tmpdir()) await rm(folder, { recursive: true, force: true });
  }
}

/** Removes the temporary folders of runs that were killed, and returns how many there were. */
export function removeLeftTemporaryFolders(): Promise<number> {
  return removeLeftFolders(tmpdir(), folderName);
}

/** Removes a folder when the process is told to stop, and stops. Returns what ends this. The store needs no such care. */
function removeWhenStopped(folder: string): () => void {
  const signals = ["SIGINT", "SIGTERM"] as const;
  const remove = (signal: NodeJS.Signals) => {
    rmSync(folder, { recursive: true, force: true });
    // Without a handler any more the signal does what it always does, and the caller sees it.
    forget();
    process.kill(process.pid, signal);
  };
  const forget = () => {
    for (const signal of signals) process.off(signal, remove);
  };
  for (const signal of signals) process.on(signal, remove);
  return forget;
}
