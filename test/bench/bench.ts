import { processShell } from "../../scripts/cli.ts";
import { command, runProgram } from "../../scripts/program.ts";
import { parts } from "./rows/rows.ts";
import { openData } from "./run/data.ts";
import { describeMachine, findPrograms } from "./run/machine.ts";
import type { Measurement } from "./run/measurement.ts";
import { benchOptions, readOptions } from "./run/options.ts";
import { jsonOf, machineLines, tableOf, writeResults } from "./run/report.ts";
import { measureAll } from "./run/run.ts";

const shell = processShell();
const say = (line: string) => shell.say(line);

// `npm run bench`: the service side by side with other programs, in one run on one machine.
const bench = command({
  name: "",
  does: "Measures the service side by side with other programs on this machine, and prints medians and their ratios.",
  options: benchOptions,
  async run(values) {
    const options = readOptions(shell, values);
    const programs = findPrograms();
    const machine = describeMachine(programs);
    for (const line of machineLines(machine)) say(line);
    const all = new AsyncDisposableStack();
    let current = all;
    stopOn(() => current.disposeAsync().finally(() => all.disposeAsync()));
    let measurements: Measurement[] = [];
    try {
      const data = await openData(options, all, say);
      const bench = { options, programs, data, say };
      await measureAll(parts, bench, {
        begin: (ends) => {
          current = ends;
        },
        keep: (found) => {
          measurements = found;
          return writeResults(options.json, jsonOf(machine, options, found));
        },
      });
    } finally {
      const lines = [...machineLines(machine), `markets: ${options.markets}`, "", ...tableOf(measurements)];
      if (measurements.length > 0) process.stdout.write(`${lines.join("\n")}\n`);
      await all.disposeAsync();
    }
    return undefined;
  },
});

process.exitCode = await runProgram(
  { call: "npm run bench --", commands: [bench] },
  process.argv.slice(2),
  shell,
);

/** Ctrl-C, and errors that nobody waits for, end what was started, and then the run. */
function stopOn(end: () => Promise<void>): void {
  process.once("uncaughtException", (error) => {
    say(String(error.stack));
    void end().finally(() => process.exit(1));
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      say(`${signal}: ending what was started`);
      void end().finally(() => process.exit(1));
    });
  }
}
