// `npm run mutants`: breaks the code in one place at a time and says which breaks no test notices.
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { parseArgs } from "node:util";
import { ForksPoolWorker, type PoolOptions, startVitest } from "vitest/node";
import type { Option } from "../../scripts/program.ts";
import { nodeOptions } from "../helpers/servers/programs.ts";
import base from "../vitest.config.ts";
import { type Mutant, mutate, nameOf } from "./mutate.ts";
import type { Entry, Job, Orders, Recorded } from "./worker.ts";

const root = join(import.meta.dirname, "../..");
const sources = [
  "snapshots/{format,index,read,trust,publish/parts}/**/*.ts",
  "snapshots/publish/commit-snapshot.ts",
  "proxy/{quota,access}/*.ts",
];
const options = {
  sources: { type: "string", multiple: true, default: sources, does: "those of the sources that are tried" },
  named: {
    type: "string",
    default: "",
    does: "of these, the mutants whose names, as survivors are told, hold this text",
  },
  tests: {
    type: "string",
    multiple: true,
    default: ["test/{snapshots,conformance,proxy/{quota,access}}/**/*.test.ts", "test/proxy/*.test.ts"],
    does: "the files of tests that may notice a mutant",
  },
  sample: { type: "string", default: "100", does: "how many mutants of each folder are tried" },
  seed: { type: "string", default: "1", does: "of the draw, below 2^32" },
  seconds: {
    type: "string",
    default: "20",
    does: "of processors: how long the tests of one mutant may take, by what they took without any",
  },
  least: {
    type: "string",
    default: "0",
    does: "of a hundred mutants tried, how many must be killed",
  },
  help: { type: "boolean", short: "h", does: "shows this" },
} as const satisfies Record<string, Option>;
const { values } = parseArgs({ options });
const say = (line: string) => process.stdout.write(`${line}\n`);
if (values.help) {
  say(
    "npm run mutants -- [OPTIONS]: breaks the code in one place at a time, and lists the breaks that no test notices.\n",
  );
  for (const [name, { does, ...option }] of Object.entries(options))
    say(`  --${name}  ${does}${"default" in option ? ` (${String(option.default) || "none"})` : ""}`);
  process.exit(0);
}

const mutants: Mutant[] = [];
const codes = new Map<string, string>();
for (const file of globSync(sources, { cwd: root }).sort()) {
  const path = join(root, file);
  const mutated = mutate(file, readFileSync(path, "utf8"), mutants.length + 1);
  codes.set(path, mutated.code);
  mutants.push(...mutated.mutants);
}
for (const pattern of values.sources)
  if (!globSync(pattern, { cwd: root }).some((file) => codes.has(join(root, file)))) {
    say(`--sources ${pattern}: none of these files is among the sources that mutants.ts lists.`);
    process.exit(2);
  }

/** What broken code says is of no use. */
const nowhere = () => new Writable({ write: (_chunk, _encoding, done) => done() });

/** Runs the worker until it has done all or died, and returns its journal. */
async function runWorker(tests: string[], jobs?: Job[]): Promise<Entry[]> {
  const folder = mkdtempSync(join(tmpdir(), "mutants-"));
  const [journal, orders] = [join(folder, "journal"), join(folder, "orders")];
  const written: Orders = { journal, ids: mutants.length + 1, ...(jobs && { jobs }) };
  writeFileSync(orders, JSON.stringify(written));
  writeFileSync(journal, "");
  const createPoolWorker = (options: PoolOptions) => {
    const worker = new ForksPoolWorker({ ...options, env: { ...options.env, MUTANTS: orders } });
    return Object.assign(worker, { entrypoint: join(import.meta.dirname, "worker.ts") });
  };
  const { env } = base.test!;
  const vitest = await startVitest(
    "test",
    [],
    {
      ...{ config: false, root, watch: false, reporters: [], include: tests, execArgv: nodeOptions },
      ...{ maxWorkers: 1, isolate: false, fsModuleCache: false, update: false, bail: jobs ? 1 : 0 },
      ...{ testTimeout: 60_000, hookTimeout: 60_000, ...(env && { env }) },
      setupFiles: [join(import.meta.dirname, "setup.ts")],
      pool: { name: "mutants", createPoolWorker },
    },
    { plugins: [{ name: "mutants", enforce: "pre", load: (id: string) => codes.get(id) }] },
    { stdout: nowhere(), stderr: nowhere() },
  );
  await vitest.close();
  const lines = readFileSync(journal, "utf8").split("\n");
  rmSync(folder, { recursive: true });
  return lines.filter(Boolean).map((line) => JSON.parse(line));
}

/** As many of these as there is time for, the quickest first. */
function quickest<T extends { ms: number }>(all: readonly T[], milliseconds: number): T[] {
  let spent = 0;
  const quickFirst = all.toSorted((a, b) => a.ms - b.ms);
  return quickFirst.filter(({ ms }) => {
    spent += ms;
    return spent <= milliseconds;
  });
}

/** The tests that may kill a mutant, by file: as many of those that reach it as there is time for. */
function runsOf(id: number, records: readonly Recorded[]): Job["runs"] {
  const all = records.flatMap(({ file, tests, outside }) => {
    const anew = outside.reached.includes(id);
    const reaching = anew ? tests : tests.filter(({ reached }) => reached.includes(id));
    return reaching.map((test) => ({ ...test, file, outside, anew }));
  });
  // Slow tests wait for the quick ones of other files, unless they would pay twice for what is around them.
  const together = Map.groupBy(
    quickest(all, 1000 * Number(values.seconds)),
    ({ file, outside, ms }) => `${file} ${outside.ms < 100 && ms >= 50}`,
  );
  const runs = [...together.values()].map((tests) => {
    const { file, outside, anew } = tests[0]!;
    const ms = tests.reduce((sum, test) => sum + test.ms, outside.ms);
    const passed = tests.reduce((sum, test) => sum + test.passed, outside.passed);
    return { file, tests: tests.map((test) => test.id), anew, ms, passed };
  });
  return runs.sort((a, b) => a.ms - b.ms);
}

/** Some of these, in an order that the seed gives. */
function draw<T>(all: readonly T[]): T[] {
  let state = Number(values.seed);
  const places = all.map((one) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return { one, place: state };
  });
  const drawn = places.sort((a, b) => a.place - b.place).slice(0, Number(values.sample));
  return drawn.map(({ one }) => one);
}

const files = globSync(values.tests, { cwd: root }).map((file) => join(root, file));
const records = (await runWorker(files)).flatMap((entry) => ("recorded" in entry ? entry.recorded : []));
for (const { file } of records.filter(({ failed }) => failed))
  say(`fails without a mutant, left out: ${file}`);
const asked = globSync(values.sources, { cwd: root });
const reached = mutants
  .filter((mutant) => asked.includes(mutant.file) && nameOf(mutant).includes(values.named))
  .map((mutant) => ({ mutant, id: mutant.id, runs: runsOf(mutant.id, records) }))
  .filter(({ runs }) => runs.length > 0);
const folderOf = ({ file }: Mutant) => file.split("/").slice(0, 2).join("/");
const folders = Map.groupBy(reached, ({ mutant }) => folderOf(mutant));
const drawn = [...folders].map(([folder, all]) => ({ folder, all, tried: draw(all) }));

const ends = new Map<number, string | undefined>();
const open = drawn.flatMap(({ tried }) => tried);
for (let jobs = open; jobs.length > 0; ) {
  const entries = await runWorker(
    values.tests,
    jobs.map(({ id, runs }) => ({ id, runs })),
  );
  if (entries.length === 0) throw new Error("The worker did not start");
  for (const entry of entries) {
    if ("started" in entry) ends.set(entry.started, "time");
    if ("ended" in entry) ends.set(entry.ended, entry.by);
  }
  jobs = jobs.filter(({ id }) => !ends.has(id));
}

const survivors = new Set(open.filter(({ id }) => !ends.get(id)));
for (const { mutant } of survivors) say(`survived, line ${mutant.line}:\n${nameOf(mutant)}`);
say(`seed ${values.seed}`);
for (const { folder, all, tried } of drawn) {
  const made = mutants.filter((mutant) => folderOf(mutant) === folder).length;
  const left = tried.filter((one) => survivors.has(one)).length;
  const killed = `killed ${tried.length - left} of ${tried.length}`;
  say(`${folder}: ${made} mutants, ${all.length} reached by tests; ${killed}`);
}
const share = 100 - (100 * survivors.size) / drawn.reduce((sum, { tried }) => sum + tried.length, 0);
const few = share < Number(values.least);
if (few) say(`${share.toFixed(1)} % killed, which is less than ${values.least} %`);
// Vitest sets it when a mutant kills the worker, too.
process.exitCode = few ? 1 : 0;
