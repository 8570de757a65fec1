import { readFileSync, readlinkSync } from "node:fs";
import { lstat, readdir, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { hasCode } from "./error-code.ts";
import { sha256 } from "./sha256.ts";

/** No process writes a temporary file for this long, and no publish run takes this long. */
const leftoverHours = 24;

/** A regular expression for the owner's mark in a temporary name. It may be absent: older versions wrote none. */
export const ownerPattern = "(?:([0-9a-f]{8})-([0-9]+)-)?";

/** The prefix of a temporary name, which says on which machine its owner runs and under which process id. */
export function ownerMark(pid = process.pid): string {
  return `${place()}-${pid}-`;
}

/** Removes the files with matching names that killed processes left in or below a folder. Returns their number. */
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
 * Removes the folders with matching names that killed processes left directly in a folder. Skips folders of other
 * users, who may share it. Returns the number of removed folders.
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
  return unlessGone(readdir(folder, { withFileTypes: true }), []);
}

/** Whether no running process can be using the file. */
async function isLeft(path: string, match: RegExpExecArray | null): Promise<boolean> {
  if (!match) return false;
  const [, where, pid] = match;
  if (where === place() && !isRunning(Number(pid))) return true;
  const info = await unlessGone(lstat(path), undefined);
  return info !== undefined && Date.now() - info.mtimeMs > leftoverHours * 3_600_000;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Any other error, such as EPERM, means that the process exists.
    return !hasCode(error, "ESRCH");
  }
}

let known: string | undefined;

/** Identifies where a process id is unique: the machine, its current boot, and the container. */
function place(): string {
  const unlessMissing = (read: () => string) => {
    try {
      return read();
    } catch {
      // Only Linux has these files.
      return "";
    }
  };
  known ??= sha256(
    JSON.stringify([
      hostname(),
      unlessMissing(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
      unlessMissing(() => readlinkSync("/proc/self/ns/pid")),
    ]),
  ).slice(0, 8);
  return known;
}

async function unlessGone<T, Otherwise>(work: Promise<T>, otherwise: Otherwise): Promise<T | Otherwise> {
  try {
    return await work;
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return otherwise;
    throw error;
  }
}
