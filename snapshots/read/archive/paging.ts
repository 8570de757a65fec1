import { z } from "zod";
import { Fault } from "../../../schemas/errors.ts";
import { paging } from "../../../schemas/filters.ts";
import { maxCursorLength } from "../../../schemas/query.ts";
import { gzipAround, type Spliced } from "../../format/gzip.ts";
import { compareKeys, type MarketKey } from "../../format/market-line.ts";
import { type Asked, type AsOf, commitAsOf, keptOf, weakTag, whileKept } from "../answer.ts";
import { awaitBudget } from "../budgets.ts";
import type { PlannedPage } from "../catalog/caches.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import type { Snapshot } from "../catalog/snapshots.ts";
import {
  type ArchiveFilter,
  invalidParameter,
  optionalInteger,
  type Parameters,
  parseCanonicalFilter,
  parseFilter,
} from "../parameters.ts";
import { evaluate, type Matches } from "./evaluate.ts";
import { type Lines, readLines } from "./lines.ts";

/** A query of GET /api/v1/markets/historical. What the caller left out is undefined. */
export interface ArchiveQuery {
  filter: ArchiveFilter;
  page: number | undefined;
  pageSize: number | undefined;
  cursor: string | undefined;
  asOf: AsOf | undefined;
}

/** INTERFACE 4.5. Nothing is clamped or ignored. */
export function parseArchiveQuery(parameters: Parameters, asOf?: AsOf): ArchiveQuery {
  if (parameters.has("skip"))
    throw invalidParameter(
      "skip",
      "skip goes on with an answer in NDJSON or CSV; ask for one with Accept, or leave it out.",
    );
  const query = archiveQueryOf(parameters, asOf);
  if (query.cursor !== undefined && query.page !== undefined) {
    throw invalidParameter(
      "page",
      "page and cursor exclude each other; a cursor already says where to go on.",
    );
  }
  return query;
}

/** What queries of pages and of all rows have in common. */
export const archiveQueryOf = (parameters: Parameters, asOf: AsOf | undefined): ArchiveQuery => ({
  filter: parseFilter(parameters),
  page: optionalInteger(parameters, "page", 1, paging.maxPage),
  pageSize: optionalInteger(parameters, "pageSize", 1, paging.maxPageSize),
  cursor: parameters.get("cursor"),
  asOf,
});

/** A planned archive page. Its headers are known before its body is built. */
export interface PagePlan {
  /** Null on the last page. */
  nextCursor: string | null;
  /** The whole body in parts: one gzip member with `gzip`, plain JSON without. */
  body(envelope: { tier: string; timestamp: string; gzip: boolean }): Promise<readonly Buffer[]>;
}

/** A response begins after the first `skip` matches. */
export interface Position {
  snapshot: Snapshot;
  filter: ArchiveFilter;
  matches: Matches;
  skip: number;
  pageSize: number;
}

/** A cursor pins the snapshot that it was issued for. */
export async function askPage(catalog: Catalog, query: ArchiveQuery): Promise<Asked<PagePlan>> {
  const { filter, page: number = 1, cursor = "" } = query;
  const { pageSize = cursor ? "" : paging.defaultPageSize } = query;
  const parts = [number, pageSize, cursor, filter.canonical];
  const first = cursor ? undefined : await startOf(catalog, query);
  // Without a cursor, the same query means another page after a publish, so the commit is part of the name; with one,
  // because a rollback may have withdrawn its snapshot.
  const name = [(first ?? catalog.current())?.commit.digest, ...parts].join(" ");
  const kept = catalog.answers.get(name);
  if (kept) {
    // Its stored pages may have left memory, and a collection may have deleted them since.
    const lines = async () => {
      const start = first ?? (await startOf(catalog, query));
      const read = () => readLines(kept.snapshot.archive, kept.ordinals, catalog);
      return whileStanding(catalog, start, read);
    };
    const plan = async () => planOf(kept, lines, async () => kept.spliced);
    return { commit: kept.snapshot.commit, etag: kept.etag, plan };
  }
  const start = first ?? (await startOf(catalog, query));
  const etag = weakTag(start.commit, ...parts);
  const read = async () => readPage(catalog, await positionOf(catalog, query, start), { etag, name });
  return { commit: start.commit, etag, plan: () => whileStanding(catalog, start, read) };
}

/** `name` is that of the page in the cache of answers. */
async function readPage(
  catalog: Catalog,
  position: Position,
  { etag, name }: { etag: string; name: string },
): Promise<PagePlan> {
  const { snapshot, matches, skip, pageSize } = position;
  const ordinals = matches.slice(skip, pageSize);
  const lines = await readLines(snapshot.archive, ordinals, catalog);
  const more = skip + ordinals.length < matches.total;
  const nextCursor = more ? cursorBehind(position, ordinals.at(-1)!, await lines.lastId()) : null;
  const page = Math.floor(skip / pageSize) + 1;
  const numbers = { count: ordinals.length, total: matches.total, page, pageSize, nextCursor };
  const planned = { snapshot, etag, numbers, ordinals };
  const spliced = async () => {
    const result = await lines.spliced();
    catalog.answers.set(name, { ...planned, spliced: result });
    return result;
  };
  return planOf(planned, async () => lines, spliced);
}

function planOf(
  { snapshot, numbers }: PlannedPage,
  lines: () => Promise<Lines>,
  spliced: () => Promise<Spliced>,
): PagePlan {
  return {
    nextCursor: numbers.nextCursor,
    async body({ tier, timestamp, gzip }) {
      // In the order of INTERFACE 2.7, the markets last.
      const envelope = { version: snapshot.commit.feedVersion, tier, ...numbers, timestamp, markets: [] };
      const head = Buffer.from(JSON.stringify(envelope).slice(0, -closing.length));
      return gzip ? gzipAround(head, await spliced(), closing) : (await lines()).identity(head, closing);
    },
  };
}

const closing = Buffer.from("]}");

/** The commit whose snapshot answers a query, and the query's cursor. */
export interface Start {
  commit: LogEntry;
  cursor?: Cursor;
}

/** Resolves where a query begins, without work on the archive. */
export async function startOf(catalog: Catalog, query: ArchiveQuery): Promise<Start> {
  if (query.cursor === undefined) return { commit: await commitAsOf(catalog, query.asOf) };
  const cursor = decodeCursor(query.cursor);
  requireSameFilter(query.filter, cursor.filter);
  // Whoever goes on may ask for pages of another size.
  cursor.pageSize = query.pageSize ?? cursor.pageSize;
  const commit = await catalog.log.commit(cursor.commit);
  if (commit?.snapshotId === cursor.snapshotId && !catalog.log.isWithdrawn(commit.commit))
    return { commit: await keptOf(catalog, commit), cursor };
  // No cursor was ever issued for a commit beyond the newest. Any other commit's snapshot is gone.
  const { commit: newest } = catalog.requireCurrent();
  const agrees = commit ? commit.snapshotId === cursor.snapshotId : cursor.commit <= newest.commit;
  throw agrees ? await cursorExpired(catalog, cursor) : invalidCursor();
}

/** As whileKept. A cursor can then be replaced by one into the current snapshot. */
export function whileStanding<T>(
  catalog: Catalog,
  { commit, cursor }: Start,
  work: () => Promise<T>,
): Promise<T> {
  return whileKept(catalog, commit, work, cursor && (() => cursorExpired(catalog, cursor)));
}

/** The matches of a query, and where its response begins among them. */
export async function positionOf(
  catalog: Catalog,
  query: ArchiveQuery,
  { commit, cursor }: Start,
): Promise<Position> {
  const snapshot = await catalog.snapshot(commit);
  const { filter, pageSize = paging.defaultPageSize } = cursor ?? query;
  const matches = await evaluate(snapshot.archive, filter, awaitBudget);
  const skip = cursor
    ? await matchesUpTo(catalog, snapshot, matches, cursor)
    : ((query.page ?? 1) - 1) * pageSize;
  return { snapshot, filter, matches, skip, pageSize };
}

/** Counts the matches up to the market that a cursor names. The cursor must agree with its snapshot in every field. */
async function matchesUpTo(
  catalog: Catalog,
  snapshot: Snapshot,
  matches: Matches,
  { ordinal, resolvedAt, id }: Cursor,
): Promise<number> {
  const { archive } = snapshot;
  if (ordinal === archive.markets && id === "" && resolvedAt === 0) return 0;
  if (ordinal >= archive.markets || archive.resolvedAt(ordinal) !== resolvedAt) throw invalidCursor();
  if (!matches.has(ordinal) || (await idAt(catalog, snapshot, ordinal)) !== id) throw invalidCursor();
  return matches.countFrom(ordinal);
}

async function idAt(catalog: Catalog, { archive }: Snapshot, ordinal: number): Promise<string> {
  return (await readLines(archive, [ordinal], catalog)).lastId();
}

/** The cursor behind a market, by its ordinal and id; before the first one, the id is "". */
function cursorBehind({ snapshot, filter, pageSize }: Position, ordinal: number, id: string): string {
  const { commit, snapshotId } = snapshot.commit;
  const resolvedAt = id === "" ? 0 : snapshot.archive.resolvedAt(ordinal);
  return encodeCursor({ commit, snapshotId, ordinal, resolvedAt, id, pageSize, filter });
}

/** Filters sent with a cursor must equal the cursor's own. A caller may leave them all out. */
function requireSameFilter(filter: ArchiveFilter, carried: ArchiveFilter): void {
  if (filter.canonical === "" || filter.canonical === carried.canonical) return;
  const [sent, kept] = [new URLSearchParams(filter.canonical), new URLSearchParams(carried.canonical)];
  const names = new Set([...sent.keys(), ...kept.keys()]);
  const differing = [...names].filter((name) => sent.get(name) !== kept.get(name));
  const show = (value: string | null) => (value === null ? "nothing" : JSON.stringify(value));
  const differences = differing.map(
    (name) => `${name}: the cursor has ${show(kept.get(name))}, not ${show(sent.get(name))}`,
  );
  const detail = `${differences.join("; ")}. Repeat the cursor's filters, leave them out, or start without a cursor.`;
  throw new Fault("CURSOR_MISMATCH", detail, { parameter: differing[0] });
}

/** Resumes in the current snapshot at the first match strictly after the same market. */
async function cursorExpired(catalog: Catalog, cursor: Cursor): Promise<Fault> {
  const { filter, pageSize } = cursor;
  const snapshot = await catalog.snapshot();
  const matches = await evaluate(snapshot.archive, filter, awaitBudget);
  const position = {
    snapshot,
    filter,
    matches,
    pageSize,
    skip: matches.countFrom(await ordinalAtOrAfter(catalog, snapshot, cursor)),
  };
  const resumeCursor = position.skip < matches.total ? await cursorAt(catalog, position) : null;
  const detail = `The snapshot of this cursor is no longer kept. ${
    resumeCursor ? "Go on with resumeCursor in the current one" : "No market follows in the current one"
  }, or start again without a cursor for one consistent archive.`;
  return new Fault("CURSOR_EXPIRED", detail, { parameter: "cursor", resumeCursor });
}

/** The cursor for a position: after the last of its `skip` matches. */
export async function cursorAt(catalog: Catalog, position: Position): Promise<string> {
  const { snapshot, matches, skip } = position;
  if (skip === 0) return cursorBehind(position, snapshot.archive.markets, "");
  const ordinal = matches.slice(skip - 1, 1)[0]!;
  return cursorBehind(position, ordinal, await idAt(catalog, snapshot, ordinal));
}

/** The lowest ordinal whose market has this key or a newer one. */
async function ordinalAtOrAfter(catalog: Catalog, snapshot: Snapshot, key: MarketKey): Promise<number> {
  if (key.id === "") return snapshot.archive.markets;
  let { from, to } = snapshot.archive.resolvedAtExactly(key.resolvedAt);
  while (from < to) {
    const middle = (from + to) >>> 1;
    const middleKey = { resolvedAt: key.resolvedAt, id: await idAt(catalog, snapshot, middle) };
    if (compareKeys(middleKey, key) < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

/**
 * Where a walk through one snapshot continues: behind the market of this key, or with time 0 and id "" before the
 * first. A cursor is not secret and grants no rights.
 */
export interface Cursor extends MarketKey {
  commit: number;
  snapshotId: string;
  /** Ordinal of the last market returned; the archive's number of markets when none was returned yet. */
  ordinal: number;
  pageSize: number;
  filter: ArchiveFilter;
}

const ordinal = z.int().min(0);
const Fields = z.tuple([
  z.int().min(1),
  z.string().regex(/^[0-9a-f]{64}$/),
  ordinal,
  ordinal,
  z.string().regex(/^([0-9a-f-]{36})?$/),
  z.int().min(1).max(paging.maxPageSize),
  z.string(),
]);

export function encodeCursor(cursor: Cursor): string {
  const { commit, snapshotId, ordinal, resolvedAt, id, pageSize, filter } = cursor;
  const fields = [commit, snapshotId, ordinal, resolvedAt, id, pageSize, filter.canonical];
  return Buffer.from(JSON.stringify(fields)).toString("base64url");
}

export function decodeCursor(text: string): Cursor {
  if (text.length > maxCursorLength) throw invalidCursor();
  try {
    const json: unknown = JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
    const [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical] = Fields.parse(json);
    const filter = parseCanonicalFilter(canonical);
    const cursor = { commit, snapshotId, ordinal, resolvedAt, id, pageSize, filter };
    // Node's decoder skips invalid characters and JSON allows spaces, so only the canonical spelling is accepted.
    if (encodeCursor(cursor) === text) return cursor;
  } catch {
    // The caller gets the same answer whatever is wrong with the cursor.
  }
  throw invalidCursor();
}

export const invalidCursor = () =>
  new Fault(
    "INVALID_CURSOR",
    "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    { parameter: "cursor" },
  );
