import { forgeTiers } from "../../schemas/tiers.ts";
import { textList } from "../sources/sql-literals.ts";

/** End of all sample times: a constant, so that rows never depend on the clock, and long past. */
export const sampleEpoch = "2025-12-31 00:00:00+00";

/**
 * Pseudo-random numbers for SQL, a pure function of the row's number, a salt and the seed: whatever thread
 * makes a row, it comes out the same. `bits(n, salt)` has 64 bits, `part(n, salt)` lies in 0..1, `pick`
 * takes from a list.
 */
export function randomMacros(seed: number): readonly string[] {
  return [
    `CREATE MACRO bits(n, salt) AS hash(hash(n::BIGINT, salt::VARCHAR, ${seed}::BIGINT))`,
    "CREATE MACRO part(n, salt) AS (bits(n, salt) >> 11)::DOUBLE / 9007199254740992",
    "CREATE MACRO below(n, salt, bound) AS (bits(n, salt) % (bound)::UBIGINT)::INTEGER",
    "CREATE MACRO pick(n, salt, words) AS words[1 + below(n, salt, len(words))]",
  ];
}

/** The tier's number, 1 to 7, of a score of 0 to 1000: RAW below 400, ADAMANTINE from 900. */
export function tierNumber(score: string): string {
  return `CASE WHEN ${score} < 400 THEN 1 WHEN ${score} >= 900 THEN 7 ELSE ${score} // 100 - 2 END`;
}

export function tierName(score: string): string {
  return `${textList(forgeTiers)}[${tierNumber(score)}]`;
}
