/** A counter after units were taken or refused. */
export interface Taken {
  allowed: boolean;
  /** Units used that day, including those just taken. */
  used: number;
}

/**
 * Counters of used units, one per account and UTC day (`2026-03-01`). Every method throws if the store cannot be
 * reached.
 */
export interface QuotaStore {
  /** Atomically adds units, unless that would pass `limit`. */
  take(account: string, day: string, units: number, limit: number): Promise<Taken>;
  /** Subtracts units that were added before. */
  giveBack(account: string, day: string, units: number): Promise<void>;
  /** Units used so far. */
  used(account: string, day: string): Promise<number>;
  close(): void;
}

/** Prefix of accounts without a key. Their number has no bound, while keys are issued by the operator. */
export const freeAccounts = "free:";
