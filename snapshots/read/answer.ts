import { hash } from "node:crypto";
import { historyDays } from "../../schemas/envelopes.ts";
import { Fault } from "../../schemas/errors.ts";
import type { Plan } from "../../schemas/plans.ts";
import { asOfParameter } from "../../schemas/query.ts";
import type { Nearest } from "../../schemas/records.ts";
import { digestPattern } from "../../schemas/shapes.ts";
import { MissingObjectError, unless } from "../store/errors.ts";
import type { ByteRange } from "../store/storage.ts";
import type { Catalog } from "./catalog/catalog.ts";
import type { CommitLog, LogEntry } from "./catalog/commit-log.ts";
import type { Snapshot } from "./catalog/snapshots.ts";
import { dayMilliseconds, invalidParameter, type Parameters, timeOf } from "./parameters.ts";

/** A query that was understood, before any of its work is done. */
export interface Asked<Plan> {
  commit: LogEntry;
  etag: string;
  plan(): Promise<Plan>;
}

/**
 * A weak entity tag, equal for the same `parts` in every process. Nobody outside can compute it: it depends on the hash
 * of the manifest, which no answer reveals and which covers the digests of the source's rows.
 */
export function weakTag({ manifest }: LogEntry, ...parts: readonly (string | number)[]): string {
  const digest = hash("sha256", JSON.stringify([manifest.hash, ...parts]), "base64url");
  return `W/"${digest.slice(0, 27)}"`;
}

/** A snapshot by its id, or the one that was current at a time (epoch milliseconds). */
export type AsOf = { snapshotId: string } | { time: number };

/** Undefined without the parameter (INTERFACE 4.10). A cursor pins its own snapshot. */
export function parseAsOf(parameters: Parameters): AsOf | undefined {
  const { name } = asOfParameter;
  const text = parameters.get(name);
  if (text === undefined) return undefined;
  if (parameters.has("cursor"))
    throw invalidParameter(
      name,
      `${name} and cursor exclude each other; a cursor goes on in its own snapshot.`,
    );
  if (digestPattern.test(text)) return { snapshotId: text };
  return { time: timeOf(name, text, dayMilliseconds - 1, "a snapshot id, 64 lower-case hex digits, or ") };
}

/** The commit that `asOf` means (INTERFACE 4.10), which may have been collected; without it the current one. */
export async function commitAsOf(catalog: Catalog, asOf: AsOf | undefined): Promise<LogEntry> {
  const { commit: current } = catalog.requireCurrent();
  if (!asOf) return current;
  const { log } = catalog;
  if ("time" in asOf) {
    if (asOf.time >= log.now()) return current;
    const time = new Date(asOf.time).toISOString();
    const commit = await log.at(time);
    if (commit) return keptOf(catalog, commit, time);
    throw neverPublished("Nothing was published at or before this time");
  }
  const commit = await namedCommit(catalog, asOf.snapshotId);
  if (!commit) throw neverPublished("No snapshot of this id was ever published");
  if (log.isWithdrawn(commit.commit))
    throw await expired(log, commit, "The snapshot was withdrawn by a rollback");
  return commit;
}

const neverPublished = (what: string) =>
  new Fault("SNAPSHOT_NOT_FOUND", `${what}; GET /api/v1/snapshots lists what can be read.`, {
    parameter: asOfParameter.name,
  });

/** The newest commit with a snapshot that is kept, or else the newest, if possible one that was not withdrawn. */
async function namedCommit(catalog: Catalog, snapshotId: string): Promise<LogEntry | undefined> {
  const { log } = catalog;
  const isNamed = (entry: LogEntry) => entry.snapshotId === snapshotId;
  const stands = (entry: LogEntry) => isNamed(entry) && !log.isWithdrawn(entry.commit);
  const newest = await log.find(stands);
  return newest ? keptOf(catalog, newest) : log.newestWith(isNamed);
}

/**
 * A commit or, once it was collected, the newest one with its snapshot that is kept, if there is one published at or
 * before `latest`. An older one, with an index of its own, may be kept for longer as the last of its day.
 */
export async function keptOf(catalog: Catalog, commit: LogEntry, latest?: string): Promise<LogEntry> {
  if (await unless(MissingObjectError, () => catalog.listed(commit))) return commit;
  const isSame = ({ snapshotId, publishedAt }: LogEntry) =>
    snapshotId === commit.snapshotId && (latest === undefined || publishedAt <= latest);
  return (await catalog.log.readable()).find(isSame) ?? commit;
}

export function readSnapshot<T>(
  catalog: Catalog,
  commit: LogEntry,
  read: (snapshot: Snapshot) => Promise<T>,
): Promise<T> {
  return whileKept(catalog, commit, async () => read(await catalog.snapshot(commit)));
}

/** Works on the snapshot of a commit, which a collection may delete meanwhile. Then throws what `gone` makes. */
export async function whileKept<T>(
  catalog: Catalog,
  commit: LogEntry,
  work: () => Promise<T>,
  gone: () => Promise<Error> = () => expired(catalog.log, commit, "The snapshot is no longer kept"),
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isCurrent = commit.digest === catalog.current()?.commit.digest;
    if (isCurrent || !(error instanceof MissingObjectError)) throw error;
    throw await gone();
  }
}

async function expired(log: CommitLog, { commit }: LogEntry, reason: string): Promise<Fault> {
  const readable = await log.readable();
  const nearest: Nearest = {
    before: named(readable.find((entry) => entry.commit < commit)),
    after: named(readable.findLast((entry) => entry.commit > commit)),
  };
  return new Fault(
    "SNAPSHOT_EXPIRED",
    `${reason}. nearest names those before and after it that can be read; GET /api/v1/snapshots lists all.`,
    { parameter: asOfParameter.name, nearest },
  );
}

function named(entry: LogEntry | undefined): Nearest["before"] {
  return entry ? { snapshotId: entry.snapshotId, publishedAt: entry.publishedAt } : null;
}

/** When the snapshot of an id was published, in epoch milliseconds; undefined for an unknown one. */
export async function publishedAt(catalog: Catalog, snapshotId: string): Promise<number | undefined> {
  const commit = await namedCommit(catalog, snapshotId);
  return commit && Date.parse(commit.publishedAt);
}

/**
 * The plan that looking back at scores to a time takes (INTERFACE 5.2): Developer as far back as a history goes, Aegis
 * beyond.
 */
export function planSince(time: number | undefined, now: number): Plan {
  const aegis = time !== undefined && time < now - historyDays * dayMilliseconds;
  return aegis ? "aegis" : "developer";
}

/** A chunk of an answer of any length. `count` is its number of rows or bytes. */
export interface StreamChunk {
  count: number;
  text: Buffer;
}

/** An answer of any length, read only as fast as it is sent. */
export interface Stream {
  /** Rows or bytes. */
  count: number;
  read(): AsyncGenerator<StreamChunk, void, void>;
  /** One gzip member, where that can be put together from stored pieces. */
  readGzip?(): AsyncGenerator<StreamChunk, void, void>;
  /** The way out for a caller whose quota does not pay for the whole stream. */
  advice: string;
}

/** The bytes behind a name never change. */
export interface StoredFile {
  /** A SHA-256 that stands for the bytes. */
  hash: string;
  bytes: number;
  contentType: string;
  /** Whether ranges can be asked for. */
  ranges: boolean;
  read(range: ByteRange): Stream;
}

/**
 * Begins to read an answer. It is `compressed` if gzip is wanted and can be put together from stored pieces. Settles
 * with the first chunk at hand; the others are read only when they are asked for.
 */
export async function beginStream(
  stream: Stream,
  { gzip }: { gzip: boolean },
): Promise<{ chunks: AsyncGenerator<StreamChunk>; compressed: boolean }> {
  const compressed = gzip && stream.readGzip !== undefined;
  const chunks = compressed ? stream.readGzip!() : stream.read();
  const first = await chunks.next();
  async function* all() {
    if (!first.done) yield first.value;
    yield* chunks;
  }
  return { chunks: all(), compressed };
}
