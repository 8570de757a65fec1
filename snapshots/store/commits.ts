import { Commit, Head } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "./corrupt-object.ts";
import { layout } from "./layout.ts";
import { seal, unseal } from "./sealed.ts";
import { type Storage, StorageError } from "./storage.ts";

/** Sealed records are small; anything larger is not one. */
const maxRecordBytes = 64 * 1024;

/** One commit of the log; undefined when the store has none of that number. Throws CorruptObjectError. */
export async function readCommit(storage: Storage, number: number): Promise<Commit | undefined> {
  const key = layout.commit(number);
  const bytes = await storage.get(key, { maxBytes: maxRecordBytes });
  if (!bytes) return undefined;
  const commit = unseal(key, bytes, Commit);
  if (commit.commit !== number) throw new CorruptObjectError(key, `it holds commit ${commit.commit}`);
  return commit;
}

/**
 * The newest commit: from head.json's hint upwards, or from `known` when that is newer. A hint that is missing or
 * unreadable costs a listing, nothing else.
 */
export async function newestCommit(storage: Storage, known = 0): Promise<Commit | undefined> {
  const hint = Math.max(known, (await readHead(storage)) ?? 0);
  let newest = hint > 0 ? await readCommit(storage, hint) : undefined;
  newest ??= await readCommit(storage, await newestListed(storage));
  if (!newest) return undefined;
  // A publisher may have been stopped between its commit and the hint.
  for (;;) {
    const next = await readCommit(storage, newest.commit + 1);
    if (!next) return newest;
    newest = next;
  }
}

async function readHead(storage: Storage): Promise<number | undefined> {
  try {
    const bytes = await storage.get(layout.head, { maxBytes: maxRecordBytes });
    return bytes && unseal(layout.head, bytes, Head).commit;
  } catch (error) {
    if (error instanceof CorruptObjectError) return undefined;
    throw error;
  }
}

async function newestListed(storage: Storage): Promise<number> {
  return Math.max(0, ...(await listCommits(storage)));
}

/** The numbers of all commits in the store, ascending. */
export async function listCommits(storage: Storage): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { key } of storage.list(layout.commits)) {
    const number = Number(/^commits\/(\d{10})\.json$/.exec(key)?.[1]);
    if (number > 0) numbers.push(number);
  }
  return numbers.sort((a, b) => a - b);
}

/** Another publisher took the commit number first. Nothing of it is lost; the next run goes on from there. */
export class CommitLostError extends Error {
  override readonly name = "CommitLostError";
}

/** The store took the commit or did not, and cannot be asked. Nothing may be cleaned up; the next run finds out. */
export class CommitUnknownError extends Error {
  override readonly name = "CommitUnknownError";
}

/**
 * Puts a commit under its number, which is the compare-and-swap of the whole store.
 * Throws CommitLostError or CommitUnknownError; when it returns, the commit is there.
 */
export async function appendCommit(storage: Storage, content: Omit<Commit, "digest">): Promise<Commit> {
  const key = layout.commit(content.commit);
  const bytes = seal(content);
  const created = await storage.putIfAbsent(key, bytes).catch((error) => {
    if (error instanceof StorageError) return error;
    throw error;
  });
  // "Exists already" may be an answer to our own second try, and an error may have come after the work was done.
  if (created !== true && !(await isStored(storage, key, bytes, created))) {
    const { location } = storage;
    throw new CommitLostError(`${location}: another publisher made commit ${content.commit} first`);
  }
  return unseal(key, bytes, Commit);
}

async function isStored(
  storage: Storage,
  key: string,
  bytes: Buffer,
  failure: StorageError | false,
): Promise<boolean> {
  const unknown = (cause: unknown) =>
    new CommitUnknownError(
      `${storage.location}: whether ${key} was stored is unknown; run again to find out`,
      { cause },
    );
  const stored = await storage.get(key, { maxBytes: maxRecordBytes }).catch((error) => {
    throw unknown(error);
  });
  if (stored) return stored.equals(bytes);
  throw unknown(failure);
}
