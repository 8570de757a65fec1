import { type Shell, usageError } from "../../../scripts/cli.ts";
import { flag, number, text, type ValuesOf } from "../../../scripts/program.ts";
import { rowNumbers } from "../rows/rows.ts";
import type { Effort, Options } from "./run.ts";

/** The options of `npm run bench`. */
export const benchOptions = {
  markets: number(
    "size of the archive",
    { min: 2_000, max: 100_000_000 },
    { otherwise: "1000000, with --quick 20000" },
  ),
  quick: flag("short rounds over a small archive: minutes, and figures that say little"),
  rows: text("A,B", `only these rows of the table, of ${rowNumbers.join(", ")}`, { otherwise: "all" }),
  keep: text("DIR", "where sample, stores and databases are kept for the next run", {
    otherwise: "deleted at the end",
  }),
  json: text("FILE", "all rounds as JSON", { default: ".local/bench.json" }),
  profile: text("DIR", "CPU profiles of the proxy; its figures are then too low"),
};

const thorough: Effort = { rounds: 5, seconds: 8, runs: 3, filters: 300, requests: 400 };
const quick: Effort = { rounds: 3, seconds: 1, runs: 2, filters: 100, requests: 100 };

/** Makes sense of the options' values. Throws USAGE. */
export function readOptions(shell: Shell, values: ValuesOf<typeof benchOptions>): Options {
  return {
    markets: values.markets ?? (values.quick ? 20_000 : 1_000_000),
    rows: values.rows === undefined ? rowNumbers : readRows(values.rows),
    keep: values.keep === undefined ? undefined : shell.path(values.keep),
    json: shell.path(values.json),
    profile: values.profile === undefined ? undefined : shell.path(values.profile),
    effort: values.quick ? quick : thorough,
  };
}

function readRows(list: string): number[] {
  const rows = [...new Set(list.split(",").map(Number))];
  if (rows.every((row) => rowNumbers.includes(row))) return rows.sort((a, b) => a - b);
  throw usageError(`--rows takes numbers of ${rowNumbers.join(", ")}, with commas between them`);
}
