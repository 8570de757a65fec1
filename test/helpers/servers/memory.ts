import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes of memory that a process and its children took at most, each at its own peak. Linux only. */
export async function peakMemory(child: ChildProcess): Promise<number> {
  const peaks = new Map<number, number>();
  while (child.exitCode === null && child.signalCode === null) {
    for (const pid of treeOf(child.pid!)) peaks.set(pid, highWaterMark(pid) ?? peaks.get(pid) ?? 0);
    // The kernel keeps each peak; only one within the last moments of a process can be missed.
    await pause(20);
  }
  return peaks.values().reduce((sum, bytes) => sum + bytes, 0);
}

/** A process and all below it. */
function treeOf(pid: number): number[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`);
    const children = tasks.flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" "),
    );
    return [pid, ...children.filter(Boolean).flatMap((child) => treeOf(Number(child)))];
  } catch {
    // It ended while we looked.
    return [];
  }
}

function highWaterMark(pid: number): number | undefined {
  try {
    const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
  } catch {
    return undefined;
  }
}

/** Frees what nothing reaches any more, weakly held objects included. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  // A weakly held object that was looked at in this turn stays alive until the turn ends. And a thread beside frees the
  // array buffers of a collection, on a busy machine after it: the next one waits for that.
  for (let turn = 0; turn < 3; turn += 1) {
    await nextTurn();
    collect();
  }
}
