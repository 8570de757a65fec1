import type { Manifest, ObjectRef } from "../../schemas/store/snapshot.ts";
import { ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { namedFirst, type ProtocolChanges } from "./summary.ts";

type Records = Manifest["scores"]["records"];
type ReadRecord = (ref: ObjectRef) => Promise<Buffer>;

/**
 * Compares protocols by the hashes of their records, and the changed ones member by member. Damaged records are not
 * compared.
 */
export async function protocolChanges(
  before: Records,
  after: Records,
  read: ReadRecord,
): Promise<ProtocolChanges> {
  const [old, fresh] = [Object.keys(before), Object.keys(after)];
  const added = fresh.filter((slug) => !Object.hasOwn(before, slug));
  const removed = old.filter((slug) => !Object.hasOwn(after, slug));
  const both = fresh.filter((slug) => Object.hasOwn(before, slug));
  const changed = both.filter((slug) => before[slug]!.hash !== after[slug]!.hash);
  const fields = new Map<string, number>();
  await inParallel(changed, async (slug) => {
    for (const name of await differingMembers(before[slug]!, after[slug]!, read))
      fields.set(name, (fields.get(name) ?? 0) + 1);
  });
  const first = (slugs: readonly string[]) => slugs.toSorted().slice(0, namedFirst);
  return {
    added: added.length,
    changed: changed.length,
    removed: removed.length,
    first: { added: first(added), changed: first(changed), removed: first(removed) },
    fields: Object.fromEntries([...fields].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

async function differingMembers(before: ObjectRef, after: ObjectRef, read: ReadRecord): Promise<string[]> {
  const records = await unless(ObjectError, async () => [await read(before), await read(after)]);
  const [old, fresh = {}] = records?.map((bytes) => JSON.parse(String(bytes))) ?? [];
  return Object.keys(fresh).filter((name) => JSON.stringify(old[name]) !== JSON.stringify(fresh[name]));
}
