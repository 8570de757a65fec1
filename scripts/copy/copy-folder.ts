import {
  cp,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { Fault } from "../../schemas/errors.ts";
import { Count, Digest } from "../../schemas/records.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { ifPresent, localFailure } from "../../snapshots/store/errors.ts";
import {
  ownerMark,
  ownerPattern,
  ownerRuns,
  readJson,
  replaceFile,
} from "../../snapshots/store/local-files.ts";
import { CopyIndex } from "./index-check.ts";
import { wholeLines } from "./lines.ts";

/** The content of `state.json`, about the copy beside it. */
export const CopyState = z.object({
  snapshotId: Digest,
  commit: Count,
  /** The newest checkpoint of the log that was seen, where a trusted key signed it. */
  checkpoint: z.string().optional(),
  archiveRoot: Digest,
  /** The index root of that commit, which the markets gave too. Copies made by earlier versions have none. */
  indexRoot: Digest.optional(),
  lines: Count,
  bytes: Count,
});
export type CopyState = z.infer<typeof CopyState>;

/** The version of the format in a state. Format 2 did not name its version. */
const CopyVersion = z.object({ snapshotId: Digest, formatVersion: z.int().default(2) });

/** The download in the work folder, so that a later run can go on with it. */
const Download = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("whole"), snapshotId: Digest, cursor: z.string(), count: Count }),
  z.object({ kind: z.literal("changes"), since: Digest, snapshotId: Digest, count: Count }),
]);
export type Download = z.infer<typeof Download>;

const files = ["archive.ndjson", "state.json"] as const;
const runningName = new RegExp(`^running-${ownerPattern}$`);
const renewalSeconds = 10;
/** A mark that misses so many renewals belongs to a run that was killed. */
const mostMissed = 2;

interface OpenOptions {
  wait?: (milliseconds: number) => Promise<unknown>;
  /** Tells the user about a wait. */
  say?: (line: string) => void;
}

/**
 * The folder of a copy. `archive.ndjson` and `state.json` in it are links that lead through one other link,
 * `.sync/current`. Replacing that one replaces both files at once, so a process that is killed leaves the old pair or
 * the new one.
 */
export class CopyFolder {
  readonly #folder: string;
  readonly #own: string;
  readonly #work: string;
  readonly #current: string;
  readonly #mark: string;
  #renewals: NodeJS.Timeout | undefined;

  private constructor(folder: string) {
    this.#folder = folder;
    this.#own = join(folder, ".sync");
    this.#work = join(this.#own, "work");
    this.#current = join(this.#own, "current");
    this.#mark = join(this.#own, `running-${ownerMark()}`);
  }

  /**
   * Opens or creates a folder, and removes what killed runs left in it. Refuses a folder that another run holds, or in
   * which files have these names that sync did not make.
   */
  static async open(path: string, { wait = delay, say }: OpenOptions = {}): Promise<CopyFolder> {
    const copy = new CopyFolder(path);
    await mkdir(copy.#work, { recursive: true });
    await copy.#takeIn();
    for (const name of files) await copy.#link(name);
    await copy.#removeLeftMarks(wait, say);
    await writeFile(copy.#mark, await copy.#identity());
    copy.#renewals = setInterval(() => copy.#renew(), renewalSeconds * 1000).unref();
    // When two runs start at the same moment, at least one gives up here, perhaps both.
    const [other] = (await copy.#marks()).filter((mark) => mark !== copy.#mark);
    if (other !== undefined) {
      await copy.close();
      throw copy.#inUse(other);
    }
    await copy.#removeOld();
    return copy;
  }

  /**
   * The error to throw when a run in a folder has failed: if the disk is to blame, a LOCAL_FOLDER that says how much
   * room the copy needs, otherwise `error` itself.
   */
  static async failure(path: string, error: unknown): Promise<unknown> {
    const bytes = await new CopyFolder(path).#expectedBytes().catch(() => undefined);
    const size = bytes === undefined ? "its whole size" : `about ${(bytes / 1e6).toFixed(1)} MB`;
    const room = `a new archive takes ${size} there, beside the copy in place`;
    return localFailure(error, path, `${room}: make room, or use another folder (--to)`);
  }

  async close(): Promise<void> {
    clearInterval(this.#renewals);
    await rm(this.#mark, { force: true });
  }

  work(name: "archive.ndjson" | "changes.ndjson"): string {
    return join(this.#work, name);
  }

  get archive(): string {
    return join(this.#folder, "archive.ndjson");
  }

  /** The state of the copy in place; undefined without a copy, or when the archive is not as long as the state says. */
  async state(): Promise<CopyState | undefined> {
    const path = join(this.#folder, "state.json");
    const version = (await readJson(path, CopyVersion))?.formatVersion ?? formatVersion;
    if (version !== formatVersion) throw this.#foreign(version);
    const state = await readJson(path, CopyState);
    const size = state && (await ifPresent(lstat(join(this.#current, "archive.ndjson"))))?.size;
    return state && size === state.bytes ? state : undefined;
  }

  #foreign(version: number): Fault {
    const detail = `${this.#folder} holds a copy of format ${version}, and this program knows ${formatVersion}`;
    const wayOut =
      version > formatVersion
        ? "use a newer version of this program"
        : "use another folder (--to); from an earlier format only keys/ of a store carries over, by copying it";
    return new Fault("COPY_FOLDER", `${detail}: ${wayOut}`);
  }

  download(): Promise<Download | undefined> {
    return readJson(join(this.#work, "download.json"), Download);
  }

  /** Notes which download the lines in the work folder belong to. Must be called before the first one is written. */
  async begin(download: Download): Promise<void> {
    await this.discard();
    await replaceFile(join(this.#work, "download.json"), JSON.stringify(download));
  }

  async discard(): Promise<void> {
    await this.#requireMark();
    await rm(this.#work, { recursive: true, force: true });
    await mkdir(this.#work, { recursive: true });
  }

  /** The index that an earlier run computed for the copy in place; undefined when it is not known. */
  index(): Promise<CopyIndex | undefined> {
    return readJson(join(this.#current, "index.json"), CopyIndex);
  }

  /** Puts the archive in the work folder in the place of the copy, in one rename. */
  async replace(state: CopyState, index: CopyIndex): Promise<void> {
    await this.#requireMark();
    const work = this.#work;
    const [statePath, indexPath] = [join(work, "state.json"), join(work, "index.json")];
    await writeFile(statePath, textOf(state));
    await writeFile(indexPath, JSON.stringify(index));
    for (const path of [this.work("archive.ndjson"), statePath, indexPath, work]) await syncPath(path);
    const name = `copy-${state.snapshotId.slice(0, 16)}-${Date.now().toString(36)}`;
    await rename(work, join(this.#own, name));
    await this.#pointTo(name, this.#current);
    await syncPath(this.#own);
    await syncPath(this.#folder);
    await this.#removeOld();
    await mkdir(work, { recursive: true });
  }

  /** Replaces the notes about the copy in place. */
  async note(state: CopyState, index?: CopyIndex): Promise<void> {
    await this.#requireMark();
    if (index) await replaceFile(join(this.#current, "index.json"), JSON.stringify(index));
    await replaceFile(join(this.#current, "state.json"), textOf(state));
  }

  /** Keeps the checkpoints of a forked log, which prove the fork to everybody. Returns the path of their file. */
  async keepEvidence(checkpoints: readonly string[]): Promise<string> {
    const path = join(this.#folder, "forked-log.txt");
    await writeFile(path, checkpoints.join("\n"), { flush: true });
    return path;
  }

  /** Removes copies that are not in place, or never were. */
  async #removeOld(): Promise<void> {
    const current = await ifPresent(readlink(this.#current));
    for (const name of await readdir(this.#own))
      if (name.startsWith("copy-") && name !== basename(current ?? ""))
        await rm(join(this.#own, name), { recursive: true });
    if (!current) return;
    for (const name of ["changes.ndjson", "download.json"])
      await rm(join(this.#current, name), { force: true });
  }

  /** The marks of runs in this folder. A mark that came with a copied folder is of no run, and is removed. */
  async #marks(): Promise<string[]> {
    const marks: string[] = [];
    const identity = await this.#identity();
    for (const name of (await readdir(this.#own)).filter((entry) => runningName.test(entry))) {
      const mark = join(this.#own, name);
      const content = await ifPresent(readFile(mark, "utf8"));
      if (content === identity || content === "") marks.push(mark);
      else await rm(mark, { force: true });
    }
    return marks;
  }

  /**
   * Removes the marks of runs that were killed. The process may be on another machine or in another container, and two
   * clocks may differ, so a mark is watched: it changes while its run lives.
   */
  async #removeLeftMarks(wait: (milliseconds: number) => Promise<unknown>, say?: (line: string) => void) {
    const unknown = new Map<string, number | undefined>();
    for (const mark of await this.#marks()) {
      const runs = ownerRuns(runningName.exec(basename(mark))!);
      if (runs === false) await rm(mark, { force: true });
      else if (runs === undefined) unknown.set(mark, await renewedAt(mark));
      else if (mark !== this.#mark) throw this.#inUse(mark);
    }
    if (unknown.size === 0) return;
    say?.(
      `waiting ${mostMissed * renewalSeconds} s to see whether the sync of ${[...unknown.keys()]} still runs`,
    );
    for (let missed = 0; missed < mostMissed; missed += 1) {
      await wait(renewalSeconds * 1000);
      for (const [mark, before] of unknown)
        if (![before, undefined].includes(await renewedAt(mark))) throw this.#inUse(mark);
    }
    for (const mark of unknown.keys()) await rm(mark, { force: true });
    // A run that was only paused may go on, and still has its files open.
    const twin = join(this.#own, "copy-work");
    await rm(twin, { recursive: true, force: true });
    await cp(this.#work, twin, { recursive: true });
    await rm(this.#work, { recursive: true });
    await rename(twin, this.#work);
  }

  /** Never creates the mark: it is gone when another run has taken over. */
  async #renew(): Promise<void> {
    const now = new Date();
    // A renewal that fails counts as missed.
    await utimes(this.#mark, now, now).catch(() => {});
  }

  async #requireMark(): Promise<void> {
    if (await ifPresent(stat(this.#mark))) return;
    const missed = `this one had not renewed its mark for ${mostMissed * renewalSeconds} s`;
    throw new Fault(
      "COPY_FOLDER",
      `another sync has taken over ${this.#folder}, because ${missed}; run again`,
    );
  }

  #inUse(mark: string): Fault {
    return new Fault(
      "COPY_FOLDER",
      `another sync is at work in ${this.#folder}; wait until it has ended (${mark})`,
    );
  }

  /** Distinguishes a folder from copies of it. */
  async #identity(): Promise<string> {
    return String((await stat(this.#own)).ino);
  }

  /** Roughly how long the next archive will be; undefined when that is unknown. */
  async #expectedBytes(): Promise<number | undefined> {
    const begun = await this.download();
    if (begun?.kind !== "whole") return (await this.state())?.bytes;
    const path = this.work("archive.ndjson");
    const lines = await wholeLines(path);
    return lines > 0 ? ((await stat(path)).size / lines) * begun.count : undefined;
  }

  /**
   * Takes in a folder that was copied by a program which follows links: its two files become the copy in place. If the
   * run is killed meanwhile, the next one does it.
   */
  async #takeIn(): Promise<void> {
    const paths = files.map((name) => join(this.#folder, name));
    const [archive, state] = await Promise.all(paths.map((path) => ifPresent(lstat(path))));
    const copyState = state?.isFile() ? await readJson(paths[1]!, CopyState) : undefined;
    if (!archive?.isFile() || archive.size !== copyState?.bytes) return;
    const into = join(this.#own, "copy-taken-in");
    for (const old of [this.#current, into]) await rm(old, { recursive: true, force: true });
    await mkdir(into);
    for (const [index, path] of paths.entries()) await link(path, join(into, files[index]!));
    await symlink(basename(into), this.#current);
  }

  async #link(name: (typeof files)[number]): Promise<void> {
    const [path, target] = [join(this.#folder, name), join(".sync", "current", name)];
    const info = await ifPresent(lstat(path));
    if (info?.isSymbolicLink() && (await readlink(path)) === target) return;
    const takenIn = info?.isFile() && (await ifPresent(stat(join(this.#folder, target))))?.ino === info.ino;
    if (info && !takenIn)
      throw new Fault("COPY_FOLDER", `${path} was not made by sync; choose another folder, or remove it`);
    await this.#pointTo(target, path);
  }

  /** Replaces a link, or a file, by a link to `target`, in one step. */
  async #pointTo(target: string, path: string): Promise<void> {
    const next = join(this.#own, `${basename(path)}.new`);
    await rm(next, { force: true });
    await symlink(target, next);
    await rename(next, path);
  }
}

const textOf = (state: CopyState) => `${JSON.stringify({ formatVersion, ...state })}\n`;

/**
 * When a mark was renewed; undefined when it is gone. Opening it is needed, because a network file system caches the
 * rest.
 */
async function renewedAt(mark: string): Promise<number | undefined> {
  await using file = await ifPresent(open(mark));
  return (await file?.stat())?.mtimeMs;
}

async function syncPath(path: string): Promise<void> {
  await using file = await open(path, "r");
  await file.sync();
}
