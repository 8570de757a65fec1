import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { Fault } from "../../../schemas/errors.ts";
import { hasCode, messageOf } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import { type NotedCheckpoint, parseCheckpoint } from "../notes/checkpoint.ts";

/**
 * The newest checkpoint that was ever believed, in a local file: after a restart nobody can replay what was before it.
 */
export class CheckpointFile {
  readonly path: string;
  #newest: NotedCheckpoint | undefined;

  private constructor(path: string, newest: NotedCheckpoint | undefined) {
    this.path = path;
    this.#newest = newest;
  }

  /** Throws CHECKPOINT_FILE when the file is there, but is no checkpoint or cannot be read. */
  static async open(path: string): Promise<CheckpointFile> {
    return new CheckpointFile(path, await readNewest(path));
  }

  /** Undefined before the first. */
  get newest(): NotedCheckpoint | undefined {
    return this.#newest;
  }

  /**
   * Keeps a checkpoint that is newer than the one in the file; several processes may share it. Throws
   * CHECKPOINT_FILE, and tries again with the next call.
   */
  async keep(note: string): Promise<void> {
    const stated = { ...parseCheckpoint(note), note };
    if (stated.size <= (this.#newest?.size ?? 0)) return;
    const held = await readNewest(this.path);
    if (held?.size === stated.size && !held.head.equals(stated.head))
      throw new Fault(
        "CHECKPOINT_FILE",
        `${this.path} holds another checkpoint of ${stated.size} entries than the one to keep`,
      );
    if (stated.size > (held?.size ?? 0)) await replace(this.path, note);
    this.#newest = stated;
  }
}

/**
 * Keeps two checkpoints of a log that contradict each other, for others to check, in a file beside this one. What is
 * there already stays: it was the first. Returns the path.
 */
export async function keepEvidence(path: string, remembered: string, found: string): Promise<string> {
  const beside = `${path}.forked.json`;
  const evidence = `${JSON.stringify({ remembered, found }, null, 2)}\n`;
  await writeFile(beside, evidence, { flag: "wx", flush: true }).catch((error) => {
    if (!hasCode(error, "EEXIST"))
      throw new Fault("CHECKPOINT_FILE", `${beside} cannot be written: ${messageOf(error)}`);
  });
  return beside;
}

/** What the checkpoints of format 2 say, which no later one does. */
const ofFormat2 = /^[^\n]+\n\d+\n[^\n]+\nsnapshot [0-9a-f]{64}\n/;

async function readNewest(path: string): Promise<NotedCheckpoint | undefined> {
  let note = "";
  try {
    note = await readFile(path, "utf8");
    return { ...parseCheckpoint(note), note };
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    const older =
      `it holds a checkpoint of format 2, from which only ${layout.key.prefix} of a store carries over, by ` +
      "copying it: remove it";
    const reason = ofFormat2.test(note) ? older : error instanceof Error ? error.message : error;
    throw new Fault("CHECKPOINT_FILE", `${path} cannot be used: ${reason}`, { cause: error });
  }
}

/** A reader sees the old content or the new one, whatever happens. */
async function replace(path: string, content: string): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  try {
    await writeFile(temporary, content, { flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    const reason = error instanceof Error ? error.message : error;
    throw new Fault("CHECKPOINT_FILE", `${path} cannot be written: ${reason}`, { cause: error });
  }
}
