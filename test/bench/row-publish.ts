import { constants } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { type Edit, publishCommand } from "./data.ts";
import { type Measurement, median } from "./measurement.ts";
import { nodeCommand, runProgram } from "./processes.ts";
import type { Bench } from "./run.ts";

const Uploaded = z.object({ bytes: z.number() });
const Report = z.object({ uploaded: Uploaded, changeRecord: Uploaded });

/** One run of a command, a process of its own, its start included. */
interface Run {
  seconds: number;
  uploaded: number;
}

/** Rows 7 to 9: publishing all, and publishing what changed. */
export async function measurePublish(bench: Bench): Promise<Measurement[]> {
  const { data, options } = bench;
  const wants = (row: number) => options.rows.includes(row);
  const sources = await data.sources();
  const store = await data.store();
  const edits = (
    [
      ["newest", 8],
      ["spread", 9],
    ] as const
  ).filter(([, row]) => wants(row));
  for (const [edit] of edits) await data.edited(edit);
  const runs = { full: [] as Run[], copy: [] as Run[], newest: [] as Run[], spread: [] as Run[] };
  for (let run = 0; run < options.effort.runs; run += 1) {
    bench.say(`publishing, run ${run + 1} of ${options.effort.runs}`);
    runs.full.push(await publishAll(bench, sources));
    if (wants(7)) runs.copy.push(await copyOut(bench, sources));
    for (const [edit] of edits) runs[edit].push(await publishEdited(bench, store, edit));
  }
  return [
    ...(wants(7) ? [fullPublish(runs.full, runs.copy)] : []),
    ...edits.flatMap(([edit, row]) => increment(row, edit, runs.full, runs[edit])),
  ];
}

const seconds = (runs: readonly Run[]) => runs.map((run) => run.seconds);

function fullPublish(full: readonly Run[], copy: readonly Run[]): Measurement {
  return {
    row: 7,
    work: "full publish",
    unit: "s",
    ours: seconds(full),
    peer: { name: "DuckDB COPY TO json, gzip", rounds: seconds(copy) },
    goal: { of: "ratio", at: "most", limit: 1.5 },
    note: "each run is a process of its own, on all cores; DuckDB checks, sorts and indexes nothing and writes a file a thread",
  };
}

function increment(row: number, edit: Edit, full: readonly Run[], runs: readonly Run[]): Measurement[] {
  const where =
    edit === "newest" ? "at the new end, 0.01% changed in the newest 5%" : "and 0.01% changed, spread";
  const work = `publish after 0.1% new markets ${where}`;
  const megabytes = (list: readonly Run[]) => list.map(({ uploaded }) => uploaded / 1e6);
  const inTime: Measurement = {
    row,
    work: `${work}: time`,
    unit: "s",
    ours: seconds(runs),
    peer: { name: "full publish", rounds: seconds(full) },
  };
  return [
    edit === "newest" ? { ...inTime, goal: { of: "ratio", at: "most", limit: 0.1 } } : inTime,
    {
      row,
      work: `${work}: bytes`,
      unit: "MB",
      ours: megabytes(runs),
      peer: { name: "full publish", rounds: megabytes(full) },
      goal: { of: "ratio", at: "most", limit: edit === "newest" ? 0.02 : 0.1 },
      note: `${Math.round(median(runs.map(({ uploaded }) => uploaded)))} bytes uploaded`,
    },
  ];
}

async function publishAll(bench: Bench, sources: string): Promise<Run> {
  const store = join(bench.data.scratch, "full");
  const run = await timed(() => runProgram(bench.ends, publishCommand(sources, store)));
  await rm(store, { recursive: true });
  return run;
}

async function publishEdited(bench: Bench, published: string, edit: Edit): Promise<Run> {
  const store = join(bench.data.scratch, edit);
  await cp(published, store, { recursive: true, mode: constants.COPYFILE_FICLONE });
  const sources = await bench.data.edited(edit);
  const run = await timed(() => runProgram(bench.ends, publishCommand(sources, store)));
  await rm(store, { recursive: true });
  return run;
}

async function copyOut(bench: Bench, sources: string): Promise<Run> {
  const target = join(bench.data.scratch, "copy.json.gz");
  const start = performance.now();
  await runProgram(bench.ends, [...nodeCommand("test/bench/peer-copy.ts"), sources, target]);
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
