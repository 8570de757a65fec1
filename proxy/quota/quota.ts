import { LRUCache } from "lru-cache";
import type { Ready } from "../../schemas/envelopes.ts";
import { type ErrorCode, Fault } from "../../schemas/errors.ts";
import { type Plan, plans } from "../../schemas/plans.ts";
import { guardPeer } from "../peers/breaker.ts";
import { type Counters, type QuotaStore, sqliteQuota } from "./counters.ts";

export interface Caller {
  plan: Plan;
  /** The counter's name: one per plan and owner, or per plan and client address. */
  account: string;
  /** Units per UTC day. */
  limit: number;
}

/** The units that a metered request took, and the state for its rate-limit headers. */
export interface Receipt {
  plan: Plan;
  limit: number;
  remaining: number;
  /** When the counter starts anew, epoch milliseconds. */
  resetAt: number;
  allowed: boolean;
  units: number;
  /** Takes more for the request, one by default. Throws QUOTA_EXCEEDED, and takes none, when fewer are left. */
  more(count?: number): Promise<Receipt>;
  /** Returns the units taken at first, for a request that cost the caller nothing after all. Never throws. */
  giveBack(): Promise<void>;
}

type Question<T> = (counters: Counters) => Promise<T>;

const uncounted: Counters = {
  take: async () => ({ allowed: true, used: 0 }),
  giveBack: async () => {},
  used: async () => 0,
  close() {},
};

/** What happens to requests while the quota store fails: counted in this process, let through, or refused. */
export type FailurePolicy = Ready["counting"]["onFailure"];

// Bounds the parts of a store that are remembered, so that nodes that are gone are forgotten.
const mostParts = 1000;

export type Quota = ReturnType<typeof createQuota>;

const dayMilliseconds = 86_400_000;

/**
 * Daily quotas over a store; the only place that carries out the failure policy. `failed` is called when a failure
 * begins and not for every request that meets it, `recovered` when it is over.
 */
export function createQuota(
  store: QuotaStore,
  options: {
    onFailure: FailurePolicy;
    now: () => number;
    failed: (error: unknown) => void;
    recovered?: () => void;
  },
) {
  const instead = { local: sqliteQuota(":memory:"), open: uncounted, closed: undefined }[options.onFailure];
  /**
   * By part of the store: its circuit breaker, whether it answered last time, and the account of its last failure, with
   * which `ready` asks again.
   */
  const parts = new LRUCache({
    max: mostParts,
    memoMethod: (_name: string) => ({ guarded: guardPeer(), account: "", well: null as boolean | null }),
  });
  let failing = false;
  let today = dayOf(options.now());

  /** Kept for the day, because formatting a date takes longer than counting a request. */
  function currentDay() {
    const untilReset = today.resetAt - options.now();
    if (!(untilReset > 0 && untilReset <= dayMilliseconds)) today = dayOf(options.now());
    return today;
  }

  /** Reports when the first part fails, and when none fails any more. */
  function review(error?: unknown) {
    const before = failing;
    failing = [...parts.values()].some(({ well }) => well === false);
    if (failing && !before) options.failed(error);
    if (!failing && before) options.recovered?.();
  }

  /** Asks the part of the store that holds a counter. A question that only `reads` does not end a failure. */
  async function askStore<T>(account: string, day: string, question: () => Promise<T>, reads = false) {
    const part = parts.memo(store.partOf?.(account, day) ?? "");
    try {
      const answer = await part.guarded(question);
      if (!reads && !part.well) {
        part.well = true;
        review();
      }
      return answer;
    } catch (error) {
      [part.well, part.account] = [false, account];
      review(error);
      throw error;
    }
  }

  /** Asks the store or, while it fails, the counters that the policy puts in its place. */
  const ask = <T>(account: string, day: string, question: Question<T>, reads = false) =>
    askStore(account, day, () => question(store), reads).catch(() => {
      if (instead) return question(instead);
      throw new Fault("QUOTA_UNAVAILABLE", "Requests cannot be counted right now; try again shortly.");
    });

  return {
    async take(caller: Caller, units: number): Promise<Receipt> {
      const { plan, account, limit } = caller;
      const { day, resetAt } = currentDay();
      let counters: Counters = store;
      const { allowed, used } = await ask(account, day, (chosen) => {
        counters = chosen;
        return chosen.take(account, day, units, limit);
      });
      const receipt: Receipt = {
        plan,
        limit,
        remaining: Math.max(0, limit - used),
        resetAt,
        allowed,
        units,
        more: async (count = 1) => {
          const next = await this.take(caller, count);
          if (!next.allowed) throw quotaExceeded(next);
          receipt.remaining = next.remaining;
          receipt.units += count;
          return next;
        },
        async giveBack() {
          const give = () => counters.giveBack(account, day, units);
          try {
            await (counters === store ? askStore(account, day, give) : give());
            receipt.remaining = Math.min(limit, receipt.remaining + units);
          } catch {
            // The units stay taken, and the failure is reported.
          }
        },
      };
      return receipt;
    },
    /** Reads what is left without taking anything, as for GET /api/v1/usage. */
    async standing({ account, limit }: Caller) {
      const { day, resetAt } = currentDay();
      const used = await ask(account, day, (counters) => counters.used(account, day), true);
      return { limit, remaining: Math.max(0, limit - used), resetAt };
    },
    /** Whether a part of the store failed when it was last asked. */
    failing: () => failing,
    /** Whether metered requests can be served. Asks the parts that failed or were never asked. */
    async ready(): Promise<boolean> {
      // Without asking, a load balancer would send requests before it is known whether they can be counted. And after a
      // failure the process would never notice that the store is back, because it gets no requests. Asking by a read
      // would not do: a store that accepts no writes, such as a replica of Redis or a full disk, may still be read.
      const { day } = currentDay();
      const partOf = (account: string) => store.partOf?.(account, day) ?? "";
      if (parts.size === 0) parts.memo(partOf(""));
      const unwell = [...parts].filter(([, { well }]) => !well);
      const asking = unwell.map(async ([name, { account }]) => {
        const nothing = () => store.take(account, day, 0, Number.MAX_SAFE_INTEGER);
        await askStore(account, day, nothing).catch(() => {});
        // The counter has moved to another primary.
        if (partOf(account) !== name) parts.delete(name);
      });
      await Promise.all(asking);
      review();
      return options.onFailure !== "closed" || [...parts.values()].some(({ well }) => well);
    },
    /** How requests are counted, and what is lost if the store fails. */
    counting: async () => ({ ...(await store.keeping()), onFailure: options.onFailure }),
    async close(): Promise<void> {
      instead?.close();
      await store.close();
    },
  };
}

/** The UTC day of a moment (`2026-03-01`), and when the next one begins (epoch milliseconds). */
function dayOf(now: number): { day: string; resetAt: number } {
  const midnight = Math.floor(now / dayMilliseconds) * dayMilliseconds;
  return { day: new Date(midnight).toISOString().slice(0, 10), resetAt: midnight + dayMilliseconds };
}

export function quotaExceeded({ plan, limit, resetAt }: Receipt): Fault<ErrorCode> {
  const reset = new Date(resetAt).toISOString();
  return new Fault(
    "QUOTA_EXCEEDED",
    `The ${plan} plan's ${limit} requests of this UTC day are used up; counting starts anew at ${reset}. ` +
      plans[plan].more,
  );
}

/** X-RateLimit-* (INTERFACE 8.1) and the IETF's forms of the same state in seconds, as lines of a head. */
export function rateLimitLines({ plan, limit, remaining, resetAt }: Receipt, now: number): string {
  return (
    `X-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: ${remaining}\r\nX-RateLimit-Reset: ${resetAt / 1000}\r\n` +
    `RateLimit-Policy: "${plan}";q=${limit};w=${dayMilliseconds / 1000}\r\n` +
    `RateLimit: "${plan}";r=${remaining};t=${secondsUntil(resetAt, now)}\r\n`
  );
}

/** Whole seconds from now to a later moment, at least 1. */
export const secondsUntil = (moment: number, now: number) => Math.max(1, Math.ceil((moment - now) / 1000));
