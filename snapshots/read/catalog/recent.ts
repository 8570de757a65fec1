import type { CommitLog } from "./commit-log.ts";

/** One look into the store. */
interface Look<T> {
  /** Digest of the commit that was the newest then. */
  newest: string | undefined;
  /** Epoch milliseconds. */
  at: number;
  found: Promise<T>;
}

/**
 * The result of a look into the store. It serves all callers for a while, or until another commit becomes the newest.
 */
export class Recent<T> {
  readonly #look: () => Promise<T>;
  readonly #log: CommitLog;
  readonly #seconds: number;
  readonly #now: () => number;
  #last: Look<T> | undefined;

  constructor(
    look: () => Promise<T>,
    { log, seconds, now }: { log: CommitLog; seconds: number; now: () => number },
  ) {
    this.#look = look;
    this.#log = log;
    this.#seconds = seconds;
    this.#now = now;
  }

  /** Throws what the look throws; the next call then looks again. */
  async get(): Promise<T> {
    const [newest, at] = [this.#log.newest?.digest, this.#now()];
    const fresh = this.#last?.newest === newest && Math.abs(at - this.#last!.at) < this.#seconds * 1000;
    if (!fresh) {
      const look: Look<T> = { newest, at, found: this.#look() };
      this.#last = look;
      look.found.catch(() => {
        if (this.#last === look) this.#last = undefined;
      });
    }
    return this.#last!.found;
  }
}
