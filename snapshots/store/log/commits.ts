import { setTimeout as delay } from "node:timers/promises";
import { Fault } from "../../../schemas/errors.ts";
import { Checked, Commit, type CommitEntry } from "../../../schemas/store/stored-objects.ts";
import { CorruptObjectError, MissingObjectError, unless } from "../errors.ts";
import { inOrder } from "../in-parallel.ts";
import { commitNumberIn, layout, maxRecordBytes } from "../layout.ts";
import { readRecord, type Signature, seal, unseal } from "../objects.ts";
import { type Storage, StorageError } from "../storage.ts";

/** Undefined when there is no commit of this number. */
export async function readCommit(storage: Storage, number: number): Promise<Commit | undefined> {
  const commit = await readRecord(storage, layout.commit, [number]);
  if (commit && commit.entry.commit !== number)
    throw new CorruptObjectError(layout.commit(number), `it holds commit ${commit.entry.commit}`);
  return commit;
}

/**
 * Undefined in an empty store. The search starts at the number `hint`, or else at the commit that checked.json names.
 * Where the store lacks that commit, or many follow it, all are listed.
 */
export async function newestCommit(storage: Storage, hint?: number): Promise<Commit | undefined> {
  const start = hint ?? (await readChecked(storage))?.commit ?? 0;
  const last = start > 0 ? await lastFrom(storage, start) : undefined;
  const isLast = last && last.entry.commit < start + mostSteps;
  return isLast ? last : lastFrom(storage, (await listCommits(storage)).at(-1) ?? 0);
}

/** After so many commits that follow a hint, the others are listed, which takes fewer requests. */
const mostSteps = 32;

/**
 * Undefined when there is no commit of this number. There may be later ones: a publisher may have been killed after it
 * wrote its commit and before it recorded its run.
 */
async function lastFrom(storage: Storage, number: number): Promise<Commit | undefined> {
  // Both at once, since the first is nearly always there.
  const [commit, next] = await Promise.allSettled([
    readCommit(storage, number),
    readCommit(storage, number + 1),
  ]);
  if (commit.status === "rejected") throw commit.reason;
  if (!commit.value) return undefined;
  if (next.status === "rejected") throw next.reason;
  return next.value ? lastAfter(storage, next.value, number + mostSteps) : commit.value;
}

/** The last of the commits that follow `start`, or `start` itself. Goes no further than the number `highest`. */
export async function lastAfter(
  storage: Storage,
  start: Commit,
  highest = Number.POSITIVE_INFINITY,
): Promise<Commit> {
  let last = start;
  while (last.entry.commit < highest) {
    const next = await readCommit(storage, last.entry.commit + 1);
    if (!next) break;
    last = next;
  }
  return last;
}

/** The newest publish run as checked.json records it, whoever wrote that; undefined when it cannot be read. */
export function readChecked(storage: Storage): Promise<Checked | undefined> {
  return unless(CorruptObjectError, async () => {
    const bytes = await storage.get(layout.checked, { maxBytes: maxRecordBytes });
    return bytes && unseal(layout.checked, bytes, Checked);
  });
}

/** Ascending. */
export async function listCommits(storage: Storage): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { key } of storage.list(layout.commit.prefix)) {
    const number = commitNumberIn(key);
    if (number !== undefined) numbers.push(number);
  }
  return numbers.sort((a, b) => a - b);
}

/** The first and the last number of each gap, from `begins` on. */
export function gapsIn(numbers: readonly number[], begins = 1): [first: number, last: number][] {
  return numbers.flatMap((number, index): [number, number][] => {
    const first = Math.max(begins, (numbers[index - 1] ?? 0) + 1);
    return first < number ? [[first, number - 1]] : [];
  });
}

/** Whether the newest commit says that a rollback withdrew a commit. */
export const isWithdrawn = (commit: number, newest: Pick<CommitEntry, "withdrawn"> | undefined): boolean =>
  newest?.withdrawn.some(([first, last]) => first <= commit && commit <= last) ?? false;

/**
 * What a commit that withdraws those from `first` up to `newest` says of all withdrawn ones: ranges that touch are
 * joined. Later commits repeat it, so it may be no longer than three quarters of a commit.
 */
export function withdraw(
  { location }: Storage,
  { commit, withdrawn }: Pick<CommitEntry, "commit" | "withdrawn">,
  first: number,
): CommitEntry["withdrawn"] {
  const ranges = first > commit ? withdrawn : [...withdrawn, [first, commit] as const];
  const joined: CommitEntry["withdrawn"] = [];
  for (const [first, last] of ranges.toSorted(([a], [b]) => a - b)) {
    const before = joined.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else joined.push([first, last]);
  }
  if (JSON.stringify(joined).length > 0.75 * layout.commit.maxBytes)
    throw commitTooLarge(location, commit + 1, joined.length);
  return joined;
}

function commitTooLarge(location: string, commit: number, ranges: number): Fault {
  return new Fault(
    "COMMIT_TOO_LARGE",
    `${location}: commit ${commit} would list ${ranges} ranges of withdrawn commits, and be larger than readers ` +
      "take; roll back to a commit before many of them, which makes one range of those, or publish into a new store",
  );
}

/** Oldest first, including commits to which the log does not lead. */
export async function readLog(storage: Storage): Promise<Commit[]> {
  const numbers = await listCommits(storage);
  const commits: Commit[] = [];
  // One after the other, a remote store's latency would make a long log take minutes.
  for await (const commit of inOrder(numbers, (number) => readCommit(storage, number)))
    if (commit) commits.push(commit);
  return commits;
}

/** A commit before it is sealed. */
export type CommitContent = Omit<Commit, "digest" | "note">;

export type SignCommit = (commit: CommitContent & { digest: string }) => Signature;

/**
 * Creates a commit unless its number is taken: the store's one compare-and-swap. Once this returns, the commit is
 * stored.
 */
export async function appendCommit(
  storage: Storage,
  content: CommitContent,
  sign: SignCommit = () => ({}),
): Promise<Commit> {
  const key = layout.commit(content.entry.commit);
  const bytes = seal(content, (digest) => sign({ ...content, digest }));
  const { commit, withdrawn } = content.entry;
  if (bytes.length > layout.commit.maxBytes) throw commitTooLarge(storage.location, commit, withdrawn.length);
  const begun = performance.now();
  const created = await storage.putIfAbsent(key, bytes).catch((error) => {
    if (error instanceof StorageError) return error;
    throw error;
  });
  // Some stores check first and write later. Another writer that passed the check before this was written is done after
  // about as long again.
  if (created === true) await delay(Math.min(2 * (performance.now() - begun), maxMoment));
  // "Already exists" may refer to our own earlier attempt, and an error may have occurred after the object was stored.
  const unknown = (cause: unknown) =>
    new Fault(
      "COMMIT_UNKNOWN",
      `${storage.location}: whether ${key} was stored is unknown; run again to find out`,
      { cause },
    );
  const stored = await storage.get(key, { maxBytes: layout.commit.maxBytes, fresh: true }).catch((error) => {
    throw unknown(error);
  });
  if (!stored) throw unknown(created);
  if (stored.equals(bytes)) return unseal(key, bytes, Commit);
  const when = created === true ? "at the same time, and the store kept that" : "first";
  throw new Fault(
    "COMMIT_LOST",
    `${storage.location}: another publisher made commit ${content.entry.commit} ${when}`,
  );
}

/** The longest wait before a commit is read back, in milliseconds. */
const maxMoment = 10_000;

const fetchedAtOnce = 32;

/**
 * A commit and those that it leads back to, newest first, down to number `lowest`. Each has the digest that its
 * successor names. Throws ObjectError where the log leads no further.
 */
export async function* logFrom(storage: Storage, newest: Commit, lowest = 1): AsyncGenerator<Commit> {
  yield newest;
  for (let oldest = newest; oldest.entry.commit > lowest; ) {
    const commits = await commitsBefore(storage, oldest, lowest);
    yield* commits;
    oldest = commits.at(-1)!;
  }
}

/**
 * The commits before `successor`, newest first: at least one, at most as many as are fetched at a time, none below
 * number `lowest`.
 */
export async function commitsBefore(storage: Storage, successor: Commit, lowest = 1): Promise<Commit[]> {
  const count = Math.min(fetchedAtOnce, successor.entry.commit - lowest);
  const numbers = Array.from({ length: count }, (_, index) => successor.entry.commit - 1 - index);
  const commits: Commit[] = [];
  try {
    for await (const commit of inOrder(numbers, (number) => readPresent(storage, number))) {
      const { previous } = commits.at(-1) ?? successor;
      const reason = "it is not the one that the next commit follows";
      if (commit.digest !== previous)
        throw new CorruptObjectError(layout.commit(commit.entry.commit), reason);
      commits.push(commit);
    }
  } catch (error) {
    // The commits before the fault count. The next call meets the fault first.
    if (commits.length === 0) throw error;
  }
  return commits;
}

export async function readPresent(storage: Storage, number: number): Promise<Commit> {
  const commit = await readCommit(storage, number);
  if (!commit) throw new MissingObjectError(layout.commit(number));
  return commit;
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

/** The clocks of publisher, scorer and store may differ by this many milliseconds. */
export const clockTolerance = 5 * 60_000;

/** By the store's clock, or by this machine's while the store's is not known. */
export function timeOf({ clockAhead }: Storage, now: Date): Date {
  return new Date(now.getTime() + (clockAhead?.() ?? 0));
}
