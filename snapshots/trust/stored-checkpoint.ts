import { CorruptObjectError, unless } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import type { Storage } from "../store/storage.ts";
import { maxNoteBytes, NoteError } from "./signed-note.ts";
import { type NotedCheckpoint, parseTree } from "./tree-head.ts";
import { type Trust, type TrustedCheckpoint, UntrustedError } from "./trust.ts";

/** Checkpoints of sizes that are looked at: anybody who can write to the store may have put others above a good one. */
const maxLooked = 100;

/** The newest checkpoint of a store that counts, and why the one that stands for the newest does not. */
export interface StoredCheckpoint {
  checkpoint: TrustedCheckpoint | undefined;
  refused: UntrustedError | undefined;
}

/**
 * Finds the newest checkpoint of a store that counts. Where `public/log/checkpoint` does not, or is smaller than
 * `least`, those of single sizes are looked at, from the largest down. Throws StorageError.
 */
export async function storedCheckpoint(storage: Storage, trust: Trust, least = 0): Promise<StoredCheckpoint> {
  const newest = await readCheckpoint(storage, trust, layout.logCheckpoint);
  if (newest && !(newest instanceof UntrustedError) && newest.size >= least)
    return { checkpoint: newest, refused: undefined };
  const found = newest instanceof UntrustedError ? undefined : newest;
  const refused = newest instanceof UntrustedError ? newest : undefined;
  for (const size of await newestSizes(storage, found?.size ?? 0)) {
    const checkpoint = await readCheckpoint(storage, trust, layout.logCheckpointOf(size));
    if (checkpoint && !(checkpoint instanceof UntrustedError)) return { checkpoint, refused };
  }
  return { checkpoint: found, refused };
}

/** The newest checkpoint of a store, whoever signed it; undefined when there is none. Throws StorageError. */
export async function anyCheckpoint(storage: Storage): Promise<NotedCheckpoint | undefined> {
  const bytes = await unless(CorruptObjectError, () =>
    storage.get(layout.logCheckpoint, { maxBytes: maxNoteBytes }),
  );
  const note = bytes?.toString() ?? "";
  return unless(NoteError, async () => (bytes ? { ...parseTree(note), note } : undefined));
}

/** The checkpoint of a key, or why it does not count; undefined when there is none. */
async function readCheckpoint(
  storage: Storage,
  trust: Trust,
  key: string,
): Promise<TrustedCheckpoint | UntrustedError | undefined> {
  const bytes = await unless(CorruptObjectError, () => storage.get(key, { maxBytes: maxNoteBytes }));
  const checkpoint = bytes && trust.tree(bytes.toString());
  return checkpoint && "reason" in checkpoint ? new UntrustedError(key, checkpoint.reason) : checkpoint;
}

/** The largest sizes, above this one, of which a store has a checkpoint. */
async function newestSizes(storage: Storage, above: number): Promise<number[]> {
  let sizes: number[] = [];
  const largest = () => sizes.sort((a, b) => b - a).slice(0, maxLooked);
  for await (const { key } of storage.list(layout.logCheckpoints)) {
    const size = Number(key.slice(layout.logCheckpoints.length));
    if (size > above && layout.logCheckpointOf(size) === key) sizes.push(size);
    if (sizes.length >= 10 * maxLooked) sizes = largest();
  }
  return largest();
}
