import { readFileSync, readlinkSync } from "node:fs";
import { lstat, readdir, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { sha256 } from "./sha256.ts";

/** No process writes one temporary file for so long, nor does a publish run take so long. */
const leftoverHours = 24;

/** The mark of an owner in a temporary name, as a regular expression; older versions left it out. */
export const ownerPattern = "(?:([0-9a-f]{8})-([0-9]+)-)?";

/** Begins a temporary name: tells where its owner runs, and the owner's process id there. */
export function ownerMark(pid = process.pid): string {
  return `${place()}-${pid}-`;
}

/** Removes files that killed processes left in a folder, or below, under names that match. Returns how many. */
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

/** Removes this user's folders that killed processes left in a folder which others use too. Returns how many. */
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

/** Whether nobody can be using a file any more. */
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
    // Any other answer is about a process that is there.
    return !hasCode(error, "ESRCH");
  }
}

let known: string | undefined;

/** Where process ids mean the same: this machine since it was started, and this container of it. */
function place(): string {
  const told = (read: () => string) => {
    try {
      return read();
    } catch {
      // Only Linux tells.
      return "";
    }
  };
  known ??= sha256(
    JSON.stringify([
      hostname(),
      told(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
      told(() => readlinkSync("/proc/self/ns/pid")),
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

function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}
