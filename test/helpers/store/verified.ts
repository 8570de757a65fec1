import { sha256 } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import type { Remark } from "../../../snapshots/verify/store-check.ts";
import { type VerifyOptions, verify } from "../../../snapshots/verify/verify.ts";

const known = new Map<string, Promise<Remark[]>>();

/**
 * What verify finds in a store. Many tests of faults end with the same objects after hundreds of different ways there,
 * and what verify says depends on the objects and its options alone: each content is verified once.
 */
export async function faultsOf(storage: Storage, options: VerifyOptions = {}): Promise<Remark[]> {
  const digests: string[] = [];
  for await (const { key } of storage.list("")) digests.push(`${key} ${sha256((await storage.get(key))!)}`);
  const content = sha256(`${JSON.stringify(options)}\n${digests.sort().join("\n")}`);
  if (!known.has(content))
    known.set(
      content,
      verify(storage, () => {}, options).then(({ faults }) => faults),
    );
  return known.get(content)!;
}
