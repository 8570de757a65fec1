import { z } from "zod";
import type { ErrorCode } from "./errors.ts";

/**
 * The plans, lowest to highest (INTERFACE 5.2 and 8.1). `tier` is the plan's name in a page of markets (INTERFACE 2.7).
 * `dailyQuota` is in units per UTC day. `refusal` is the code that a key of a lower plan gets.
 */
export const plans = {
  free: { rank: 0, tier: "free", dailyQuota: 1_000, refusal: undefined },
  developer: {
    rank: 1,
    tier: "developer",
    dailyQuota: 50_000,
    refusal: "DEVELOPER_REQUIRED",
  },
  aegis: {
    rank: 2,
    tier: "enterprise",
    dailyQuota: 100_000,
    refusal: "AEGIS_REQUIRED",
  },
} as const satisfies Record<
  string,
  {
    rank: number;
    tier: string;
    dailyQuota: number;
    refusal: ErrorCode | undefined;
  }
>;

export type Plan = keyof typeof plans;
export const planNames = Object.keys(plans) as [Plan, ...Plan[]];

/** Plans that a key can be issued for. Free needs no key. */
export const KeyPlan = z.enum(["developer", "aegis"]);
export type KeyPlan = z.infer<typeof KeyPlan>;
