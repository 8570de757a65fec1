import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { counted, integerOption, requiredOption } from "../cli.ts";
import { command, type Program } from "../program.ts";

const number = (name: keyof typeof sampleDefaults, does: string) =>
  ({ type: "string", value: "N", default: String(sampleDefaults[name]), does }) as const;

const sample = command({
  name: "",
  does: "Writes deterministic Parquet sources for `npm run snapshot -- publish --sources DIR`.",
  options: {
    out: {
      type: "string",
      value: "DIR",
      required: true,
      does: "where they go; an earlier sample is replaced",
    },
    markets: number("markets", "resolved markets"),
    protocols: number("protocols", "scored protocols"),
    days: number("days", "scoring runs, one a day"),
    outcomes: number("outcomes", "different outcome labels"),
    seed: number("seed", "another seed, other rows"),
    "days-back": {
      type: "string",
      value: "N",
      default: "0",
      does: "the same sources as they were so many days before, for an earlier snapshot",
    },
    json: { type: "boolean", does: "one JSON object on stdout, nothing else" },
  },
  async run(values, _operand, shell) {
    const count = (name: keyof typeof sampleDefaults, max: number, min = 1) =>
      integerOption(name, values[name], { min, max, otherwise: sampleDefaults[name] });
    const days = count("days", 3_650);
    const written = await writeSample({
      directory: shell.path(requiredOption("out", values.out)),
      markets: count("markets", 100_000_000),
      protocols: count("protocols", 100_000),
      days,
      outcomes: count("outcomes", 10_000_000),
      seed: count("seed", 2 ** 31 - 1, 0),
      daysBack: integerOption("days-back", values["days-back"], { min: 0, max: days - 1, otherwise: 0 }),
    });
    shell.report(values.json ?? false, written, [
      `${counted(written.markets, "market")} and ${counted(written.scores, "score")} of ` +
        `${counted(written.protocols, "protocol")} ` +
        `written to ${written.directory} (${counted(written.files, "file")}, ${(written.bytes / 1e6).toFixed(1)} MB)`,
    ]);
    return undefined;
  },
});

/** `npm run sample` */
export const sampleProgram: Program = { call: "npm run sample --", commands: [sample] };
