import { constants } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { publish } from "../data.ts";
import { type Bench, inTurn } from "../run.ts";

/** Publishing all, and publishing what changed over what a store has. */
export async function publishing(bench: Bench): Promise<void> {
  const { data, ends, effort, found } = bench;
  const [sources, daily] = [await data.sources(), await data.daily()];
  const [store, dailyStore] = [await data.store(), await data.store(data.daily)];
  const [target, copied] = [join(data.scratch, "published"), join(data.scratch, "copied")];
  /** What is published over which store, and the most of a full publish's time and bytes that it may take. */
  const increments = [
    [
      "0.1% new markets at the new end, 0.01% changed in the newest 5%",
      store,
      await data.edits.newest(),
      0.1,
      0.02,
    ],
    ["0.1% new markets and 0.01% changed, spread", store, await data.edits.spread(), undefined, 0.1],
    [
      "a new file with 0.1% new markets, and 0.01% changed in one of 100",
      dailyStore,
      await data.edits.daily(),
      0.04,
      0.02,
    ],
    ["nothing new in 100 files", dailyStore, daily, 0.02, undefined],
  ] as const;
  const bytes: Record<string, number> = {};
  const timed = (work: string, from: string, over?: string) => async () => {
    if (over) await cp(over, target, { recursive: true, mode: constants.COPYFILE_FICLONE });
    const start = performance.now();
    const { stdout } = await publish(ends, from, target);
    const seconds = (performance.now() - start) / 1000;
    await rm(target, { recursive: true });
    const { uploaded, changeRecord } = JSON.parse(stdout);
    bytes[work] = (uploaded.bytes + changeRecord.bytes) / 1e6;
    return seconds;
  };
  const copy = async () => {
    const start = performance.now();
    // DuckDB alone, on all cores and in no order: it checks, sorts and indexes nothing and writes a file a thread.
    await withDuckDb(
      copied,
      async (sql) => {
        await sql.run("SET preserve_insertion_order = false");
        await sql.run(`COPY (FROM read_parquet(${quoted(join(sources, "markets/*.parquet"))}))
          TO ${quoted(copied)} (FORMAT json, COMPRESSION gzip, PER_THREAD_OUTPUT true)`);
      },
      "1GB",
    );
    const seconds = (performance.now() - start) / 1000;
    await rm(copied, { recursive: true });
    return seconds;
  };
  const times = await inTurn(
    effort.runs,
    {
      full: timed("full", sources),
      copy,
      ...Object.fromEntries(increments.map(([work, over, from]) => [work, timed(work, from, over)])),
    },
    { warmUps: 0 },
  );
  const { full, copy: copies } = times;
  const peer = ["DuckDB COPY TO json, gzip", copies] as const;
  await found({ work: "full publish", unit: "s", ours: full, peer, goal: "ratio <= 1.2" });
  for (const [name, , , time, size] of increments) {
    const work = `publish after ${name}`;
    const own = (times as Record<string, number[]>)[name]!;
    const goals = [time, size].map((limit) => limit !== undefined && { goal: `ratio <= ${limit}` });
    await found({ work: `${work}: time`, unit: "s", ours: own, peer: ["full publish", full], ...goals[0] });
    const all = ["full publish", [bytes.full!]] as const;
    await found({ work: `${work}: bytes`, unit: "MB", ours: [bytes[name]!], peer: all, ...goals[1] });
  }
}
