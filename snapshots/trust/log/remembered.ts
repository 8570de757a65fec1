import { consistencyFromTiles } from "../../format/log-proofs.ts";
import type { TreeHead } from "../../format/log-tree.ts";
import { treeHead } from "../../format/tree.ts";
import { tilesIn } from "../../store/log/public-log.ts";
import type { Storage } from "../../store/storage.ts";
import { signCheckpoint } from "../notes/checkpoint.ts";
import { type Signing, trustOf } from "../signing.ts";
import type { Submission } from "../witnesses/ask-witnesses.ts";
import { storedCheckpoint } from "./stored-checkpoint.ts";

/** What somebody else than the store remembers of the log. */
export interface Remembered {
  /** Who does, for messages. */
  who: string;
  /** How many entries the log had. */
  size: number;
  /** Its root, where they can tell; else whether it was another one than that which the store has. */
  tree: Buffer | "same" | "other";
}

/** A checkpoint that witnesses can cosign. */
export function submissionOf(storage: Storage, note: string, { size }: TreeHead): Submission {
  return { note, size, consistency: (from) => consistencyFromTiles(tilesIn(storage), from, size) };
}

/** What a publisher's own file remembers. */
export function rememberedHere({ memory }: Signing): Remembered[] {
  const own = memory?.newest;
  return own ? [{ who: memory.path, size: own.size, tree: own.head }] : [];
}

/**
 * What a publisher's own file and its witnesses remember. Witnesses are shown the checkpoint of the store once more,
 * and tell only what does not fit it or is ahead of it. Where it is gone, a publisher shows them the empty tree, with
 * which every log begins, and they answer with the size that they have seen. Throws StorageError.
 */
export async function rememberedBy(storage: Storage, signing: Signing): Promise<Remembered[]> {
  const { key, witnesses } = signing;
  const trust = trustOf(signing);
  const remembered = rememberedHere(signing);
  if (!trust || !witnesses) return remembered;
  const { checkpoint } = await storedCheckpoint(storage, trust);
  const tree = checkpoint ?? { size: 0, head: treeHead([]) };
  // Whoever has no key shows what a publisher signed.
  const note = key ? signCheckpoint(signing, tree) : checkpoint?.note;
  if (note === undefined) return remembered;
  const submission = submissionOf(storage, note, tree);
  const answers = await witnesses.ask(witnesses.policy.witnesses, submission);
  for (const answer of answers) {
    if ("line" in answer || (answer.size === undefined && !answer.otherTree)) continue;
    const { witness, size = tree.size, otherTree } = answer;
    remembered.push({ who: `witness ${witness.name}`, size, tree: otherTree ? "other" : "same" });
  }
  return remembered;
}
