import { collectGarbage } from "./memory.ts";

/** Bytes that this process holds after a collection, those outside of the engine's heap included. */
export async function bytesInUse(): Promise<number> {
  await collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
