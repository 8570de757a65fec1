import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { maxParts, type PartRecord, type PartsPlan } from "../../../schemas/store/parts.ts";
import { counted, type ExitCode, exitCodes, integerOption, usageError } from "../../cli.ts";
import type { ValuesOf } from "../../program.ts";
import type { Shell } from "../../shell.ts";
import { flag, number } from "./options.ts";

/** A run in parts: on this machine by itself, or step by step wherever a scheduler runs them. */
export const inParts = {
  workers: number("publishes with so many processes on this machine"),
  plan: number("divides the run --run into so many parts, and does no more"),
  part: {
    type: "string",
    value: "I",
    does: "makes this part of the run --run, on any machine; I may name a variable that counts from 0",
  },
  join: flag("finishes the run --run, all of whose parts were made"),
  run: { type: "string", value: "ID", does: "the run that --plan, --part and --join belong to" },
} as const;

export type Step =
  | { kind: "all" }
  | { kind: "workers"; count: number; run: string }
  | { kind: "plan"; count: number; run: string }
  | { kind: "part"; part: number; run: string }
  | { kind: "join"; run: string };

/** Throws USAGE where options do not go together. */
export function stepIn({ env }: Shell, { run, workers, plan, part, join }: ValuesOf<typeof inParts>): Step {
  // Schedulers put a number that counts from 0 into such a variable, and images without a shell cannot add to it.
  const index = part !== undefined && /^[A-Z_]+$/.test(part) ? env[part] : undefined;
  const steps = { workers, plan, part: index === undefined ? part : String(Number(index) + 1), join };
  const asked = Object.entries(steps).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (asked.length > 1) throw usageError(`--${asked[0]} and --${asked[1]} do not go together`);
  const [step] = asked;
  if (!step) {
    if (run !== undefined) throw usageError("--run goes with --plan, --part or --join");
    return { kind: "all" };
  }
  const most = (name: "workers" | "plan" | "part") =>
    integerOption(name, steps[name], { min: 1, max: maxParts, otherwise: 1 });
  if (step === "workers") {
    if (run !== undefined) throw usageError("--workers names its run itself; leave --run out");
    const count = most("workers");
    return count === 1
      ? { kind: "all" }
      : { kind: "workers", count, run: `workers-${randomBytes(8).toString("hex")}` };
  }
  if (run === undefined) throw usageError(`--${step} needs --run`);
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(run))
    throw usageError("--run must have 1 to 100 letters, digits, dashes and underscores");
  if (step === "plan") return { kind: "plan", count: most("plan"), run };
  if (step === "part") return { kind: "part", part: most("part"), run };
  return { kind: "join", run };
}

export function describePlan(run: string, { parts, commit }: PartsPlan): string[] {
  const sizes = parts.map(({ markets }) => markets);
  const markets = sizes.reduce((sum, size) => sum + size, 0);
  return [
    `Planned run ${run} on ${commit ? `commit ${commit.commit}` : "an empty store"}: ${counted(markets, "market")} ` +
      `in ${counted(parts.length, "part")} of ${Math.min(...sizes)} to ${Math.max(...sizes)}`,
  ];
}

export function describePart(
  run: string,
  { part, refused, markets, pages, segments, seconds }: PartRecord,
): string[] {
  if (refused) return [`Part ${part} of run ${run} refuses the sources; --join tells why`];
  return [
    `Part ${part} of run ${run}: ${counted(markets, "market")} in ${counted(pages, "page")} and ` +
      `${counted(segments.length, "segment")}, ${seconds.elapsed.toFixed(1)} s and ` +
      `${seconds.processor.toFixed(1)} s of processor time`,
  ];
}

const tries = 2;

/**
 * Makes all parts of a run, each in a process of its own that is started once more when it fails. Returns the exit code
 * of the first part that failed for good, whose process has said why. A signal to stop ends the processes too.
 */
export async function makeParts(shell: Shell, args: readonly string[], count: number): Promise<ExitCode> {
  const running = new Set<ChildProcess>();
  const endAll = () => {
    for (const child of running) child.kill("SIGTERM");
  };
  let failed: ExitCode | undefined;
  const makePart = async (part: number) => {
    for (let left = tries; left > 0 && failed === undefined; left -= 1) {
      const child = startPart(shell, [...args, "--part", String(part)], part);
      running.add(child);
      const [code, signal] = await once(child, "close");
      running.delete(child);
      if (code === exitCodes.done) return;
      if (failed !== undefined) return;
      shell.warn(
        `part ${part} ended with ${signal ?? `exit code ${code}`}${left > 1 ? "; it starts again" : ""}`,
      );
      if (left === 1) failed = isExitCode(code) ? code : exitCodes.unexpected;
    }
    endAll();
  };
  const stop = (signal: NodeJS.Signals) => {
    endAll();
    for (const each of signals) process.off(each, stop);
    process.kill(process.pid, signal);
  };
  for (const signal of signals) process.on(signal, stop);
  try {
    await Promise.all(Array.from({ length: count }, (_, index) => makePart(index + 1)));
  } finally {
    for (const signal of signals) process.off(signal, stop);
  }
  return failed ?? exitCodes.done;
}

const signals = ["SIGINT", "SIGTERM"] as const;

const isExitCode = (code: unknown): code is ExitCode =>
  (Object.values(exitCodes) as unknown[]).includes(code);

const pathOf = (file: string) => fileURLToPath(import.meta.resolve(file));

/** The process of a part. Its output is that of `npm run snapshot`, with the part's number before each line. */
function startPart(shell: Shell, args: readonly string[], part: number): ChildProcess {
  const node = ["--max-semi-space-size=16", "--import", import.meta.resolve("../../installed.js")];
  const child = spawn(process.execPath, [...node, pathOf("../../snapshot.ts"), ...args], {
    env: { ...shell.env, INIT_CWD: shell.directory },
    stdio: ["ignore", "ignore", "pipe"],
  });
  createInterface({ input: child.stderr }).on("line", (line) => shell.say(`part ${part}: ${line}`));
  return child;
}
