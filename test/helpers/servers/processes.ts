import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";

/** What Linux tells of a running process; empty when it has ended. */
function read(pid: number, file: "environ" | "cmdline" | "stat" | "status"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

/** Processes that a process has begun, and that run. */
export function childrenOf(pid: number): number[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`);
    const lists = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, "utf8"));
    return lists.join("").split(" ").filter(Boolean).map(Number);
  } catch {
    // It ended while we looked.
    return [];
  }
}

/** A process and all below it. */
export const treeOf = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(treeOf)];

/** Bytes that a process has held at most; undefined when it has ended. */
export function highWaterMark(pid: number): number | undefined {
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(read(pid, "status"))?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

export const commandOf = (pid: number) => read(pid, "cmdline").replaceAll("\0", " ");

/** False when it has ended. */
export function signalTo(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/**
 * Waits until a process with these words in its command line, and with these variables, runs on this machine. Stops it
 * in its tracks and returns its number.
 */
export async function freezeProcess(words: string, variables: readonly string[] = []): Promise<number> {
  const isIt = (pid: number) => {
    const environment = read(pid, "environ").split("\0");
    return commandOf(pid).includes(words) && variables.every((variable) => environment.includes(variable));
  };
  let frozen: number | undefined;
  const look = () => {
    frozen = readdirSync("/proc")
      .map(Number)
      .find((pid) => pid > 0 && isIt(pid) && signalTo(pid, "SIGSTOP"));
    return frozen;
  };
  await expect.poll(look, { interval: 20 }).toBeDefined();
  return frozen!;
}

/** The nearest of a process' ancestors that has this word in its command line. */
export function ancestorOf(pid: number, word: string): number {
  // The name of the program, in parentheses, may have anything in it.
  const parent = Number(read(pid, "stat").split(")").at(-1)!.trim().split(" ")[1]);
  if (!(parent > 1)) throw new Error(`no process above has ${word} in its command line`);
  return commandOf(parent).includes(word) ? parent : ancestorOf(parent, word);
}
