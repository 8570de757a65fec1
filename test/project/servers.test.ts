import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findProgram } from "../helpers/servers/programs.ts";

const run = promisify(execFile);
const script = (name: string) => new URL(`../servers/${name}`, import.meta.url).pathname;
const start = (...parameters: string[]) => run(script("ceph-start.sh"), parameters);
const stop = (directory: string) => run(script("ceph-stop.sh"), [directory]);

const installed = existsSync("/usr/bin/ceph-mon");
if (!installed && process.env.CI) throw new Error("CI runs Ceph: ceph-mon must be installed");
if (!installed) console.warn("Tests of the Ceph scripts are skipped: ceph-mon is not installed");

describe.skipIf(!installed)("ceph-start.sh and ceph-stop.sh", () => {
  let folder: string;
  let clusters: string[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "prs-servers-"));
    clusters = ["one", "two"].map((name) => join(folder, name));
  });
  afterAll(async () => {
    for (const cluster of clusters) await stop(cluster);
    await rm(folder, { recursive: true, force: true });
  });

  test("run two servers at a time and end one without the other", async () => {
    const printed = await Promise.all(clusters.map((cluster) => start(cluster)));
    const ports = printed.map(({ stdout }) => {
      const lines = new Map(
        stdout
          .trim()
          .split("\n")
          .map((line) => line.split("=", 2) as [string, string]),
      );
      expect([...lines.keys()]).toEqual([
        "TEST_S3_ENDPOINT",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
      ]);
      return Number(new URL(lines.get("TEST_S3_ENDPOINT")!).port);
    });
    expect(await Promise.all(ports.map(answers))).toEqual([true, true]);
    await expect(start(join(folder, "three"), String(ports[1]))).rejects.toThrow(/port \d+ is taken/);

    await stop(clusters[0]!);
    expect(await Promise.all(ports.map(answers))).toEqual([false, true]);
    expect(await readdir(join(clusters[0]!, "run"))).toEqual([]);
    await stop(clusters[0]!);
  });

  test("leave alone what is not theirs", async () => {
    await expect(start(folder)).rejects.toThrow("holds something else");
    // As if a daemon had died and its number belonged to another process by now.
    const reused = join(folder, "reused");
    await mkdir(join(reused, "run"), { recursive: true });
    const other = spawn("sleep", ["60"]);
    await writeFile(join(reused, "run/mon.pid"), String(other.pid));
    await stop(reused);
    expect(other.kill("SIGTERM")).toBe(true);
    expect(await once(other, "exit")).toEqual([null, "SIGTERM"]);
  });
});

const slurm = findProgram("slurmctld");

test.skipIf(!slurm)("slurm-stop.sh ends the jobs of its own Slurm, and leaves another's alone", async () => {
  const folder = await mkdtemp(join(tmpdir(), "prs-servers-"));
  const all = ["one", "two"].map((name) => join(folder, name));
  const stopSlurm = (directory: string) => run(script("slurm-stop.sh"), [directory]);
  try {
    const started = await Promise.allSettled(
      all.map(async (directory) => {
        const { stdout } = await run(script("slurm-start.sh"), [directory]);
        expect(stdout).toBe(`TEST_SLURM_CONF=${directory}/slurm.conf\n`);
        const env = { ...process.env, SLURM_CONF: join(directory, "slurm.conf") };
        await run("sbatch", ["--wrap", "echo $$ >pid && exec sleep 600"], { cwd: directory, env });
        const readPid = () => readFile(join(directory, "pid"), "utf8").catch(() => "");
        await expect.poll(readPid).toMatch(/^\d+\n$/);
        return `/proc/${(await readPid()).trim()}/exe`;
      }),
    );
    // Only now, because what still starts cannot be stopped.
    const jobs = await Promise.all(
      started.map((one) => (one.status === "fulfilled" ? one.value : Promise.reject(one.reason))),
    );
    await stopSlurm(all[0]!);
    expect(jobs.map(existsSync)).toEqual([false, true]);
    await expect(run(script("slurm-start.sh"), [folder])).rejects.toThrow("holds something else");
  } finally {
    for (const directory of all) await stopSlurm(directory);
    await rm(folder, { recursive: true, force: true });
  }
});

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
