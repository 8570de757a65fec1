import type { Commit, CommitEntry } from "../../../schemas/store/stored-objects.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Process } from "../kernel/kernel.ts";
import type { Action } from "../plan.ts";
import type { World } from "../world.ts";

/** Somebody who can write to the store, and has no key, does a few things there. */
export async function stealOnce(world: World, process: Process, { choices }: Action) {
  const { kernel, store, judge } = world;
  if (!world.plan.signed) return;
  judge.thieves.add(process);
  const [first = 0] = choices;
  for (let times = 1 + (first % 4); times > 0; times -= 1) {
    const crime = crimes[process.draw(crimes.length)]!;
    const keys = [...store.objects.keys()];
    const pick = () => keys[process.draw(keys.length)]!;
    const [key, bytes] = (keys.length > 0 && crime(world, process, pick(), pick())) || [];
    if (key !== undefined) {
      kernel.note(`${process.name} ${bytes ? `puts ${bytes.length} bytes at` : "deletes"} ${key}`);
      store.set(key, bytes, process);
    }
    await kernel.wait(process, process.draw(120_000));
  }
}

/** What to put, or to delete, where there is something. `key` and `other` are drawn of the store's. */
type Crime = (
  world: World,
  process: Process,
  key: string,
  other: string,
) => [key: string, bytes?: Buffer] | undefined;

const one = <T>(of: readonly T[], process: Process): T | undefined =>
  of[process.draw(Math.max(1, of.length))];
const newestOf = ({ judge }: World) => judge.commits.at(-1)?.commit;

/** Makes a commit that nobody signed, or with the note of another. */
function forged(commit: Commit, entry: Partial<CommitEntry>, changes: Partial<Commit>, noted: boolean) {
  const { digest: _, note, ...content } = commit;
  return seal({ ...content, entry: { ...content.entry, ...entry }, ...changes }, () =>
    noted && note ? { note } : {},
  );
}

const crimes: readonly Crime[] = [
  // deletes something
  (_world, _process, key) => [key],
  // leaves only the beginning of something, as a disk does that loses its power
  ({ store }, process, key) => {
    const { bytes } = store.objects.get(key)!;
    return [key, bytes.subarray(0, process.draw(bytes.length))];
  },
  // deletes a record
  (_, process) => [one([layout.checked, layout.logCheckpoint], process)!],
  // deletes the newest commit
  (world) => {
    const newest = newestOf(world);
    return newest && [layout.commit(newest.entry.commit)];
  },
  // shows the log as it was before the newest commit
  ({ store, judge }, process) => {
    const size = judge.commits.length;
    const before = store.objects.get(layout.logCheckpointOf(size - 1))?.bytes;
    if (!before) return undefined;
    store.set(layout.logCheckpointOf(size), undefined, process);
    return [layout.logCheckpoint, before];
  },
  // puts back what an object was before
  (world, process) => {
    const [key, versions] = one([...world.store.past], process) ?? [];
    return key === undefined ? undefined : [key, one(versions!, process)!];
  },
  // goes on with a commit of an old snapshot, or of another time
  (world, process) => {
    const newest = newestOf(world);
    const old = one(world.judge.commits, process)?.commit;
    if (!newest || !old) return undefined;
    const commit = newest.entry.commit + 1;
    const { publishedAt } = newest.entry;
    const bytes = forged(old, { commit, publishedAt }, { previous: newest.digest }, process.draw(2) === 0);
    return [layout.commit(commit), bytes];
  },
  // puts another commit in the place of an old one
  (world, process) => {
    const { commits } = world.judge;
    const [old, other] = [one(commits, process)?.commit, one(commits, process)?.commit];
    if (!old || !other || old === other) return undefined;
    const { previous, tree } = old;
    const { commit } = old.entry;
    return [layout.commit(commit), forged(other, { commit }, { previous, tree }, false)];
  },
  // says that all is about to be deleted
  ({ store }) => {
    const keys = [...store.objects.keys()].filter((each) => each.startsWith("private/")).slice(0, 20);
    return [layout.collecting("0123456789abcdef"), seal({ keys })];
  },
  // puts one object in the place of another
  ({ store }, _process, key, other) => [key, store.objects.get(other)!.bytes],
];
