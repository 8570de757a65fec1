import { readFile, writeFile } from "node:fs/promises";
import { Fault } from "../../../schemas/errors.ts";
import { type Note, NoteError, parseNote, type Witness } from "../../format/note.ts";
import { hasCode, messageOf, unlessSync } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { replaceFile } from "../../store/local-files.ts";
import type { Storage } from "../../store/storage.ts";
import {
  checkSignature,
  type NotedCheckpoint,
  parseCheckpoint,
  readNote,
  timeOf,
} from "../notes/signed-note.ts";
import { type Trust, UntrustedError } from "../trust.ts";

// The newest checkpoint, as a store shows it, and as a file outside of the store remembers it.

/** The most checkpoints of single sizes to look at: anybody who can write to the store may have put others above. */
const maxLooked = 256;
const readAtOnce = 16;

/** The newest checkpoint of a store that counts, and why the one that stands for the newest does not. */
export interface StoredCheckpoint {
  checkpoint: NotedCheckpoint | undefined;
  refused: UntrustedError | undefined;
  /** The note that stands for the newest, whatever it is; undefined when there is none. */
  note?: string | undefined;
}

/**
 * Finds the newest checkpoint of a store that counts. If `public/log/checkpoint` does not count, or is smaller than
 * `least`, it looks at the checkpoints of single sizes, from the largest down, and last at that of `least`. With
 * Infinity it always looks at these.
 */
export async function storedCheckpoint(storage: Storage, trust: Trust, least = 0): Promise<StoredCheckpoint> {
  const { lacking, ...newest } = await readCheckpoint(storage, trust, layout.logCheckpoint);
  const { checkpoint } = newest;
  if (checkpoint && checkpoint.size >= least) return newest;
  // If the log signed it and only cosignatures are lacking, no listing is needed: the checkpoint stored under its own
  // size has all cosignatures, even those that were removed from this copy.
  const sizes =
    lacking !== undefined && lacking >= least
      ? downFrom(lacking, least)
      : await newestSizes(storage, checkpoint?.size ?? 0);
  const last = least > 0 && Number.isFinite(least) ? [least] : [];
  for (let at = 0; at < sizes.length + last.length; at += readAtOnce) {
    const some = [...sizes, ...last].slice(at, at + readAtOnce);
    const read = some.map((size) => readCheckpoint(storage, trust, layout.logCheckpointOf(size)));
    const good = (await Promise.all(read)).find((each) => each.checkpoint)?.checkpoint;
    if (good && lacking !== undefined && good.size >= lacking)
      return { ...newest, checkpoint: good, refused: undefined };
    if (good) return { ...newest, checkpoint: good };
  }
  return newest;
}

/** The newest checkpoint of a store, or the one of a key, whoever signed it; undefined when there is none. */
export async function anyCheckpoint(
  storage: Storage,
  key: string = layout.logCheckpoint,
): Promise<NotedCheckpoint | undefined> {
  const note = await readNote(storage, key);
  return unlessSync(NoteError, () => note && { ...parseCheckpoint(note), note }) || undefined;
}

/** `lacking` is the size of a checkpoint that the log signed, but that lacks cosignatures. */
async function readCheckpoint(
  storage: Storage,
  trust: Trust,
  key: string,
): Promise<StoredCheckpoint & { lacking?: number }> {
  const note = await readNote(storage, key);
  const none = { checkpoint: undefined, refused: undefined, note };
  if (note === undefined) return none;
  const checkpoint = trust.checkpoint(note);
  if ("reason" in checkpoint) return { ...none, refused: new UntrustedError(key, checkpoint.reason) };
  if (checkpoint.lacking === undefined) return { ...none, checkpoint };
  return { ...none, refused: new UntrustedError(key, checkpoint.lacking), lacking: checkpoint.size };
}

/** This size and those below, from the largest down, to `least`. */
function downFrom(size: number, least: number): number[] {
  const length = Math.min(maxLooked, size - Math.max(least, 1) + 1);
  return Array.from({ length }, (_, place) => size - place);
}

/** The largest sizes, above this one, of which a store has a checkpoint. */
async function newestSizes(storage: Storage, above: number): Promise<number[]> {
  let sizes: number[] = [];
  const largest = () => sizes.sort((a, b) => b - a).slice(0, maxLooked);
  for await (const { key } of storage.list(layout.logCheckpointOf.prefix)) {
    const size = Number(layout.logCheckpointOf.nameIn(key));
    if (size > above && layout.logCheckpointOf(size) === key) sizes.push(size);
    if (sizes.length >= 10 * maxLooked) sizes = largest();
  }
  return largest();
}

export interface Cosigned {
  name: string;
  /** ISO 8601; null where the signature tells none. */
  time: string | null;
}

/**
 * Who cosigned the checkpoints of these sizes, where the store has them. Signatures of the witnesses given are checked,
 * and named as their policy names them. Without witnesses it is what the notes say, unchecked, by names of keys.
 */
export async function cosignersOf(
  storage: Storage,
  sizes: readonly number[],
  witnesses: readonly Witness[],
): Promise<Map<number, Cosigned[]>> {
  const bySize = new Map<number, Cosigned[]>();
  await inParallel(sizes, async (size) => {
    const note = await readNote(storage, layout.logCheckpointOf(size));
    if (note === undefined) return;
    bySize.set(size, unlessSync(NoteError, () => cosignersIn(parseNote(note), witnesses)) ?? []);
  });
  return bySize;
}

function cosignersIn({ text, signatures }: Note, witnesses: readonly Witness[]): Cosigned[] {
  const origin = text.slice(0, text.indexOf("\n"));
  if (witnesses.length === 0)
    return signatures.flatMap(({ name }) => (name === origin ? [] : [{ name, time: null }]));
  return witnesses.flatMap(({ name, key }) => {
    const own = signatures.find((each) => each.name === key.name && each.id === key.id);
    if (!own || checkSignature(key, text, own.signature) !== "right") return [];
    return [{ name, time: new Date((timeOf(key.kind, own.signature) ?? 0) * 1000).toISOString() }];
  });
}

/** A local file of the newest checkpoint ever believed, so that nobody can replay an older one after a restart. */
export type CheckpointFile = Awaited<ReturnType<typeof openCheckpointFile>>;

/** The file need not exist yet. */
export async function openCheckpointFile(path: string) {
  let newest = await readNewest(path);
  return {
    path,
    /** Undefined before the first. */
    get newest() {
      return newest;
    },
    /**
     * Keeps a checkpoint that is newer than the one in the file, which several processes may share. After a failure the
     * next call tries again.
     */
    async keep(note: string): Promise<void> {
      const stated = { ...parseCheckpoint(note), note };
      if (stated.size <= (newest?.size ?? 0)) return;
      const held = await readNewest(path);
      if (held?.size === stated.size && !held.head.equals(stated.head))
        throw new Fault(
          "CHECKPOINT_FILE",
          `${path} holds another checkpoint of ${stated.size} entries than the one to keep`,
        );
      if (stated.size > (held?.size ?? 0))
        await replaceFile(path, note).catch((cause) => {
          throw new Fault("CHECKPOINT_FILE", `${path} cannot be written: ${messageOf(cause)}`, { cause });
        });
      newest = stated;
    },
  };
}

/**
 * Keeps two checkpoints of a log that contradict each other, for others to check, in a file beside this one. What is
 * there already stays: it was the first.
 */
export async function keepEvidence(path: string, remembered: string, found: string): Promise<void> {
  const beside = `${path}.forked.json`;
  const evidence = `${JSON.stringify({ remembered, found }, null, 2)}\n`;
  await writeFile(beside, evidence, { flag: "wx", flush: true }).catch((error) => {
    if (!hasCode(error, "EEXIST"))
      throw new Fault("CHECKPOINT_FILE", `${beside} cannot be written: ${messageOf(error)}`);
  });
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
    const reason = ofFormat2.test(note) ? older : messageOf(error);
    throw new Fault("CHECKPOINT_FILE", `${path} cannot be used: ${reason}`, { cause: error });
  }
}
