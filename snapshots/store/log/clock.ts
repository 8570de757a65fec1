import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { layout } from "../layout.ts";
import { type Storage, StorageError } from "../storage.ts";

/** The clocks of publisher, scorer and store may differ by this many milliseconds. */
export const clockTolerance = 5 * 60_000;

/** By the store's clock, or by this machine's while the store's is not known. */
function timeOf({ clockAhead }: Storage, now: Date): Date {
  return new Date(now.getTime() + (clockAhead?.() ?? 0));
}

/** Epoch milliseconds by the store's clock; 0 where the store never tells it. */
export function storeTime(storage: Storage): number {
  return storage.clockAhead ? timeOf(storage, new Date()).getTime() : 0;
}

/**
 * When a commit after `current` counts as published (ISO 8601): now, or at the time of `current` where this machine's
 * clock is behind that. Times of the log never go back, so that every time belongs to one commit. Warns when it lies
 * ahead of the store's clock, since no later commit can have an earlier time.
 */
export function publicationTime(
  storage: Storage,
  current: Commit | undefined,
  { now, warn = () => {} }: { now: () => Date; warn?: ((line: string) => void) | undefined },
): string {
  const machine = now();
  const [own, store] = [machine.toISOString(), timeOf(storage, machine)];
  const time = current && current.entry.publishedAt > own ? current.entry.publishedAt : own;
  if (Date.parse(time) > store.getTime() + clockTolerance)
    warn(
      `commit ${(current?.entry.commit ?? 0) + 1} gets the time ${time}, and no later commit gets an earlier one; ` +
        `but the store's clock says ${store.toISOString()}, and this machine's ${machine.toISOString()}`,
    );
  return time;
}

/** Both clocks, for messages about times that lie in the future. */
export async function describeClocks(storage: Storage, machine: Date): Promise<string> {
  let store = timeOf(storage, machine);
  // A directory reveals its clock only when something is written. Its newest run tells at least a time that has passed.
  for await (const { modified } of storage.list(layout.checked)) if (modified > store) store = modified;
  return `this machine's clock says ${machine.toISOString()}, and the store's ${store.toISOString()}`;
}

/**
 * Age is judged by this machine's clock. Refuses when that is more than an hour ahead of the store's, as far as the
 * store's is known.
 */
export function requireClock(storage: Storage): void {
  const machine = new Date();
  const store = timeOf(storage, machine);
  if (machine.getTime() - store.getTime() <= 3_600_000) return;
  throw new StorageError(
    `${storage.location}: this machine's clock says ${machine.toISOString()}, and the store's ` +
      `${store.toISOString()}. What is old is judged by the first, so nothing is deleted; set it right, and run gc again`,
  );
}
