import { consistencyFromTiles } from "../../format/log-proofs.ts";
import type { TreeHead } from "../../format/log-tree.ts";
import { treeHead } from "../../format/tree.ts";
import { tilesIn } from "../../store/log/public-log.ts";
import type { Storage } from "../../store/storage.ts";
import { signCheckpoint } from "../notes/checkpoint.ts";
import { type Signing, trustOf } from "../signing.ts";
import type { Submission } from "../witnesses/ask-witnesses.ts";
import { storedCheckpoint } from "./stored-checkpoint.ts";

/** What somebody says of a log: how many entries it had, and the head of its tree where that is told. */
export interface Evidence extends Pick<TreeHead, "size"> {
  head?: TreeHead["head"];
  /** Whether it is known to be another log than that which the store has. */
  isOther?: boolean;
  /** Who says so, and how: the beginning of a sentence that goes on with the number of a commit. */
  says: string;
}

/** A checkpoint that witnesses can cosign. */
export function submissionOf(storage: Storage, note: string, { size }: TreeHead): Submission {
  return { note, size, consistency: (from) => consistencyFromTiles(tilesIn(storage), from, size) };
}

/** What a publisher's own file remembers. */
export const rememberedHere = ({ memory }: Signing): Evidence[] =>
  memory?.newest ? [{ ...memory.newest, says: `${memory.path} names` }] : [];

/**
 * What a publisher's own file and its witnesses remember. Witnesses are shown the checkpoint of the store once more,
 * and tell only what does not fit it or is ahead of it. Where it is gone, a publisher shows them the empty tree, with
 * which every log begins, and they answer with the size that they have seen.
 */
export async function rememberedBy(storage: Storage, signing: Signing): Promise<Evidence[]> {
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
    const { witness, size = tree.size, otherTree: isOther = false } = answer;
    const says = `witness ${witness.name} has seen ${isOther ? "another log with" : "a log with"}`;
    remembered.push({ size, isOther, says });
  }
  return remembered;
}
