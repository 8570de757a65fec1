import { rm } from "node:fs/promises";
import { join } from "node:path";
import { peakMemory } from "../../helpers/servers/memory.ts";
import { publishCommand } from "../run/data.ts";
import { atMost, type Measurement } from "../run/measurement.ts";
import { runProgram } from "../run/processes.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";

const manyLabels = 50_000;

/** Row 10: what publishing and serving take of memory, with few and with many outcome labels. */
export async function measureMemory(bench: Bench): Promise<Measurement[]> {
  const few = await measureOne(bench, "few outcome labels", undefined);
  const many = await measureOne(bench, `${manyLabels.toLocaleString("en-US")} outcome labels`, manyLabels);
  return [...few, ...many];
}

async function measureOne(
  bench: Bench,
  labels: string,
  outcomes: number | undefined,
): Promise<Measurement[]> {
  const { data, ends, say } = bench;
  const sources = await data.sources(outcomes);
  const store = join(data.scratch, `memory-${outcomes ?? "few"}`);
  say(`publishing with ${labels}`);
  ends.add(() => rm(store, { recursive: true, force: true }));
  let peak: Promise<number> | undefined;
  await runProgram(ends, publishCommand(sources, store), { watch: (child) => (peak = peakMemory(child)) });
  const ours = await startProxy(bench, store);
  const indexBytes = await ours.metric("prs_index_bytes");
  return [
    {
      row: 10,
      work: `index in memory, ${labels}`,
      unit: "bytes a market",
      ours: [indexBytes / data.markets],
      ...atMost(20),
      ...(outcomes !== undefined && { note: "as many labels occur as the markets suffice for" }),
    },
    {
      row: 10,
      work: `peak of publishing, all processes, ${labels}`,
      unit: "MiB",
      ours: [Number(await peak) / 2 ** 20],
      ...atMost(1024),
    },
  ];
}
