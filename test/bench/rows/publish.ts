import { constants } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { publishCommand } from "../run/data.ts";
import type { Edit } from "../run/edits.ts";
import { atMost, type Measurement, median } from "../run/measurement.ts";
import { nodeCommand, runProgram } from "../run/processes.ts";
import type { Bench } from "../run/run.ts";

const Uploaded = z.object({ bytes: z.number() });
const Report = z.object({ uploaded: Uploaded, changeRecord: Uploaded });

/** One run of a command, a process of its own, its start included. */
interface Run {
  seconds: number;
  uploaded: number;
}

/** What is published over what a store has. */
interface Increment {
  row: number;
  work: string;
  store(bench: Bench): Promise<string>;
  sources(bench: Bench): Promise<string>;
  /** The most of a full publish's time and bytes. */
  goals: { time?: number; bytes?: number };
}

const edited = (edit: Edit) => ({
  store: ({ data }: Bench) => data.store(),
  sources: ({ data }: Bench) => data.edited(edit),
});

const increments: readonly Increment[] = [
  {
    row: 8,
    work: "publish after 0.1% new markets at the new end, 0.01% changed in the newest 5%",
    ...edited("newest"),
    goals: { time: 0.1, bytes: 0.02 },
  },
  {
    row: 9,
    work: "publish after 0.1% new markets and 0.01% changed, spread",
    ...edited("spread"),
    goals: { bytes: 0.1 },
  },
  {
    row: 13,
    work: "publish after one of 100 files has changed: 0.1% new markets, 0.01% changed",
    store: ({ data }) => data.dailyStore(),
    sources: ({ data }) => data.dailyEdited(),
    goals: { time: 0.04, bytes: 0.02 },
  },
  {
    row: 14,
    work: "publish with nothing new in 100 files",
    store: ({ data }) => data.dailyStore(),
    sources: ({ data }) => data.daily(),
    goals: { time: 0.02 },
  },
];

/** Rows 7 to 9, 13 and 14: publishing all, and publishing what changed. */
export async function measurePublish(bench: Bench): Promise<Measurement[]> {
  const { data, options } = bench;
  const wants = (row: number) => options.rows.includes(row);
  const sources = await data.sources();
  const wanted = increments
    .filter(({ row }) => wants(row))
    .map((increment) => ({ increment, runs: [] as Run[] }));
  for (const { increment } of wanted) {
    await increment.store(bench);
    await increment.sources(bench);
  }
  const full: Run[] = [];
  const copy: Run[] = [];
  const rows = () => [
    ...(wants(7) ? [fullPublish(full, copy)] : []),
    ...wanted.flatMap(({ increment, runs }) => measured(increment, full, runs)),
  ];
  for (let run = 0; run < options.effort.runs; run += 1) {
    bench.say(`publishing, run ${run + 1} of ${options.effort.runs}`);
    full.push(await publishAll(bench, sources));
    if (wants(7)) copy.push(await copyOut(bench, sources));
    for (const { increment, runs } of wanted) runs.push(await publishOver(bench, increment));
    await bench.found(rows());
  }
  return rows();
}

const seconds = (runs: readonly Run[]) => runs.map((run) => run.seconds);

function fullPublish(full: readonly Run[], copy: readonly Run[]): Measurement {
  return {
    row: 7,
    work: "full publish",
    unit: "s",
    ours: seconds(full),
    peer: { name: "DuckDB COPY TO json, gzip", rounds: seconds(copy) },
    ...atMost(1.2, "ratio"),
    note:
      "each run is a process of its own, on all cores; " +
      "DuckDB checks, sorts and indexes nothing and writes a file a thread",
  };
}

function measured(
  { row, work, goals }: Increment,
  full: readonly Run[],
  runs: readonly Run[],
): Measurement[] {
  const megabytes = (list: readonly Run[]) => list.map(({ uploaded }) => uploaded / 1e6);
  const inTime: Measurement = {
    row,
    work: `${work}: time`,
    unit: "s",
    ours: seconds(runs),
    peer: { name: "full publish", rounds: seconds(full) },
    ...(goals.time !== undefined && atMost(goals.time, "ratio")),
  };
  if (goals.bytes === undefined) return [inTime];
  const inBytes: Measurement = {
    row,
    work: `${work}: bytes`,
    unit: "MB",
    ours: megabytes(runs),
    peer: { name: "full publish", rounds: megabytes(full) },
    ...atMost(goals.bytes, "ratio"),
    note: `${Math.round(median(runs.map(({ uploaded }) => uploaded)))} bytes uploaded`,
  };
  return [inTime, inBytes];
}

async function publishAll(bench: Bench, sources: string): Promise<Run> {
  const store = join(bench.data.scratch, "full");
  const run = await timed(() => runProgram(bench.ends, publishCommand(sources, store)));
  await rm(store, { recursive: true });
  return run;
}

async function publishOver(bench: Bench, increment: Increment): Promise<Run> {
  const store = join(bench.data.scratch, "over");
  await cp(await increment.store(bench), store, { recursive: true, mode: constants.COPYFILE_FICLONE });
  const sources = await increment.sources(bench);
  const run = await timed(() => runProgram(bench.ends, publishCommand(sources, store)));
  await rm(store, { recursive: true });
  return run;
}

async function copyOut(bench: Bench, sources: string): Promise<Run> {
  const target = join(bench.data.scratch, "copy.json.gz");
  const start = performance.now();
  await runProgram(bench.ends, [...nodeCommand("test/bench/peers/copy.ts"), sources, target]);
  const run = { seconds: (performance.now() - start) / 1000, uploaded: 0 };
  await rm(target, { recursive: true });
  return run;
}

async function timed(publish: () => Promise<string>): Promise<Run> {
  const start = performance.now();
  const out = await publish();
  const seconds = (performance.now() - start) / 1000;
  const { uploaded, changeRecord } = Report.parse(JSON.parse(out));
  return { seconds, uploaded: uploaded.bytes + changeRecord.bytes };
}
