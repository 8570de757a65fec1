import { sampleDefaults, writeSample } from "../snapshots/sample/sample.ts";
import { counted, integerOption } from "./cli.ts";
import { command, jsonOption, number, type Program, runAsScript, text } from "./program.ts";

const sized = (name: keyof typeof sampleDefaults, does: string, max: number, min = 1) =>
  number(does, { min, max }, { default: String(sampleDefaults[name]) });

const sample = command({
  name: "",
  does: "Writes deterministic Parquet sources for `npm run snapshot -- publish --sources DIR`.",
  options: {
    out: text("DIR", "where they go; an earlier sample is replaced", { required: true }),
    markets: sized("markets", "resolved markets", 100_000_000),
    protocols: sized("protocols", "scored protocols", 100_000),
    days: sized("days", "scoring runs, one a day", 3_650),
    outcomes: sized("outcomes", "different outcome labels", 10_000_000),
    seed: sized("seed", "another seed, other rows", 2 ** 31 - 1, 0),
    "days-back": text("N", "the same sources as they were so many days before, for an earlier snapshot", {
      default: "0",
    }),
    ...jsonOption,
  },
  async run(values, _operand, shell) {
    const { out, "days-back": daysBack, json, ...sizes } = values;
    const written = await writeSample({
      directory: shell.path(out),
      ...sizes,
      daysBack: integerOption("days-back", daysBack, { min: 0, max: sizes.days - 1 }),
    });
    shell.report(json, written, [
      `${counted(written.markets, "market")} and ${counted(written.scores, "score")} of ` +
        `${counted(written.protocols, "protocol")} ` +
        `written to ${written.directory} (${counted(written.files, "file")}, ${(written.bytes / 1e6).toFixed(1)} MB)`,
    ]);
  },
});

export const sampleProgram: Program = { call: "npm run sample --", commands: [sample] };

await runAsScript(sampleProgram, import.meta.filename);
