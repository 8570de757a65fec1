// `npm run mutants`: breaks the code in one place at a time and says which breaks no test notices.
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { parseArgs } from "node:util";
import { ForksPoolWorker, type PoolOptions, startVitest } from "vitest/node";
import { nodeOptions } from "../helpers/servers/programs.ts";
import base from "../vitest.config.ts";
import { type Mutant, mutate } from "./mutate.ts";
import type { Entry, Job, Orders, Recorded } from "./worker.ts";

const root = join(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    sources: {
      type: "string",
      multiple: true,
      default: ["snapshots/{format,index,read,trust,publish/parts}/**/*.ts", "proxy/{quota,access}/*.ts"],
    },
    tests: {
      type: "string",
      multiple: true,
      default: ["test/{snapshots,conformance,proxy/{quota,access}}/**/*.test.ts", "test/proxy/*.test.ts"],
    },
    /** How many mutants of each folder are tried. */
    sample: { type: "string", default: "100" },
    /** Of the draw, below 2^32. */
    seed: { type: "string", default: "1" },
    /** Of processors: how long the tests of one mutant may take, by what they took without any. */
    seconds: { type: "string", default: "10" },
    /** Keeps what the tests reach for the next run, while neither they nor the code change. */
    records: { type: "string" },
  },
});
const say = (line: string) => process.stdout.write(`${line}\n`);

const mutants: Mutant[] = [];
const codes = new Map<string, string>();
for (const file of globSync(values.sources, { cwd: root }).sort()) {
  const path = join(root, file);
  const mutated = mutate(file, readFileSync(path, "utf8"), mutants.length + 1);
  codes.set(path, mutated.code);
  mutants.push(...mutated.mutants);
}

/** What broken code says is of no use. */
const nowhere = () => new Writable({ write: (_chunk, _encoding, done) => done() });

/** Runs the worker until it has done all or died, and returns its journal. */
async function runWorker(jobs?: Job[]): Promise<Entry[]> {
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
      ...{ config: false, root, watch: false, reporters: [], include: values.tests, execArgv: nodeOptions },
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

/** The tests that may kill a mutant, by file. A file with many slow tests runs but the quickest of them. */
function runsOf(id: number, records: readonly Recorded[]): Job["runs"] {
  const runs = records.flatMap(({ file, tests, outside }) => {
    const anew = outside.reached.includes(id);
    const reaching = quickest(anew ? tests : tests.filter(({ reached }) => reached.includes(id)), 3000);
    const ms = reaching.reduce((sum, test) => sum + test.ms, outside.ms);
    const passed = reaching.reduce((sum, test) => sum + test.passed, outside.passed);
    return reaching.length === 0 ? [] : [{ file, tests: reaching.map((test) => test.id), anew, ms, passed }];
  });
  return quickest(runs, 1000 * Number(values.seconds));
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

const kept = values.records && existsSync(values.records) ? readFileSync(values.records, "utf8") : undefined;
const records: Recorded[] = kept
  ? JSON.parse(kept)
  : (await runWorker()).flatMap((entry) => ("recorded" in entry ? entry.recorded : []));
if (values.records) writeFileSync(values.records, JSON.stringify(records));
for (const { file } of records.filter(({ failed }) => failed))
  say(`fails without a mutant, left out: ${file}`);
const folderOf = ({ file }: Mutant) => file.split("/").slice(0, 2).join("/");
const reached = mutants.map((mutant) => ({ mutant, id: mutant.id, runs: runsOf(mutant.id, records) }));
const folders = Map.groupBy(
  reached.filter(({ runs }) => runs.length > 0),
  ({ mutant }) => folderOf(mutant),
);
const drawn = [...folders].map(([folder, all]) => ({ folder, all, tried: draw(all) }));

const ends = new Map<number, string | undefined>();
for (let jobs = drawn.flatMap(({ tried }) => tried); jobs.length > 0; ) {
  const entries = await runWorker(jobs.map(({ id, runs }) => ({ id, runs })));
  if (entries.length === 0) throw new Error("The worker did not start");
  for (const entry of entries) {
    if ("started" in entry) ends.set(entry.started, "time");
    if ("ended" in entry) ends.set(entry.ended, entry.by);
  }
  jobs = jobs.filter(({ id }) => !ends.has(id));
}

const brief = (text: string) => text.replace(/\s+/g, " ").slice(0, 80);
for (const { mutant, id } of drawn.flatMap(({ tried }) => tried)) {
  const { file, line, original, mutated } = mutant;
  if (!ends.get(id)) say(`survived: ${file}:${line} ${brief(original)} -> ${brief(mutated) || "nothing"}`);
}
say(`seed ${values.seed}`);
for (const { folder, all, tried } of drawn) {
  const killed = tried.filter(({ id }) => ends.get(id)).length;
  const made = mutants.filter((mutant) => folderOf(mutant) === folder).length;
  const share = `${killed} of ${tried.length} tried killed (${((100 * killed) / tried.length).toFixed(1)} %)`;
  say(`${folder}: ${made} mutants, ${all.length} reached by tests, ${share}`);
}
