import { maxNoteBytes, NoteError } from "../../format/note.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import type { Storage } from "../../store/storage.ts";
import { type NotedCheckpoint, parseCheckpoint } from "../notes/checkpoint.ts";
import { type Trust, type TrustedCheckpoint, UntrustedError } from "../trust.ts";

/**
 * So many checkpoints of sizes are looked at, some at once: anybody who can write to the store may have put others
 * above.
 */
const maxLooked = 256;
const atOnce = 16;

/** The newest checkpoint of a store that counts, and why the one that stands for the newest does not. */
export interface StoredCheckpoint {
  checkpoint: TrustedCheckpoint | undefined;
  refused: UntrustedError | undefined;
  /** The note that stands for the newest, whatever it is; undefined when there is none. */
  shown?: string | undefined;
}

/**
 * Finds the newest checkpoint of a store that counts. Where `public/log/checkpoint` does not, or is smaller than
 * `least`, which may be Infinity, those of single sizes are looked at, from the largest down, and that of `least` in
 * any case.
 */
export async function storedCheckpoint(storage: Storage, trust: Trust, least = 0): Promise<StoredCheckpoint> {
  const { lacking, ...newest } = await readCheckpoint(storage, trust, layout.logCheckpoint);
  const { checkpoint } = newest;
  if (checkpoint && checkpoint.size >= least) return newest;
  // From one that its log signed, and too few witnesses cosigned, no name has to be searched: that of its own size has
  // every cosignature, also one that was taken out of this.
  const sizes =
    lacking !== undefined && lacking >= least
      ? downFrom(lacking, least)
      : await newestSizes(storage, checkpoint?.size ?? 0);
  const known = least > 0 && Number.isFinite(least) ? [least] : [];
  for (let at = 0; at < sizes.length + known.length; at += atOnce) {
    const some = [...sizes, ...known].slice(at, at + atOnce);
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
  const bytes = await unless(CorruptObjectError, () => storage.get(key, { maxBytes: maxNoteBytes }));
  const note = bytes?.toString() ?? "";
  return unless(NoteError, async () => (bytes ? { ...parseCheckpoint(note), note } : undefined));
}

/** The checkpoint of a key that counts; else the size of one that only lacks cosignatures, and why neither is there. */
async function readCheckpoint(
  storage: Storage,
  trust: Trust,
  key: string,
): Promise<StoredCheckpoint & { lacking?: number }> {
  const bytes = await unless(CorruptObjectError, () => storage.get(key, { maxBytes: maxNoteBytes }));
  const shown = bytes?.toString();
  const none = { checkpoint: undefined, refused: undefined, shown };
  if (shown === undefined) return none;
  const found = trust.signedTree(shown);
  if ("reason" in found) return { ...none, refused: new UntrustedError(key, found.reason) };
  if (found.lacking === undefined) return { ...none, checkpoint: found };
  return { ...none, refused: new UntrustedError(key, found.lacking), lacking: found.size };
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
    const size = Number(key.slice(layout.logCheckpointOf.prefix.length));
    if (size > above && layout.logCheckpointOf(size) === key) sizes.push(size);
    if (sizes.length >= 10 * maxLooked) sizes = largest();
  }
  return largest();
}
