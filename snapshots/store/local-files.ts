import { readFileSync, readlinkSync } from "node:fs";
import { lstat, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import type { z } from "zod";
import { hasCode, ifPresent } from "./errors.ts";
import { sha256 } from "./layout.ts";

// Files on this machine, outside of stores too: they are replaced as a whole, and temporary ones bear the mark of their
// owner, so that those of killed processes can be recognised and removed.

/** Parses a JSON file; undefined when there is none, or when it has another shape, as after a power cut. */
export async function readJson<T>(path: string, shape: z.ZodType<T>): Promise<T | undefined> {
  const text = await ifPresent(readFile(path, "utf8"));
  try {
    return text === undefined ? undefined : shape.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Readers see the old content or the new one, whatever happens. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  try {
    await writeFile(temporary, content, { flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Matches the owner's mark in a temporary name. It may be absent, and may lack the start time. */
export const ownerPattern = "(?:([0-9a-f]{8})-([0-9]+)(?:_([0-9]+))?-)?";

/**
 * The prefix of a temporary name: the machine of its owner, the process id and, since ids are reused, when the process
 * started, where the system tells.
 */
export function ownerMark(pid = process.pid): string {
  const started = processOf(pid)?.started;
  return `${machine()}-${pid}${started === undefined ? "" : `_${started}`}-`;
}

/**
 * Whether the process that wrote a mark still runs; undefined where that cannot be known, for example of another
 * machine. `match` is a match of ownerPattern whose groups are the first ones.
 */
export function ownerRuns(match: RegExpExecArray): boolean | undefined {
  const [, where, pid, started] = match;
  if (where !== machine()) return undefined;
  const owner = processOf(Number(pid));
  if (!owner) return false;
  if (owner.started !== undefined && started !== undefined) return owner.started === started;
  // Another process may have got the id since, unless it is our own.
  return Number(pid) === process.pid || undefined;
}

/** No process writes a temporary file for this long, and no publish run takes this long. */
const leftHours = 24;

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
    // Another process may have removed it meanwhile.
    if ((await ifPresent(lstat(path)))?.uid !== process.getuid?.()) continue;
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
  return info !== undefined && Date.now() - info.mtimeMs > leftHours * 3_600_000;
}

/** Undefined when the process has ended. `started` is in the system's own words, and undefined where it has none. */
function processOf(pid: number): { started: string | undefined } | undefined {
  try {
    // The name in parentheses may hold anything, also spaces and parentheses.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\)/s, "").trim().split(" ");
    // A zombie has ended, and waits for its parent to notice.
    return /^[ZXx]/.test(fields[0]!) ? undefined : { started: fields[19] };
  } catch {
    // Only Linux has these files, and it may hide those of other users.
    return isRunning(pid) ? { started: undefined } : undefined;
  }
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

let machineId: string | undefined;

/** Names the scope in which a process id is unique: the machine, its current boot, and the container. */
function machine(): string {
  const unlessMissing = (read: () => string) => {
    try {
      return read();
    } catch {
      // Only Linux has these files.
      return "";
    }
  };
  machineId ??= sha256(
    JSON.stringify([
      hostname(),
      unlessMissing(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
      unlessMissing(() => readlinkSync("/proc/self/ns/pid")),
    ]),
  ).slice(0, 8);
  return machineId;
}
