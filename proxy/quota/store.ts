import type { Ready } from "../../schemas/envelopes.ts";

export interface Taken {
  allowed: boolean;
  /** Units used that day, including those just taken. */
  used: number;
}

/**
 * Counters of used units, one per account and UTC day (`2026-03-01`). Every method rejects if they cannot be reached.
 */
export interface Counters {
  /** Atomically adds units, unless that would pass `limit`. */
  take(account: string, day: string, units: number, limit: number): Promise<Taken>;
  /** Subtracts units that were added before. */
  giveBack(account: string, day: string, units: number): Promise<void>;
  used(account: string, day: string): Promise<number>;
  close(): void | Promise<void>;
}

/** What is lost if the counter server fails. */
export type Keeping = Omit<Ready["counting"], "onFailure">;

/** Counters outside of this process. */
export interface QuotaStore extends Counters {
  /** Names the part of the store that holds a counter now, where parts fail on their own. */
  partOf?(account: string, day: string): string;
  /** Never throws. */
  keeping(): Promise<Keeping>;
}

/** Prefix of accounts without a key. Their number has no bound, while keys are issued by the operator. */
export const freeAccounts = "free:";
