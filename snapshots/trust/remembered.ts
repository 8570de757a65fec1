import { consistencyFromTiles } from "../format/log-proofs.ts";
import type { TreeHead } from "../format/log-tree.ts";
import { treeHead } from "../format/tree.ts";
import { tilesIn } from "../store/log/public-log.ts";
import type { Storage } from "../store/storage.ts";
import type { Submission } from "./ask-witnesses.ts";
import type { Signing } from "./signing.ts";
import { storedCheckpoint } from "./stored-checkpoint.ts";
import { signTree } from "./tree-head.ts";
import type { Trust } from "./trust.ts";

/** What somebody else than the store remembers of the log. */
export interface Remembered {
  /** Who does, for messages. */
  who: string;
  /** How many entries the log had. */
  size: number;
  /** Whether its beginning was another one than that which the store has. */
  otherTree: boolean;
}

/** A checkpoint that witnesses can cosign. */
export function submissionOf(storage: Storage, note: string, { size }: TreeHead): Submission {
  return { note, size, consistency: (from) => consistencyFromTiles(tilesIn(storage), from, size) };
}

/**
 * What witnesses remember that does not fit the checkpoint of the store, or that is ahead of it. They are shown that
 * checkpoint once more. Where it is gone they are shown the empty tree, with which every log begins, and answer with
 * the size that they have seen. Throws StorageError.
 */
export async function rememberedBy(storage: Storage, trust: Trust, signing: Signing): Promise<Remembered[]> {
  const { key, witnesses } = signing;
  if (!key || !witnesses) return [];
  const { checkpoint } = await storedCheckpoint(storage, trust);
  const tree = checkpoint ?? { size: 0, head: treeHead([]) };
  const submission = submissionOf(storage, signTree(signing, tree), tree);
  const answers = await witnesses.ask(witnesses.policy.witnesses, submission);
  return answers.flatMap((answer) => {
    if ("line" in answer || (answer.size === undefined && !answer.otherTree)) return [];
    const { witness, size = tree.size, otherTree = false } = answer;
    return [{ who: `witness ${witness.name}`, size, otherTree }];
  });
}
