import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { ancestorOf, freezeProcess, signalTo } from "../helpers/servers/processes.ts";
import { fromEnvironment } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
/** The configuration of the Slurm of two nodes that runs for tests, or undefined where none does. */
const slurm = fromEnvironment("TEST_SLURM_CONF", "Slurm", "slurm-start.sh");
/** The spark-submit of an installed Spark, or undefined where none is installed. */
const spark = fromEnvironment("TEST_SPARK_SUBMIT", "Spark", "python-install.sh engines");
const root = new URL("../..", import.meta.url).pathname;
const run = promisify(execFile);
const slurmEnv = { ...process.env, SLURM_CONF: slurm, PATH: `${process.env.PATH}:/usr/sbin` };

/** Publishes by one process, and returns the snapshot. */
async function publishAlone(sources: string, store: string): Promise<string> {
  const args = ["publish", "--sources", sources, "--store", store, "--json"];
  const { stdout } = await snapshotCommand(args, { from: folder });
  return JSON.parse(stdout).snapshotId;
}

beforeAll(() => writeSegmented(folder, "sources"));

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

describe.skipIf(!slurm)("publish-parts-slurm.sh", () => {
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
    const first = await publishAlone("sources", "store-lost");
    const fewer = await writeSegmented(folder, "fewer", "FROM segmented WHERE hash(id) % 50 <> 1");
    expect(await publishAlone(fewer, "store-lost")).not.toBe(first);
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
    const snapshotId = await publishAlone("sources", "store-alone");
    expect(await saidBy("join-cut")).toContain(`Published commit 1, snapshot ${snapshotId}`);
  });
});

test.skipIf(!spark)(
  "publish_parts.py makes what one process makes, also when an executor is lost",
  async () => {
    const snapshotId = await publishAlone("sources", "alone");
    // Half the work of so short a program is what Java's second compiler does.
    const java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";
    const local = {
      "spark.driver.host": "127.0.0.1",
      "spark.driver.extraJavaOptions": java,
      "spark.executor.extraJavaOptions": java,
      "spark.ui.enabled": "false",
    };
    const conf = Object.entries(local).flatMap(([name, value]) => ["--conf", `${name}=${value}`]);
    const words = ["cut", "3", join(folder, "sources"), join(folder, "store")];
    const python = { PRS_HOME: root, PYSPARK_PYTHON: join(dirname(spark!), "python") };
    const submitted = run(
      spark!,
      // Two executors, which are processes of this machine.
      [
        "--master",
        "local-cluster[2,1,1024]",
        ...conf,
        join(root, ".github/deploy/publish_parts.py"),
        ...words,
      ],
      {
        cwd: folder,
        env: { ...process.env, ...python, SPARK_LOCAL_IP: "127.0.0.1", SPARK_LOCAL_DIRS: folder },
        maxBuffer: 2 ** 26,
      },
    );
    onTestFinished(() => void submitted.child.kill());
    const early = submitted.then(({ stderr }) => expect.unreachable(stderr));
    const part = await Promise.race([freezeProcess(`--store ${words[3]} --run cut --part`), early]);
    signalTo(ancestorOf(part, "ExecutorBackend"), "SIGKILL");
    signalTo(part, "SIGKILL");
    const { stdout, stderr } = await submitted;
    expect(stderr).toMatch(/Lost executor \d/);
    expect(stdout).toContain(`Published commit 1, snapshot ${snapshotId}`);
  },
);
