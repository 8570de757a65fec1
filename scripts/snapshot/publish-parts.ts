import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { maxParts, type PartRecord, type PartsPlan } from "../../schemas/store/stored-objects.ts";
import { planParts } from "../../snapshots/publish/parts/plan-parts.ts";
import { joinParts, publishPart } from "../../snapshots/publish/parts/publish-parts.ts";
import { isScript } from "../../snapshots/sources/duckdb/run-script.ts";
import { counted, type ExitCode, exitCodes, integerOption, type Shell, usageError } from "../cli.ts";
import { flag, number, text, type ValuesOf } from "../program.ts";
import { whenStopped } from "../temporary.ts";
import type { readPublishing, Way } from "./publish-run.ts";

const numbers = { min: 1, max: maxParts };

/** A run in parts: on this machine by itself, or step by step wherever a scheduler runs them. */
export const inParts = {
  workers: number("publishes with so many processes on this machine", numbers),
  plan: number("divides the run --run into so many parts, and does no more", numbers),
  part: text(
    "I",
    "makes this part of the run --run, on any machine; I may name a variable that counts from 0",
  ),
  join: flag("finishes the run --run, all of whose parts were made"),
  run: text("ID", "the run that --plan, --part and --join belong to"),
} as const;

/** The number of a part: as it is given, or one more than that of the variable that is named. */
function partIn({ env }: Shell, value: string): number {
  // Schedulers count from 0, and images without a shell cannot add to a variable.
  const index = /^[A-Z_]+$/.test(value) ? env[value] : undefined;
  if (index !== undefined && !/^\d+$/.test(index))
    throw usageError(`${value} must be the number of a part, counted from 0; it is "${index}"`);
  return integerOption("part", index === undefined ? value : String(Number(index) + 1), numbers);
}

/** The run that a step belongs to. */
function runOf(step: string, run: string | undefined): string {
  if (run === undefined) throw usageError(`--${step} needs --run`);
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(run)) return run;
  throw usageError("--run must have 1 to 100 letters, digits, dashes and underscores");
}

type Location = ReturnType<typeof readPublishing>["location"];

/** What a run in parts does in another way; nothing when the options ask for no parts. */
export function partsWay(
  shell: Shell,
  values: ValuesOf<typeof inParts> & Readonly<Record<string, unknown>>,
  location: Location,
): Partial<Way> {
  const { workers, plan, join } = values;
  const part = values.part === undefined ? undefined : partIn(shell, values.part);
  const [step, other] = Object.entries({ workers, plan, part, join }).flatMap(([name, value]) =>
    value === undefined ? [] : [name],
  );
  if (other) throw usageError(`--${step} and --${other} do not go together`);
  if (!step && values.run !== undefined) throw usageError("--run goes with --plan, --part or --join");
  if (workers && values.run !== undefined)
    throw usageError("--workers names its run itself; leave --run out");
  if (!step || workers === 1) return {};
  const run = workers ? `workers-${randomBytes(8).toString("hex")}` : runOf(step, values.run);
  requireDivisible(location, values["dry-run"] === true);
  const json = values.json === true;
  const publish: Way["publish"] = (options) => joinParts(options, run);
  if (plan)
    return {
      publish: undefined,
      async before(publishWith) {
        const { report } = await publishWith((options) => planParts(options, run, plan));
        const sizes = report.parts.map(({ markets }) => markets);
        shell.report(json, { run, parts: sizes }, describePlan(run, report));
        return exitCodes.done;
      },
    };
  if (part)
    return {
      makesStore: false,
      publish: undefined,
      async before(publishWith) {
        const { report } = await publishWith((options) => publishPart(options, run, part));
        const { markets, pages, segments, seconds, refused = [] } = report;
        const summary = { run, part, markets, pages, segments: segments.length, seconds, refused };
        shell.report(json, summary, describePart(run, report));
        return exitCodes.done;
      },
    };
  if (!workers) return { makesStore: false, publish };
  return {
    async before(publishWith) {
      await publishWith((options) => planParts(options, run, workers));
      return makeParts(shell, argumentsOfPart(values, run), workers);
    },
    publish,
  };
}

function requireDivisible(location: Location, dryRun: boolean): void {
  if (dryRun)
    throw usageError("--dry-run goes with a run of one part: the others leave what they make in the store");
  if (typeof location === "string" && isScript(location))
    throw usageError(
      "a script goes with a run of one part: it may leave other rows each time; let it write Parquet files first",
    );
}

/** The arguments of the process that makes a part, all but its number. */
function argumentsOfPart(values: Readonly<Record<string, unknown>>, run: string): string[] {
  const passed = ["sources", "store", "cache", "trusted-key", "trust-policy"];
  const options = passed.flatMap((name) =>
    typeof values[name] === "string" ? [`--${name}`, values[name]] : [],
  );
  return ["publish", ...options, "--run", run];
}

function describePlan(run: string, { parts, commit }: PartsPlan): string[] {
  const sizes = parts.map(({ markets }) => markets);
  const markets = sizes.reduce((sum, size) => sum + size, 0);
  return [
    `Planned run ${run} on ${commit ? `commit ${commit.commit}` : "an empty store"}: ${counted(markets, "market")} ` +
      `in ${counted(parts.length, "part")} of ${Math.min(...sizes)} to ${Math.max(...sizes)}`,
  ];
}

function describePart(
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
    for (let remaining = tries; remaining > 0 && failed === undefined; remaining -= 1) {
      const child = startPart(shell, [...args, "--part", String(part)], part);
      running.add(child);
      const [code, signal] = await once(child, "close");
      running.delete(child);
      if (code === exitCodes.done) return;
      if (failed !== undefined) return;
      shell.warn(
        `part ${part} ended with ${signal ?? `exit code ${code}`}${remaining > 1 ? "; it starts again" : ""}`,
      );
      if (remaining === 1) failed = isExitCode(code) ? code : exitCodes.unexpected;
    }
    endAll();
  };
  const forget = whenStopped(endAll);
  try {
    await Promise.all(Array.from({ length: count }, (_, index) => makePart(index + 1)));
  } finally {
    // A process that could not be started leaves others running.
    endAll();
    forget();
  }
  return failed ?? exitCodes.done;
}

const isExitCode = (code: unknown): code is ExitCode =>
  (Object.values(exitCodes) as unknown[]).includes(code);

const pathOf = (file: string) => fileURLToPath(import.meta.resolve(file));

/** Passes on the stderr of the part's process, with the part's number before each line, and drops its stdout. */
function startPart(shell: Shell, args: readonly string[], part: number): ChildProcess {
  const node = ["--max-semi-space-size=16", "--import", import.meta.resolve("../installed.js")];
  const child = spawn(process.execPath, [...node, pathOf("../snapshot.ts"), ...args], {
    env: { ...shell.env, INIT_CWD: shell.directory },
    stdio: ["ignore", "ignore", "pipe"],
  });
  createInterface({ input: child.stderr }).on("line", (line) => shell.say(`part ${part}: ${line}`));
  return child;
}
