import { z } from "zod";
import type { ErrorCode } from "./errors.ts";

const dailyQuotas = { free: 1_000, developer: 50_000, aegis: 100_000 } as const;

/**
 * The plans, lowest to highest (INTERFACE 5.2 and 8.1). `tier` is the plan's name in a page of markets (INTERFACE 2.7).
 * `dailyQuota` is in units per UTC day. `refusal` is the code that a key of a lower plan gets. `more` says how a caller
 * gets a higher quota.
 */
export const plans = {
  free: {
    rank: 0,
    tier: "free",
    dailyQuota: dailyQuotas.free,
    refusal: undefined,
    more: `A Developer key allows ${dailyQuotas.developer} requests a day.`,
  },
  developer: {
    rank: 1,
    tier: "developer",
    dailyQuota: dailyQuotas.developer,
    refusal: "DEVELOPER_REQUIRED",
    more: `The Aegis plan allows ${dailyQuotas.aegis} requests a day.`,
  },
  aegis: {
    rank: 2,
    tier: "enterprise",
    dailyQuota: dailyQuotas.aegis,
    refusal: "AEGIS_REQUIRED",
    more: "Ask the service's operator for a higher quota on this key.",
  },
} as const satisfies Record<
  string,
  {
    rank: number;
    tier: string;
    dailyQuota: number;
    refusal: ErrorCode | undefined;
    more: string;
  }
>;

export type Plan = keyof typeof plans;
export const planNames = Object.keys(plans) as [Plan, ...Plan[]];

/** Plans that a key can be issued for. Free needs no key. */
export const KeyPlan = z.enum(["developer", "aegis"]);
export type KeyPlan = z.infer<typeof KeyPlan>;
