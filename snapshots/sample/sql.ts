import { forgeTiers } from "../../schemas/scales.ts";
import { textList } from "../sources/duckdb/sql-literals.ts";

/** All sample times end here. It is a constant in the past, so that rows do not depend on the clock. */
export const sampleEpoch = "2025-12-31 00:00:00+00";

/**
 * SQL macros for pseudo-random numbers that depend only on the row's number, a salt and the seed: a row is the same
 * whichever thread makes it. `bits(n, salt)` gives 64 bits, `part(n, salt)` a number from 0 to 1, `below` an integer
 * below a bound, and `pick` an element of a list.
 */
export function randomMacros(seed: number): readonly string[] {
  return [
    `CREATE MACRO bits(n, salt) AS hash(hash(n::BIGINT, salt::VARCHAR, ${seed}::BIGINT))`,
    "CREATE MACRO part(n, salt) AS (bits(n, salt) >> 11)::DOUBLE / 9007199254740992",
    "CREATE MACRO below(n, salt, bound) AS (bits(n, salt) % (bound)::UBIGINT)::INTEGER",
    "CREATE MACRO pick(n, salt, words) AS words[1 + below(n, salt, len(words))]",
  ];
}

/** SQL for a tier's number from 1 to 7. `score` is SQL for 0 to 1000: RAW below 400, ADAMANTINE from 900. */
export function tierNumber(score: string): string {
  return `CASE WHEN ${score} < 400 THEN 1 WHEN ${score} >= 900 THEN 7 ELSE ${score} // 100 - 2 END`;
}

/** SQL for a tier's name. `score` is SQL for 0 to 1000. */
export function tierName(score: string): string {
  return `${textList(forgeTiers)}[${tierNumber(score)}]`;
}
