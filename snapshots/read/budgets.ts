import { LRUCache } from "lru-cache";
import type { Turn } from "../store/in-parallel.ts";

// What all requests of a process share: its thread, and its memory.

// One step is the time it takes to inflate a run, or to compare a column or two of a segment: 0.05 to 0.15 ms.
const stepsPerRound = 20;

const waiting: { steps: number; resolve: () => void }[] = [];
let stepsLeft = stepsPerRound;
let renewing = false;

/**
 * Waits until the caller may do the next piece of a long computation on this thread. All requests share a budget of
 * steps per round of the event loop, first come first served. Small requests therefore do not wait for large ones.
 */
export async function awaitBudget(steps = 1): Promise<void> {
  if (!renewing) setImmediate(renew);
  renewing = true;
  if (stepsLeft > 0) stepsLeft -= steps;
  else await new Promise<void>((resolve) => waiting.push({ steps, resolve }));
}

function renew(): void {
  renewing = waiting.length > 0;
  if (renewing) setImmediate(renew);
  stepsLeft = stepsPerRound;
  while (stepsLeft > 0 && waiting.length > 0) {
    const { steps, resolve } = waiting.shift()!;
    stepsLeft -= steps;
    resolve();
  }
}

/** The caller that long work is done for. */
export interface Payer {
  /** Nobody waits for the answer any more. */
  gone(): boolean;
  /** Pays for a piece of the work. The work ends when it throws. */
  pay(): Promise<void>;
}

/** Steps of awaitBudget per quota unit: some 50 ms. */
const stepsPerUnit = 400;

/** Waits as awaitBudget does, and pays for the steps beyond those of the request's own unit. */
export function paidSteps(pay: Payer["pay"]): Turn {
  let done = 0;
  return async (steps = 1) => {
    done += steps;
    while (done >= stepsPerUnit) {
      // Must come before the payment, because others may add to it meanwhile.
      done -= stepsPerUnit;
      await pay();
    }
    await awaitBudget(steps);
  };
}

/** Work ended because its payer left, or could not pay; `cause` is what `pay` threw. */
export class GivenUpError extends Error {
  override readonly name = "GivenUpError";
  readonly payer: Payer;

  constructor(payer: Payer, cause?: unknown) {
    super("nobody waits for this work any more, or pays for it", { cause });
    this.payer = payer;
  }
}

/** Steps of each turn of work on differences. */
const stepsPerTurn = 4;

/** Its payer pays for the work as it is done; the request itself has paid for the first piece. */
export function paidTurns(payer: Payer): Turn {
  const spend = paidSteps(payer.pay);
  return async () => {
    if (payer.gone()) throw new GivenUpError(payer);
    await spend(stepsPerTurn).catch((error: unknown) => {
      throw new GivenUpError(payer, error);
    });
  };
}

const mebibyte = 2 ** 20;

export interface Budget {
  /** Of all entries together, in what the memo counts: bytes, or entries. */
  most: number;
  /** Of one entry; a larger one is made anew each time. */
  mostEach?: number;
  /** Milliseconds for which an entry serves. Without it, names must be such that no entry goes stale. */
  ttl?: number;
}

/** The memory of everything that is kept beside snapshots and what CACHE_BYTES bounds. */
export const budgets = {
  /** Bytes of tiles and bundles of the public log: a tile has 8 KiB, a bundle of usual entries 150. */
  logFiles: { most: 8 * mebibyte },
  /** Checkpoints, of at most 64 KiB. The next run may change what each name stands for. */
  checkpoints: { most: 64, ttl: 1000 },
  /** Bytes. An answer that breaks off is soon asked for again. */
  differences: { most: 32 * mebibyte, mostEach: 24 * mebibyte, ttl: 600_000 },
  /** Bytes of runs that one answer keeps. Most have about 60 kB, and the largest half as much as this. */
  changeRuns: { most: 8 * mebibyte },
  /** Protocols in lists of tiers. Each takes some 100 bytes. */
  tiers: { most: 100_000 },
  tierAnswers: { most: 1 },
  /** Changes of scores, of half a kilobyte. Most clients read the same ones at the same time. */
  scoreChanges: { most: 30_000 },
  /** Bytes of tables of an index's parts. Those of 20 million markets fit. */
  partTables: { most: 32 * mebibyte },
  /** Bytes of lists of scores as tables. Making one of some thousand protocols takes longer than sending it. */
  scoreTables: { most: 8 * mebibyte },
  /** Parsed lists of scores, of some megabytes. Parsing one takes longer than sending a part of it. */
  scoreLists: { most: 2 },
} as const satisfies Record<string, Budget>;

/** How CACHE_BYTES is shared. */
export const cacheShares = {
  objects: 1 / 2,
  /** A cached answer keeps its stored pages in memory even after they were dropped as objects. */
  answers: 3 / 8,
  /** A walk recompresses the runs at both ends of its pages, which are about a fifth of the bytes it copies. */
  pieces: 3 / 32,
  ids: 1 / 64,
  hashes: 1 / 64,
  /** Superseded snapshots, which come on top of the other shares. */
  superseded: 1 / 4,
} as const;

/** Keeps the results used last, by name. Concurrent calls of a name share the work for it. */
export class Memo<V extends NonNullable<unknown>> {
  readonly #kept: LRUCache<string, V, () => Promise<V>>;
  #hits = 0;
  #misses = 0;

  constructor({ most, mostEach = most, ttl = 0 }: Budget, sizeOf: (value: V) => number = () => 1) {
    this.#kept = new LRUCache<string, V, () => Promise<V>>({
      maxSize: most,
      maxEntrySize: mostEach,
      ttl,
      sizeCalculation: sizeOf,
      fetchMethod: (_name, _stale, { context: make }) => make(),
      // Several requests may wait for this work; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
  }

  async get(name: string, make: () => Promise<V>): Promise<V> {
    const cached = this.#kept.get(name);
    if (cached) {
      this.#hits += 1;
      return cached;
    }
    this.#misses += 1;
    return this.#kept.forceFetch(name, { context: make });
  }

  has(name: string): boolean {
    return this.#kept.has(name);
  }

  forget(name: string): void {
    this.#kept.delete(name);
  }

  /** Drops entries until the rest takes no more than this; the one used last stays. */
  trim(most: number): void {
    while (this.#kept.size > 1 && this.#kept.calculatedSize > most) this.#kept.pop();
  }

  /** Bytes, or whatever else the memo counts, in memory now; hits and misses since the start. */
  counts() {
    return { bytes: this.#kept.calculatedSize, hits: this.#hits, misses: this.#misses };
  }
}

/** Lets calls of one name share the work that is under way for it. */
export class SingleFlight<T> {
  readonly #underway = new Map<string, Promise<T>>();

  run(name: string, work: () => Promise<T>): Promise<T> {
    const underway = this.#underway.get(name);
    if (underway) return underway;
    const begun = work().finally(() => this.#underway.delete(name));
    this.#underway.set(name, begun);
    return begun;
  }
}
