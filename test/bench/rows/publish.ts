import { constants } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { type Data, publishCommand } from "../run/data.ts";
import { against, atMost, line, type Measurement, median } from "../run/measurement.ts";
import { nodeCommand, runProgram } from "../run/processes.ts";
import { type Bench, timed } from "../run/run.ts";

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
  store(data: Data): Promise<string>;
  sources(data: Data): Promise<string>;
  /** The most of a full publish's time and bytes. */
  goals: { time?: number; bytes?: number };
}

const increments: readonly Increment[] = [
  {
    row: 8,
    work: "publish after 0.1% new markets at the new end, 0.01% changed in the newest 5%",
    store: (data) => data.store(),
    sources: (data) => data.edited("newest"),
    goals: { time: 0.1, bytes: 0.02 },
  },
  {
    row: 9,
    work: "publish after 0.1% new markets and 0.01% changed, spread",
    store: (data) => data.store(),
    sources: (data) => data.edited("spread"),
    goals: { bytes: 0.1 },
  },
  {
    row: 13,
    work: "publish after one of 100 files has changed: 0.1% new markets, 0.01% changed",
    store: (data) => data.dailyStore(),
    sources: (data) => data.dailyEdited(),
    goals: { time: 0.04, bytes: 0.02 },
  },
  {
    row: 14,
    work: "publish with nothing new in 100 files",
    store: (data) => data.dailyStore(),
    sources: (data) => data.daily(),
    goals: { time: 0.02 },
  },
];

/** Rows 7 to 9, 13 and 14: publishing all, and publishing what changed. */
export async function measurePublish(bench: Bench): Promise<Measurement[]> {
  const { data, options, wants } = bench;
  const sources = await data.sources();
  const wanted = increments
    .filter(({ row }) => wants(row))
    .map((increment) => ({ increment, runs: [] as Run[] }));
  for (const { increment } of wanted) {
    await increment.store(data);
    await increment.sources(data);
  }
  const [full, copy]: [Run[], number[]] = [[], []];
  const rows = () => [
    ...(wants(7) ? [fullPublish(full, copy)] : []),
    ...wanted.flatMap(({ increment, runs }) => measured(increment, full, runs)),
  ];
  for (let run = 0; run < options.effort.runs; run += 1) {
    bench.say(`publishing, run ${run + 1} of ${options.effort.runs}`);
    full.push(await publish(bench, sources));
    if (wants(7)) copy.push(await copyOut(bench, sources));
    for (const { increment, runs } of wanted)
      runs.push(await publish(bench, await increment.sources(data), await increment.store(data)));
    await bench.found(rows());
  }
  return rows();
}

const seconds = (runs: readonly Run[]) => runs.map((run) => run.seconds);
const megabytes = (runs: readonly Run[]) => runs.map(({ uploaded }) => uploaded / 1e6);

const fullPublish = (full: readonly Run[], copy: readonly number[]) =>
  line(7, "full publish", "s", seconds(full), {
    ...against("DuckDB COPY TO json, gzip", copy),
    ...atMost(1.2, "ratio"),
    note:
      "each run is a process of its own, on all cores; " +
      "DuckDB checks, sorts and indexes nothing and writes a file a thread",
  });

function measured(
  { row, work, goals: { time, bytes } }: Increment,
  full: readonly Run[],
  runs: readonly Run[],
): Measurement[] {
  const inTime = line(row, `${work}: time`, "s", seconds(runs), {
    ...against("full publish", seconds(full)),
    ...(time !== undefined && atMost(time, "ratio")),
  });
  if (bytes === undefined) return [inTime];
  const inBytes = line(row, `${work}: bytes`, "MB", megabytes(runs), {
    ...against("full publish", megabytes(full)),
    ...atMost(bytes, "ratio"),
    note: `${Math.round(median(runs.map(({ uploaded }) => uploaded)))} bytes uploaded`,
  });
  return [inTime, inBytes];
}

/** Publishes into a new store, or over what another one has. */
async function publish(bench: Bench, sources: string, over?: string): Promise<Run> {
  const store = join(bench.data.scratch, "published");
  if (over) await cp(over, store, { recursive: true, mode: constants.COPYFILE_FICLONE });
  const { seconds, result } = await timed(() => runProgram(bench.ends, publishCommand(sources, store)));
  await rm(store, { recursive: true });
  const { uploaded, changeRecord } = Report.parse(JSON.parse(result));
  return { seconds, uploaded: uploaded.bytes + changeRecord.bytes };
}

/** How many seconds DuckDB takes for all rows. */
async function copyOut(bench: Bench, sources: string): Promise<number> {
  const target = join(bench.data.scratch, "copy.json.gz");
  const copying = [...nodeCommand("test/bench/peers/copy.ts"), sources, target];
  const { seconds } = await timed(() => runProgram(bench.ends, copying));
  await rm(target, { recursive: true });
  return seconds;
}
