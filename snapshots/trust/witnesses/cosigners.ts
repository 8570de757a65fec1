import { maxNoteBytes, NoteError, parseNote } from "../../format/note.ts";
import type { Witness } from "../../format/policy.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import type { Storage } from "../../store/storage.ts";
import { checkSignature, timeOf } from "../notes/cosignature.ts";

/** Who cosigned a checkpoint, and when. */
export interface Cosigned {
  name: string;
  /** ISO 8601; null where the signature tells none. */
  time: string | null;
}

/**
 * Who cosigned the checkpoints of these sizes, where the store has them. Witnesses that are given are checked and
 * called as their policy calls them; without any it is what the notes say, by the names of the keys and unchecked.
 */
export async function cosignersOf(
  storage: Storage,
  sizes: readonly number[],
  witnesses: readonly Witness[],
): Promise<Map<number, Cosigned[]>> {
  const found = new Map<number, Cosigned[]>();
  await inParallel(sizes, async (size) => {
    const key = layout.logCheckpointOf(size);
    const note = await unless(CorruptObjectError, () => storage.get(key, { maxBytes: maxNoteBytes }));
    if (note) found.set(size, cosignersIn(note.toString(), witnesses));
  });
  return found;
}

function cosignersIn(note: string, witnesses: readonly Witness[]): Cosigned[] {
  try {
    const { text, signatures } = parseNote(note);
    const origin = text.slice(0, text.indexOf("\n"));
    if (witnesses.length === 0)
      return signatures.flatMap(({ name }) => (name === origin ? [] : [{ name, time: null }]));
    return witnesses.flatMap(({ name, key }) => {
      const found = signatures.find((each) => each.name === key.name && each.id === key.id);
      if (!found || checkSignature(key, text, found.signature) !== "right") return [];
      return [{ name, time: new Date((timeOf(key.kind, found.signature) ?? 0) * 1000).toISOString() }];
    });
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return [];
  }
}
