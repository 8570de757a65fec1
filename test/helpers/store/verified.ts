import { sha256 } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import type { Fault } from "../../../snapshots/verify/store-check.ts";
import { verify } from "../../../snapshots/verify/verify.ts";

const known = new Map<string, Promise<Fault[]>>();

/**
 * What verify finds in a store. Many tests of faults end with the same objects after hundreds of different ways there,
 * and what verify says depends on the objects alone: each content is verified once.
 */
export async function faultsOf(storage: Storage): Promise<Fault[]> {
  const digests: string[] = [];
  for await (const { key } of storage.list("")) digests.push(`${key} ${sha256((await storage.get(key))!)}`);
  const content = sha256(digests.sort().join("\n"));
  if (!known.has(content))
    known.set(
      content,
      verify(storage, () => {}).then(({ faults }) => faults),
    );
  return known.get(content)!;
}
