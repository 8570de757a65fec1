import { ServiceError } from "../schemas/errors.ts";
import { type Plan, plans } from "../schemas/plans.ts";
import { sqliteQuota } from "./quota-sqlite.ts";
import type { QuotaStore } from "./quota-store.ts";

/** Whose units a request takes. */
export interface Caller {
  plan: Plan;
  /** The counter's name: one per plan and owner, or per plan and client address. */
  account: string;
  /** Units per UTC day. */
  limit: number;
}

/** What a metered request took, and the state its rate-limit headers tell. */
export interface Receipt {
  plan: Plan;
  limit: number;
  remaining: number;
  /** When the counter starts anew, epoch milliseconds. */
  resetAt: number;
  allowed: boolean;
  /** Returns the units of a request that cost the caller nothing after all. Never throws. */
  giveBack(): Promise<void>;
}

/** What happens to requests while the quota store fails: counted in this process, let through, or refused. */
export type FailurePolicy = "local" | "open" | "closed";

/** Daily quotas. */
export interface Quota {
  /** Takes units, or not when they would pass the limit. Throws ServiceError QUOTA_UNAVAILABLE. */
  take(caller: Caller, units: number): Promise<Receipt>;
  close(): void;
}

const dayMilliseconds = 86_400_000;

/**
 * Quotas over a store; the one place where the failure policy is carried out. `failed` hears of a failure
 * when it begins, not of every request that meets it.
 */
export function createQuota(
  store: QuotaStore,
  options: { onFailure: FailurePolicy; now: () => number; failed: (error: unknown) => void },
): Quota {
  const local = sqliteQuota(":memory:");
  let failing = false;

  function report(error: unknown) {
    if (!failing) options.failed(error);
    failing = true;
  }

  async function count({ account, limit }: Caller, day: string, units: number) {
    try {
      const taken = await store.take(account, day, units, limit);
      failing = false;
      return { store, ...taken };
    } catch (error) {
      report(error);
      if (options.onFailure === "local") {
        return { store: local, ...(await local.take(account, day, units, limit)) };
      }
      if (options.onFailure === "open") return { store: undefined, allowed: true, used: 0 };
      throw new ServiceError("QUOTA_UNAVAILABLE", "Requests cannot be counted right now; try again shortly.");
    }
  }

  return {
    async take(caller, units) {
      const midnight = Math.floor(options.now() / dayMilliseconds) * dayMilliseconds;
      const day = new Date(midnight).toISOString().slice(0, 10);
      const { store: counted, allowed, used } = await count(caller, day, units);
      const receipt: Receipt = {
        plan: caller.plan,
        limit: caller.limit,
        remaining: Math.max(0, caller.limit - used),
        resetAt: midnight + dayMilliseconds,
        allowed,
        async giveBack() {
          try {
            await counted?.giveBack(caller.account, day, units);
            receipt.remaining = Math.min(receipt.limit, receipt.remaining + units);
          } catch (error) {
            report(error);
          }
        },
      };
      return receipt;
    },
    close() {
      store.close();
      local.close();
    },
  };
}

/** The refusal of a caller whose day's units are used up: plan, reset and the way to more. */
export function quotaExceeded({ plan, limit, resetAt }: Receipt): ServiceError {
  const reset = new Date(resetAt).toISOString();
  return new ServiceError(
    "QUOTA_EXCEEDED",
    `The ${plan} plan's ${limit} requests of this UTC day are used up; counting starts anew at ${reset}. ` +
      wayToMore[plan],
  );
}

const wayToMore: Record<Plan, string> = {
  free: `A Developer key allows ${plans.developer.dailyQuota} requests a day.`,
  developer: `The Aegis plan allows ${plans.aegis.dailyQuota} requests a day.`,
  aegis: "Ask the service's operator for a higher quota on this key.",
};

/**
 * X-RateLimit-* (SPEC 8) and the IETF fields RateLimit and RateLimit-Policy of the same state; all in
 * seconds.
 */
export function rateLimitHeaders(receipt: Receipt, now: number): Record<string, string> {
  const { plan, limit, remaining, resetAt } = receipt;
  const seconds = secondsUntil(resetAt, now);
  return {
    "X-RateLimit-Limit": String(limit),
    "X-RateLimit-Remaining": String(remaining),
    "X-RateLimit-Reset": String(resetAt / 1000),
    "RateLimit-Policy": `"${plan}";q=${limit};w=${dayMilliseconds / 1000}`,
    RateLimit: `"${plan}";r=${remaining};t=${seconds}`,
  };
}

/** Whole seconds from now to a later moment, at least 1. */
export function secondsUntil(moment: number, now: number): number {
  return Math.max(1, Math.ceil((moment - now) / 1000));
}
