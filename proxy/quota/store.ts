/** One counter's state after a request was counted, or was not. */
export interface Taken {
  allowed: boolean;
  /** Units used of the day, the ones just taken included. */
  used: number;
}

/**
 * Counters of used units, one per account and day (`2026-03-01`). Every method throws when the store cannot
 * be reached.
 */
export interface QuotaStore {
  /** Adds units unless that would pass `limit`; one atomic step, whoever else counts at the same time. */
  take(account: string, day: string, units: number, limit: number): Promise<Taken>;
  /** Takes back units that were added before. */
  giveBack(account: string, day: string, units: number): Promise<void>;
  /** Units used so far. */
  used(account: string, day: string): Promise<number>;
  close(): void;
}

/** The account of a caller without a key begins so; there is no end of those, while keys are the operator's. */
export const freeAccounts = "free:";
