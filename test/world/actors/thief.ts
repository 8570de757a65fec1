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
    const [key, bytes] = crime(world, process) ?? [];
    if (key !== undefined) {
      kernel.note(`${process.name} ${bytes ? `puts ${bytes.length} bytes at` : "deletes"} ${key}`);
      store.set(key, bytes, process);
    }
    await kernel.wait(process, process.draw(120_000));
  }
}

type Crime = (world: World, process: Process) => [key: string, bytes?: Buffer | undefined] | undefined;

const one = <T>(of: readonly T[], process: Process): T | undefined =>
  of[process.draw(Math.max(1, of.length))];
const keysUnder = ({ store }: World, prefix: string) =>
  [...store.objects.keys()].filter((key) => key.startsWith(prefix));
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
  (world, process) => {
    const key = one([...world.store.objects.keys()], process);
    return key === undefined ? undefined : [key];
  },
  // leaves only the beginning of something, as a disk does that loses its power
  (world, process) => {
    const key = one([...world.store.objects.keys()], process);
    if (key === undefined) return undefined;
    const { bytes } = world.store.objects.get(key)!;
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
    const key = one([...world.store.past.keys()], process);
    return key === undefined ? undefined : [key, one(world.store.past.get(key)!, process)!];
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
  (world) => [
    layout.collecting("0123456789abcdef"),
    seal({ keys: keysUnder(world, "private/").slice(0, 20) }),
  ],
  // puts one object in the place of another
  (world, process) => {
    const keys = [...world.store.objects.keys()];
    const [key, other] = [one(keys, process), one(keys, process)];
    return key === undefined || other === undefined
      ? undefined
      : [key, world.store.objects.get(other)!.bytes];
  },
];
