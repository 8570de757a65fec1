import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { dirname } from "node:path";
import { usageError } from "../../scripts/cli.ts";
import { command, flag, number, runAsScript, text } from "../../scripts/program.ts";
import { openData } from "./data.ts";
import { rows } from "./rows/rows.ts";
import { type Line, summaryOf } from "./run.ts";
import { startProxy } from "./servers.ts";

/** The options of `npm run bench`. */
export const benchOptions = {
  markets: number(
    "size of the archive",
    { min: 2_000, max: 100_000_000 },
    { otherwise: "1000000, with --quick 20000" },
  ),
  quick: flag("short rounds over a small archive: minutes, and figures that say little"),
  rows: text("A,B", `only these, of ${Object.keys(rows).join(", ")}`, { otherwise: "all" }),
  keep: text("DIR", "where sample, stores and databases are kept for the next run", {
    otherwise: "deleted at the end",
  }),
  json: text("FILE", "all rounds, a line of JSON for each figure", { default: ".local/bench.json" }),
  profile: text("DIR", "CPU profiles of the proxy; its figures are then too low"),
};

// `npm run bench`: the service side by side with other programs, in one run on one machine.
const bench = command({
  name: "",
  does: "Measures the service side by side with other programs on this machine, and prints medians and their ratios.",
  options: benchOptions,
  async run({ quick, rows: list = Object.keys(rows).join(), ...values }, _operand, shell) {
    const wanted = Object.entries(rows).filter(([name]) => list.split(",").includes(name));
    if (wanted.length < list.split(",").length)
      throw usageError(`--rows takes names of ${Object.keys(rows).join(", ")}, with commas between them`);
    const { markets = quick ? 20_000 : 1_000_000, keep, profile } = values;
    const json = shell.path(values.json);
    await mkdir(dirname(json), { recursive: true });
    await writeFile(json, "");
    const machine = `${availableParallelism()} x ${cpus()[0]?.model}, ${(totalmem() / 2 ** 30).toFixed(1)} GiB`;
    shell.print(`${machine}, Node ${process.version}, ${markets} markets, load ${loadavg()[0]!.toFixed(2)}`);
    await using all = new AsyncDisposableStack();
    // What was started ends with Ctrl-C, too.
    for (const signal of ["SIGINT", "SIGTERM"] as const)
      process.once(signal, () => void all.disposeAsync().finally(() => process.exit(1)));
    const effort = quick
      ? { rounds: 3, seconds: 1, runs: 2, filters: 100 }
      : { rounds: 5, seconds: 8, runs: 3, filters: 300 };
    const data = await openData(all, { markets, keep: keep && shell.path(keep), say: shell.say });
    const flags = profile ? ["--cpu-prof", `--cpu-prof-dir=${shell.path(profile)}`] : [];
    for (const [name, measure] of wanted) {
      shell.say(`measuring ${name}`);
      const ends = all.use(new AsyncDisposableStack());
      const found = async (line: Line) => {
        shell.print(`${name}: ${summaryOf(line)}`);
        await appendFile(json, `${JSON.stringify({ row: name, ...line })}\n`);
      };
      const startOurs = async () => startProxy(ends, { ...data, store: await data.store(), flags });
      await measure({ data, effort, ends, startOurs, found, say: shell.say });
      await ends.disposeAsync();
    }
    return undefined;
  },
});

await runAsScript({ call: "npm run bench --", commands: [bench] }, import.meta.filename);
