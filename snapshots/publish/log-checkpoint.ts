import type { Commit } from "../../schemas/snapshot.ts";
import { layout } from "../store/layout.ts";
import { type Storage, StorageError } from "../store/storage.ts";
import { requireNamed } from "../trust/run-log.ts";
import { type Signing, trustOf } from "../trust/signing.ts";
import { storedCheckpoint } from "../trust/stored-checkpoint.ts";
import { signTree } from "../trust/tree-head.ts";
import { treeUpTo } from "./public-log.ts";
import { putIfDifferent } from "./site.ts";

/** Another round is needed only when another publisher signed meanwhile. */
const maxRounds = 16;

/**
 * Signs the tree of the log that ends with the newest commit, whoever made that: a run may have been killed before it signed. It
 * signs nothing without a key, and where no trusted key signed the commit's entry. Throws UntrustedPredecessorError when the tree does not
 * begin with every one that was signed before, CorruptObjectError or StorageError.
 */
export async function updateCheckpoint(storage: Storage, newest: Commit, signing: Signing): Promise<void> {
  const { key } = signing;
  const trust = trustOf(signing);
  if (!key || !trust?.hasEntry(newest)) return;
  const { commit: size } = newest;
  const tree = await treeUpTo(storage, newest);
  for (let round = 0; round < maxRounds; round += 1) {
    const tag = await tagOf(storage);
    const { checkpoint } = await storedCheckpoint(storage, trust, size);
    // Another publisher went on meanwhile, and vouches for this tree.
    if (checkpoint && checkpoint.size > size) return;
    if (checkpoint) await requireNamed(storage, newest, [{ key: layout.logCheckpoint, ...checkpoint }]);
    const note = Buffer.from(checkpoint?.size === size ? checkpoint.note : signTree(key, tree));
    await putIfDifferent(storage, layout.logCheckpointOf(size), note);
    const done =
      tag === undefined
        ? await storage.putIfAbsent(layout.logCheckpoint, note)
        : await storage.replace(layout.logCheckpoint, note, tag);
    if (done) return;
  }
  throw new StorageError(
    `${storage.location}: other publishers keep changing ${layout.logCheckpoint}; run again`,
  );
}

/** The tag of the newest checkpoint; undefined when there is none. */
async function tagOf(storage: Storage): Promise<string | undefined> {
  for await (const { key, tag } of storage.list(layout.logCheckpoint))
    if (key === layout.logCheckpoint) return tag;
  return undefined;
}
