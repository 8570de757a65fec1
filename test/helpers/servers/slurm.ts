import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { freezeProcess } from "./processes.ts";
import { fromEnvironment } from "./programs.ts";

const run = promisify(execFile);

/** What Slurm tells of a job, or of a task of an array: `JobState`, `ExitCode`, `Restarts` and others. */
type Job = Record<string, string>;

/** A running Slurm of two nodes. */
export interface TestSlurm {
  /** For its commands. */
  env: { SLURM_CONF: string };
  scontrol(...words: string[]): Promise<string>;
  /** Waits until all of a job's tasks have ended, and tells how. */
  ended(id: string): Promise<Job[]>;
  /** Waits until a node runs a program with this in its command line, and stops the program in its tracks. */
  freeze(node: string, words: string): Promise<void>;
  /** Ends all that runs on a node, as a power cut would, and has Slurm see that. */
  cut(node: string): Promise<void>;
  /** Puts a node back that was cut. */
  restore(node: string): Promise<void>;
}

/** The Slurm that runs for tests, or undefined where none does. */
export function findSlurm(): TestSlurm | undefined {
  const file = fromEnvironment("TEST_SLURM_CONF", "Slurm", "slurm-start.sh");
  return file === undefined ? undefined : slurmAt(file);
}

function slurmAt(file: string): TestSlurm {
  const env = { SLURM_CONF: file };
  const call = async (program: string, ...words: string[]) => {
    const PATH = `${process.env.PATH}:/usr/sbin`;
    return (await run(program, words, { env: { ...process.env, ...env, PATH } })).stdout;
  };
  const scontrol = (...words: string[]) => call("scontrol", ...words);
  const jobs = async (id: string) => (await scontrol("--oneliner", "show", "job", id)).trim().split("\n");
  const over = /^(COMPLETED|FAILED|CANCELLED)$/;
  return {
    env,
    scontrol,
    async ended(id) {
      const told = async () => (await jobs(id)).map(valuesIn);
      await expect
        .poll(async () => (await told()).every(({ JobState }) => over.test(JobState!)), { interval: 100 })
        .toBe(true);
      return told();
    },
    freeze: async (node, words) =>
      void (await freezeProcess(words, [`SLURM_CONF=${file}`, `SLURMD_NODENAME=${node}`])),
    async cut(node) {
      await run(new URL("../../servers/slurm-stop.sh", import.meta.url).pathname, [dirname(file), node]);
      await scontrol("update", `NodeName=${node}`, "State=DOWN", "Reason=lost");
    },
    restore: async (node) => void (await call("slurmd", "-N", node)),
  };
}

/** Slurm puts blanks between, and none into the values that are read here. */
const valuesIn = (line: string): Job =>
  Object.fromEntries(line.split(" ").map((word) => word.split("=", 2) as [string, string]));
