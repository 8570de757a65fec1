import { integerOption, readArguments, UsageError, userPath } from "../../scripts/cli.ts";
import { rowNumbers } from "./rows.ts";

export const usage = `Usage: npm run bench [-- --markets N] [--quick] [--rows A,B] [--keep DIR] [--json FILE] [--profile DIR]

Measures the service side by side with other programs on this machine, and prints medians and their ratios.
  --markets N    size of the archive (1000000; 20000 with --quick)
  --quick        short rounds over a small archive: minutes, and figures that say little
  --rows A,B     only these rows of the table, of ${rowNumbers.join(", ")}
  --keep DIR     where sample, stores and databases are kept for the next run; else they are deleted
  --json FILE    all rounds as JSON (.local/bench.json)
  --profile DIR  CPU profiles of the proxy; its figures are then too low`;

/** What to measure, and how long. */
export interface Options {
  markets: number;
  rows: readonly number[];
  keep: string | undefined;
  json: string;
  profile: string | undefined;
  effort: Effort;
}

/** How long each part takes. */
export interface Effort {
  /** Measured rounds of each side. */
  rounds: number;
  /** One round under load. */
  seconds: number;
  /** Runs of publishing, each a process of its own. */
  runs: number;
  /** Different filters. */
  filters: number;
  /** Requests of each kind in a round of page 1 against the last page. */
  requests: number;
}

const thorough: Effort = { rounds: 5, seconds: 8, runs: 3, filters: 300, requests: 400 };
const quick: Effort = { rounds: 3, seconds: 1, runs: 2, filters: 100, requests: 100 };

/** Reads the command line. Throws UsageError. */
export function readOptions(): Options {
  const text = { type: "string" } as const;
  const { values } = readArguments({
    markets: text,
    quick: { type: "boolean" },
    rows: text,
    keep: text,
    json: text,
    profile: text,
  });
  const otherwise = values.quick ? 20_000 : 1_000_000;
  return {
    markets: integerOption("markets", values.markets, { min: 2_000, max: 100_000_000, otherwise }),
    rows: values.rows === undefined ? rowNumbers : readRows(values.rows),
    keep: values.keep === undefined ? undefined : userPath(values.keep),
    json: userPath(values.json ?? ".local/bench.json"),
    profile: values.profile === undefined ? undefined : userPath(values.profile),
    effort: values.quick ? quick : thorough,
  };
}

function readRows(list: string): number[] {
  const rows = [...new Set(list.split(",").map(Number))];
  if (rows.every((row) => rowNumbers.includes(row))) return rows.sort((a, b) => a - b);
  throw new UsageError(`--rows takes numbers of ${rowNumbers.join(", ")}, with commas between them`);
}
