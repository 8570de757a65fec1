import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";

/** What Linux tells of a running process; empty when it has ended. */
function read(pid: number, file: "environ" | "cmdline" | "stat"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

const commandOf = (pid: number) => read(pid, "cmdline").replaceAll("\0", " ");

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
