import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { findProgram, takesConnections } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const run = promisify(execFile);
const script = (name: string) => new URL(`../servers/${name}.sh`, import.meta.url).pathname;

/** Whether a server that was started in a directory runs. */
type IsRunning = () => Promise<boolean>;

/** Servers and what starts them, with something that is theirs. */
const servers: [name: string, program: string, begin: (directory: string) => Promise<IsRunning>][] = [
  [
    "ceph",
    "ceph-mon",
    async (directory) => {
      const { stdout } = await run(script("ceph-start"), [directory]);
      const [, port] =
        /^TEST_S3_ENDPOINT=\S+:(\d+)\nAWS_ACCESS_KEY_ID=.+\nAWS_SECRET_ACCESS_KEY=.+\nAWS_REGION=.+\n$/.exec(
          stdout,
        )!;
      const third = run(script("ceph-start"), [`${directory}-three`, port!]);
      await expect(third).rejects.toThrow(/port \d+ is taken/);
      return () => takesConnections(Number(port));
    },
  ],
  [
    "slurm",
    "slurmctld",
    async (directory) => {
      const { stdout } = await run(script("slurm-start"), [directory]);
      expect(stdout).toBe(`TEST_SLURM_CONF=${directory}/slurm.conf\n`);
      const env = { ...process.env, SLURM_CONF: join(directory, "slurm.conf") };
      await run("sbatch", ["--wrap", "echo $$ >pid && exec sleep 600"], { cwd: directory, env });
      const readPid = () => readFile(join(directory, "pid"), "utf8").catch(() => "");
      await expect.poll(readPid).toMatch(/^\d+\n$/);
      const job = `/proc/${(await readPid()).trim()}/exe`;
      return async () => existsSync(job);
    },
  ],
];

describe.each(servers)("%s-stop.sh", (name, program, begin) => {
  const folder = testFolder();
  const stop = (directory: string) => run(script(`${name}-stop`), [directory]);
  const found = findProgram(program);

  test.skipIf(!found)("ends one of two servers without the other", async () => {
    const all = ["one", "two"].map((directory) => join(folder, directory));
    onTestFinished(async () => {
      for (const directory of all) await stop(directory);
    });
    // Both to their end, because what still starts cannot be stopped.
    const started = await Promise.allSettled(all.map(begin));
    const running = async () =>
      Promise.all(started.map((one) => (one.status === "fulfilled" ? one.value() : one.reason)));
    expect(await running()).toEqual([true, true]);
    await stop(all[0]!);
    expect(await running()).toEqual([false, true]);
    if (name === "ceph") expect(await readdir(join(all[0]!, "run"))).toEqual([]);
    await stop(all[0]!);
    await expect(run(script(`${name}-start`), [folder])).rejects.toThrow("holds something else");
  });

  // As if a daemon had died and its number belonged to another process by now.
  if (name !== "ceph") return;
  test.skipIf(!found)("leaves alone a process that has the number of its own", async () => {
    const reused = join(folder, "reused");
    await mkdir(join(reused, "run"), { recursive: true });
    const other = spawn("sleep", ["60"]);
    await writeFile(join(reused, "run/mon.pid"), String(other.pid));
    await stop(reused);
    expect(other.kill("SIGTERM")).toBe(true);
    expect(await once(other, "exit")).toEqual([null, "SIGTERM"]);
  });
});
