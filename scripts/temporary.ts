import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { localFailure } from "../snapshots/store/errors.ts";
import { ownerMark, ownerPattern, removeLeftFolders } from "../snapshots/store/local-files.ts";

const prefix = "prs-publish-";
const folderName = new RegExp(`^${prefix}${ownerPattern}[0-9A-Za-z]{6}$`);

/** Runs `work` with a temporary folder, and removes it when the work ends or a signal stops the process. */
export async function withTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  // Absolute, because a script of sources runs in another folder.
  let folder = resolve(tmpdir());
  try {
    await removeLeftTemporaryFolders();
    folder = await mkdtemp(join(folder, `${prefix}${ownerMark()}`));
    const forget = whenStopped(() => rmSync(folder, { recursive: true, force: true }));
    try {
      return await work(folder);
    } finally {
      forget();
    }
  } catch (error) {
    throw localFailure(error, folder, "set TMPDIR to use another folder");
  } finally {
    if (folder !== resolve(tmpdir())) await rm(folder, { recursive: true, force: true });
  }
}

/** Removes the temporary folders of runs that were killed, and returns how many there were. */
export function removeLeftTemporaryFolders(): Promise<number> {
  return removeLeftFolders(tmpdir(), folderName);
}

/** Calls `end` on SIGINT or SIGTERM, and lets the signal end the process. Returns a function that cancels this. */
export function whenStopped(end: () => void): () => void {
  const signals = ["SIGINT", "SIGTERM"] as const;
  const stop = (signal: NodeJS.Signals) => {
    end();
    // With the handlers gone, the signal ends the process as usual, and its parent sees that.
    forget();
    process.kill(process.pid, signal);
  };
  const forget = () => {
    for (const signal of signals) process.off(signal, stop);
  };
  for (const signal of signals) process.on(signal, stop);
  return forget;
}
