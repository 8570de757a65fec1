import type { ChildProcess } from "node:child_process";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { highWaterMark, treeOf } from "./processes.ts";

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

/** Bytes that this process holds after a collection, those outside of the engine's heap included. */
export async function bytesInUse(): Promise<number> {
  await collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
