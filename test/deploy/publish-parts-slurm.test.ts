import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { freezeProcess } from "../helpers/servers/processes.ts";
import { fromEnvironment } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
/** The configuration of the Slurm of two nodes that runs for tests, or undefined where none does. */
const slurm = fromEnvironment("TEST_SLURM_CONF", "Slurm", "slurm-start.sh");
const root = new URL("../..", import.meta.url).pathname;
const run = promisify(execFile);
const slurmEnv = { ...process.env, SLURM_CONF: slurm, PATH: `${process.env.PATH}:/usr/sbin` };

const scontrol = async (...words: string[]) => (await run("scontrol", words, { env: slurmEnv })).stdout;

/** What Slurm tells of a job, or of each task of an array. It puts blanks between, and none into what is read here. */
async function told(id: string): Promise<Record<string, string>[]> {
  const lines = (await scontrol("--oneliner", "show", "job", id)).trim().split("\n");
  return lines.map((line) =>
    Object.fromEntries(line.split(" ").map((word) => word.split("=", 2) as [string, string])),
  );
}

/** Waits until all of a job's tasks have ended, and tells how. */
async function ended(id: string) {
  const over = /^(COMPLETED|FAILED|CANCELLED)$/;
  const isOver = async () => (await told(id)).every(({ JobState }) => over.test(JobState!));
  await expect.poll(isOver, { interval: 100 }).toBe(true);
  return told(id);
}

/** Ends all that runs on a node, as a power cut would, and has Slurm see that. */
async function cut(node: string): Promise<void> {
  await run(join(root, "test/servers/slurm-stop.sh"), [dirname(slurm!), node]);
  await scontrol("update", `NodeName=${node}`, "State=DOWN", "Reason=lost");
}

/** Submits a run whose jobs begin once `before` has seen their ids. */
async function submit(
  name: string,
  { sources = "sources", before = async (_jobs: string[]) => {} } = {},
): Promise<[plan: string, part: string, last: string]> {
  const env = { ...slurmEnv, SOURCES: sources, STORE: join(folder, `store-${name}`), PARTS: "3" };
  await scontrol("update", "PartitionName=all", "State=DOWN");
  const { stdout } = await run(join(root, ".github/deploy/publish-parts-slurm.sh"), [name], {
    cwd: folder,
    env,
  });
  const jobs = stdout.trim().split(" ") as [string, string, string];
  await before(jobs);
  await scontrol("update", "PartitionName=all", "State=UP");
  return jobs;
}

const saidBy = (job: string) => readFile(join(folder, `${job}.out`), "utf8");

const publishAlone = (sources: string, store: string) =>
  snapshotCommand(["publish", "--sources", sources, "--store", store, "--json"], { from: folder });

describe.skipIf(!slurm)("publish-parts-slurm.sh", () => {
  beforeAll(() => writeSegmented(folder, "sources"));
  // The node is back that was cut.
  afterAll(() => run("slurmd", ["-N", "n2"], { env: slurmEnv }));

  test("refuses what a plan and what a join refuses, and takes back what waits for it", async () => {
    await writeSegmented(folder, "early", withBroken("resolved_at", "TIMESTAMPTZ '1999-12-31 00:00:00+00'"));
    await writeSegmented(folder, "broken", withBroken("composite", "9"));
    const early = await submit("early", { sources: "early" });
    const broken = await submit("broken", { sources: "broken" });
    const ends = await Promise.all([...early, ...broken].map((id) => ended(id)));
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
    const hold = async ([, , last]: string[]) => void (await scontrol("hold", last!));
    const [, part, last] = await submit("lost", { before: hold });
    await ended(part);
    expect((await publishAlone("sources", "store-lost")).code).toBe(0);
    const fewer = await writeSegmented(folder, "fewer", "FROM segmented WHERE hash(id) % 50 <> 1");
    expect((await publishAlone(fewer, "store-lost")).code).toBe(0);
    await scontrol("release", last);
    expect(await ended(last)).toEqual([expect.objectContaining({ JobState: "COMPLETED", ExitCode: "0:0" })]);
    expect(await saidBy("join-lost")).toContain(
      "the newest commit is 2 now, and not the one that the run lost",
    );
  });

  test("makes what one process makes on two nodes, one of which is lost amid a part", async () => {
    const [, part, last] = await submit("cut");
    const words = `--store ${join(folder, "store-cut")} --run cut --part`;
    await freezeProcess(words, [`SLURM_CONF=${slurm}`, "SLURMD_NODENAME=n2"]);
    await cut("n2");
    const parts = await ended(part);
    expect(parts.map(({ JobState }) => JobState)).toEqual(new Array(3).fill("COMPLETED"));
    expect(parts.map(({ Restarts }) => Restarts).sort()).toEqual(["0", "0", "1"]);
    expect(await ended(last)).toEqual([expect.objectContaining({ JobState: "COMPLETED" })]);
    const { snapshotId } = JSON.parse((await publishAlone("sources", "store-alone")).stdout);
    expect(await saidBy("join-cut")).toContain(`Published commit 1, snapshot ${snapshotId}`);
  });
});
