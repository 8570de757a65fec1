import type { Commit } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { isBroken, logFrom } from "../store/log/commit-chain.ts";
import type { Storage } from "../store/storage.ts";

/** A commit that was taken up before. */
export type Known = Pick<Commit, "commit" | "digest">;

/** No reader is so many commits behind: with one an hour it is eleven years. */
const maxCommits = 100_000;

/** Tells whether a commit follows, by whatever number of others, the one that a reader remembers. */
export class Lineage {
  readonly #storage: Storage;
  /** A commit that does not, and which one it does not follow. The next walk ends there: a fork may go on for long. */
  #astray: { digest: string; known: string } | undefined;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /**
   * Throws CorruptObjectError unless `newest` leads back to the lower commit `known`, or StorageError. Holds one commit
   * at a time.
   */
  async require(newest: Commit, known: Known): Promise<void> {
    if (newest.previous === known.digest && newest.commit === known.commit + 1) return;
    const fault = await this.#fault(newest, known);
    if (fault === undefined) return;
    const told = `it does not lead back to commit ${known.commit}, which was taken up before${fault && `: ${fault}`}`;
    throw new CorruptObjectError(layout.commit(newest.commit), told);
  }

  /** Why `newest` does not lead there, "" for what its message says anyway; undefined when it does. */
  async #fault(newest: Commit, known: Known): Promise<string | undefined> {
    if (newest.commit - known.commit > maxCommits) return `more than ${maxCommits} commits lie between`;
    try {
      for await (const commit of logFrom(this.#storage, newest, known.commit)) {
        if (commit.digest === known.digest) return undefined;
        if (commit.digest === this.#astray?.digest && known.digest === this.#astray.known) break;
      }
    } catch (error) {
      if (!isBroken(error)) throw error;
      return error.message;
    }
    this.#astray = { digest: newest.digest, known: known.digest };
    return "";
  }
}
