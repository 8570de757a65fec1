import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { findSlurm } from "../helpers/servers/slurm.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const slurm = findSlurm();
const script = new URL("../../.github/deploy/publish-parts-slurm.sh", import.meta.url).pathname;

/** Submits a run whose jobs begin once `before` has seen their ids. */
async function submit(
  name: string,
  { sources = "sources", before = async (_jobs: string[]) => {} } = {},
): Promise<[plan: string, part: string, last: string]> {
  const env = {
    ...process.env,
    ...slurm!.env,
    SOURCES: sources,
    STORE: join(folder, `store-${name}`),
    PARTS: "3",
  };
  await slurm!.scontrol("update", "PartitionName=all", "State=DOWN");
  const { stdout } = await promisify(execFile)(script, [name], { cwd: folder, env });
  const jobs = stdout.trim().split(" ") as [string, string, string];
  await before(jobs);
  await slurm!.scontrol("update", "PartitionName=all", "State=UP");
  return jobs;
}

const saidBy = (job: string) => readFile(join(folder, `${job}.out`), "utf8");

const publishAlone = (sources: string, store: string) =>
  snapshotCommand(["publish", "--sources", sources, "--store", store, "--json"], { from: folder });

describe.skipIf(!slurm)("publish-parts-slurm.sh", () => {
  beforeAll(() => writeSegmented(folder, "sources"));
  afterAll(() => slurm?.restore("n2"));

  test("refuses what a plan and what a join refuses, and takes back what waits for it", async () => {
    await writeSegmented(folder, "early", withBroken("resolved_at", "TIMESTAMPTZ '1999-12-31 00:00:00+00'"));
    await writeSegmented(folder, "broken", withBroken("composite", "9"));
    const early = await submit("early", { sources: "early" });
    const broken = await submit("broken", { sources: "broken" });
    const ends = await Promise.all([...early, ...broken].map((id) => slurm!.ended(id)));
    expect(ends.map((tasks) => tasks.map(({ JobState, ExitCode }) => `${JobState} ${ExitCode}`))).toEqual([
      ["FAILED 3:0"],
      ["CANCELLED 0:0"],
      ["CANCELLED 0:0"],
      ["COMPLETED 0:0"],
      new Array(3).fill("COMPLETED 0:0"),
      ["FAILED 3:0"],
    ]);
    expect(await saidBy("plan-early")).toContain("column resolved_at: 1999-12-31");
    expect(await saidBy("join-broken")).toContain("column composite: 9, must be from 300 to 1000");
  });

  test("ends without an alarm when another publisher was faster, and says so", async () => {
    const hold = async ([, , last]: string[]) => void (await slurm!.scontrol("hold", last!));
    const [, part, last] = await submit("lost", { before: hold });
    await slurm!.ended(part);
    expect((await publishAlone("sources", "store-lost")).code).toBe(0);
    const fewer = await writeSegmented(folder, "fewer", "FROM segmented WHERE hash(id) % 50 <> 1");
    expect((await publishAlone(fewer, "store-lost")).code).toBe(0);
    await slurm!.scontrol("release", last);
    const ended = await slurm!.ended(last);
    expect(ended).toEqual([expect.objectContaining({ JobState: "COMPLETED", ExitCode: "0:0" })]);
    expect(await saidBy("join-lost")).toContain(
      "the newest commit is 2 now, and not the one that the run lost",
    );
  });

  test("makes what one process makes on two nodes, one of which is lost amid a part", async () => {
    const [, part, last] = await submit("cut");
    await slurm!.freeze("n2", `--store ${join(folder, "store-cut")} --run cut --part`);
    await slurm!.cut("n2");
    const parts = await slurm!.ended(part);
    expect(parts.map(({ JobState }) => JobState)).toEqual(new Array(3).fill("COMPLETED"));
    expect(parts.map(({ Restarts }) => Restarts).sort()).toEqual(["0", "0", "1"]);
    expect(await slurm!.ended(last)).toEqual([expect.objectContaining({ JobState: "COMPLETED" })]);
    const { snapshotId } = JSON.parse((await publishAlone("sources", "store-alone")).stdout);
    expect(await saidBy("join-cut")).toContain(`Published commit 1, snapshot ${snapshotId}`);
  });
});
