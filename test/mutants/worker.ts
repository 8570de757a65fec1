import { appendFileSync, readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { init, runBaseTests, setupEnvironment } from "vitest/worker";

/** What was spent: milliseconds of processors, and how many times a switch was passed. */
interface Spent {
  ms: number;
  passed: number;
}

/** Which mutants the tests of a file reach. */
export interface Recorded {
  file: string;
  failed: boolean;
  tests: (Spent & { id: string; reached: number[] })[];
  /** Imports and hooks around all tests. */
  outside: Spent & { reached: number[] };
}

/** A mutant, and the tests to run with it until one fails. Modules are loaded anew where imports or hooks reach it. */
export interface Job {
  id: number;
  runs: (Spent & { file: string; tests: string[]; anew: boolean })[];
}

/** A line of the journal; a mutant is killed by a test, or by the time when no line says that it ended. */
export type Entry = { recorded: Recorded } | { started: number } | { ended: number; by?: string };

/** What the worker is to do, in a file that its environment names. Without jobs it records. */
export interface Orders {
  journal: string;
  /** More than any id. */
  ids: number;
  jobs?: Job[];
}

const { journal, ids, jobs }: Orders = JSON.parse(readFileSync(process.env.MUTANTS!, "utf8"));
const write = (entry: Entry) => appendFileSync(journal, `${JSON.stringify(entry)}\n`);

let on = 0;
let left = 0;
let hits = new Uint8Array(ids);
let recorded: Recorded;
let begun = { at: 0, left: 0 };
// A machine that is busy with other work must not make a mutant look slow.
const now = () => (process.cpuUsage().user + process.cpuUsage().system) / 1000;

/** What was reached and spent since the last call. */
function spent(): Spent & { reached: number[] } {
  const reached = [...hits.keys()].filter((id) => hits[id] === 1);
  const since = { ms: now() - begun.at, passed: begun.left - left, reached };
  hits = new Uint8Array(ids);
  begun = { at: now(), left };
  return since;
}

function addOutside(): void {
  const { ms, passed, reached } = spent();
  const { outside } = recorded;
  recorded.outside = {
    ms: outside.ms + ms,
    passed: outside.passed + passed,
    reached: outside.reached.concat(reached),
  };
}

Object.assign(globalThis, {
  __mutant(id: number): boolean {
    hits[id] = 1;
    left -= 1;
    // A loop that never ends still passes switches.
    if (left < 0) throw new Error("The mutant takes too long");
    return id === on;
  },
  __testBegins: () => jobs || addOutside(),
  __testEnds(id: string, passed: boolean) {
    if (jobs) return;
    const test = { id, ...spent() };
    if (passed) recorded.tests.push(test);
    else recorded.failed = true;
  },
});

// A loop that passes none lets nothing else run in this thread.
const deadline = new Float64Array(new SharedArrayBuffer(8)).fill(Number.POSITIVE_INFINITY);
const watch = `const { workerData } = require("node:worker_threads");
setInterval(() => process.cpuUsage().user / 1000 > workerData[0] && process.kill(process.pid, "SIGKILL"), 100);`;
new Worker(watch, { eval: true, workerData: deadline, execArgv: [] }).unref();

type Run = Parameters<typeof runBaseTests>;

/** Runs tests of a file, all by default; what failed first. */
async function runFile(
  run: Run,
  filepath: string,
  isolate: boolean,
  testIds?: string[],
): Promise<string | undefined> {
  const [method, state, traces] = run;
  let fault: string | undefined;
  const own = {
    async onCollected(files: { result?: { state: string } }[]) {
      if (files.some(({ result }) => result?.state === "fail")) fault ??= "import";
    },
    async onTaskUpdate(packs: [string, { state: string } | undefined][]) {
      for (const [id, result] of packs) if (result?.state === "fail") fault ??= id;
    },
    async onUnhandledError() {
      fault ??= "unhandled error";
    },
    getCountOfFailedTests: async () => 0,
  };
  const rpc = new Proxy(state.rpc, {
    get(target, name) {
      if (name in own) return Reflect.get(own, name);
      return /^(on[A-Z]|snapshotSaved)/.test(String(name)) ? async () => {} : Reflect.get(target, name);
    },
  });
  const config = { ...state.config, isolate };
  const files = [{ ...state.ctx.files[0]!, filepath, ...(testIds && { testIds }) }];
  await runBaseTests(method, { ...state, rpc, config, ctx: { ...state.ctx, config, files, rpc } }, traces);
  return fault;
}

async function record(run: Run, file: string): Promise<void> {
  recorded = { file, failed: false, tests: [], outside: { ms: 0, passed: 0, reached: [] } };
  left = Number.MAX_SAFE_INTEGER;
  // What is compiled at the first time is not at the next.
  await runFile(run, file, true, []);
  spent();
  const fault = await runFile(run, file, true);
  recorded.failed ||= fault !== undefined;
  addOutside();
  write({ recorded });
}

let marked = true;
async function tryMutant(run: Run, { id, runs }: Job): Promise<void> {
  write({ started: id });
  let by: string | undefined;
  for (const { file, tests, ms, passed, anew } of runs) {
    [on, left] = [id, passed * 5 + 100_000];
    deadline[0] = now() + ms * 5 + 5000;
    by = await runFile(run, file, anew || marked, tests);
    // Modules may keep what they computed with a mutant.
    [on, marked] = [0, anew || by !== undefined];
    if (by) break;
  }
  deadline[0] = Number.POSITIVE_INFINITY;
  write({ ended: id, ...(by && { by }) });
}

init({
  post: (message) => process.send!(message),
  on: (listener) => process.on("message", listener),
  off: (listener) => process.off("message", listener),
  setup: setupEnvironment,
  async runTests(state, traces) {
    if (jobs) for (const job of jobs) await tryMutant(["run", state, traces], job);
    else for (const { filepath } of state.ctx.files) await record(["run", state, traces], filepath);
  },
  collectTests() {},
});
