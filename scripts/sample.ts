import { sampleDefaults, writeSample } from "../snapshots/sample/sample.ts";
import { counted, integerOption, requiredOption } from "./cli.ts";
import { command, jsonOption, number, type Program, runAsScript, text } from "./program.ts";

const sized = (name: keyof typeof sampleDefaults, does: string) =>
  number(does, { default: String(sampleDefaults[name]) });

const sample = command({
  name: "",
  does: "Writes deterministic Parquet sources for `npm run snapshot -- publish --sources DIR`.",
  options: {
    out: text("DIR", "where they go; an earlier sample is replaced", { required: true }),
    markets: sized("markets", "resolved markets"),
    protocols: sized("protocols", "scored protocols"),
    days: sized("days", "scoring runs, one a day"),
    outcomes: sized("outcomes", "different outcome labels"),
    seed: sized("seed", "another seed, other rows"),
    "days-back": number("the same sources as they were so many days before, for an earlier snapshot", {
      default: "0",
    }),
    ...jsonOption,
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
    shell.report(values.json, written, [
      `${counted(written.markets, "market")} and ${counted(written.scores, "score")} of ` +
        `${counted(written.protocols, "protocol")} ` +
        `written to ${written.directory} (${counted(written.files, "file")}, ${(written.bytes / 1e6).toFixed(1)} MB)`,
    ]);
  },
});

export const sampleProgram: Program = { call: "npm run sample --", commands: [sample] };

await runAsScript(sampleProgram, import.meta.filename);
