import { sampleDefaults, writeSample } from "../snapshots/sample/sample.ts";
import { integerOption, readArguments, report, requiredOption, runCommand, userPath } from "./cli.ts";

const usage = `Usage: npm run sample -- --out DIR [--markets N] [--protocols N] [--days N]
         [--outcomes N] [--seed N] [--json]

Writes deterministic Parquet sources for \`npm run snapshot -- publish --sources DIR\`.
  --markets N     resolved markets (${sampleDefaults.markets})
  --protocols N   scored protocols (${sampleDefaults.protocols})
  --days N        scoring runs, one a day (${sampleDefaults.days})
  --outcomes N    different outcome labels (${sampleDefaults.outcomes})
  --seed N        another seed, other rows (${sampleDefaults.seed})`;

await runCommand(usage, async () => {
  const option = { type: "string" } as const;
  const { values } = readArguments({
    out: option,
    markets: option,
    protocols: option,
    days: option,
    outcomes: option,
    seed: option,
    json: { type: "boolean" },
  });
  const count = (name: "markets" | "protocols" | "days" | "outcomes", max: number) =>
    integerOption(name, values[name], { min: 1, max, otherwise: sampleDefaults[name] });
  const written = await writeSample({
    directory: userPath(requiredOption("out", values.out)),
    markets: count("markets", 100_000_000),
    protocols: count("protocols", 100_000),
    days: count("days", 3_650),
    outcomes: count("outcomes", 10_000_000),
    seed: integerOption("seed", values.seed, { min: 0, max: 2 ** 31 - 1, otherwise: sampleDefaults.seed }),
  });
  report(values.json ?? false, written, [
    `${written.markets} markets and ${written.scores} scores of ${written.protocols} protocols ` +
      `written to ${written.directory} (${written.files} files, ${(written.bytes / 1e6).toFixed(1)} MB)`,
  ]);
  return undefined;
});
