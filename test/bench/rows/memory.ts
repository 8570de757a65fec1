import { rm } from "node:fs/promises";
import { join } from "node:path";
import { peakMemory } from "../../helpers/servers/memory.ts";
import { publishCommand } from "../run/data.ts";
import { atMost, line, type Measurement } from "../run/measurement.ts";
import { runProgram } from "../run/processes.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";

/** Row 10: what publishing and serving take of memory, with few and with many outcome labels. */
export async function measureMemory(bench: Bench): Promise<Measurement[]> {
  const { data, ends, say } = bench;
  const measured: Measurement[] = [];
  for (const outcomes of [undefined, 50_000]) {
    const labels = `${outcomes?.toLocaleString("en-US") ?? "few"} outcome labels`;
    const sources = await data.sources(outcomes);
    const store = join(data.scratch, `memory-${outcomes ?? "few"}`);
    say(`publishing with ${labels}`);
    ends.defer(() => rm(store, { recursive: true, force: true }));
    let peak: Promise<number> | undefined;
    await runProgram(ends, publishCommand(sources, store), { watch: (child) => (peak = peakMemory(child)) });
    const ours = await startProxy(bench, store);
    const bytes = (await ours.metric("prs_index_bytes")) / data.markets;
    measured.push(
      line(10, `index in memory, ${labels}`, "bytes a market", [bytes], {
        ...atMost(20),
        ...(outcomes !== undefined && { note: "as many labels occur as the markets suffice for" }),
      }),
      line(
        10,
        `peak of publishing, all processes, ${labels}`,
        "MiB",
        [Number(await peak) / 2 ** 20],
        atMost(1024),
      ),
    );
  }
  return measured;
}
