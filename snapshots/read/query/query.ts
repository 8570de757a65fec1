import { z } from "zod";
import { Fault } from "../../../schemas/errors.ts";
import { type FacetName, facetLimit, facetNames, paging } from "../../../schemas/filters.ts";
import { marketIdPattern } from "../../../schemas/market.ts";
import {
  asOfParameter,
  idParameter,
  maxCursorLength,
  maxIndexParts,
  partsParameter,
} from "../../../schemas/query.ts";
import { digestPattern } from "../../../schemas/shapes.ts";
import type { MarketKey } from "../../format/market-line.ts";
import {
  type ArchiveFilter,
  dayMilliseconds,
  invalidParameter,
  optionalInteger,
  type Parameters,
  parseCanonicalFilter,
  parseFacetNames,
  parseFilter,
  timeOf,
} from "./parameters.ts";

/** A snapshot by its id, or the one that was current at a time (epoch milliseconds). */
export type AsOf = { snapshotId: string } | { time: number };

/** A query of GET /api/v1/markets/historical. What the caller left out is undefined. */
export interface ArchiveQuery {
  filter: ArchiveFilter;
  page: number | undefined;
  pageSize: number | undefined;
  cursor: string | undefined;
  asOf: AsOf | undefined;
}

/** A query of the same address for all rows in one answer. */
export interface RowsQuery extends ArchiveQuery {
  /** Matches behind the cursor that the caller has already. */
  skip: number;
}

/** A query of GET /api/v1/markets/facets. */
export interface FacetQuery {
  filter: ArchiveFilter;
  /** In the order asked, each once. */
  by: FacetName[];
  limit: number;
  asOf: AsOf | undefined;
}

/** A query of GET /api/v1/markets/changes. */
export interface ChangesQuery {
  /** Snapshot ids; without `until` the current one is meant. */
  since: string;
  until: string | undefined;
  /** Lines of the answer that the caller has already. */
  skip: number;
}

export function snapshotIdOf(parameters: Parameters, name: "since" | "until"): string | undefined {
  const id = parameters.get(name);
  if (id === undefined || digestPattern.test(id)) return id;
  throw invalidParameter(name, `${name} must be a snapshot id, 64 lower-case hex digits.`);
}

/** INTERFACE 4.8. */
export function parseChangesQuery(parameters: Parameters): ChangesQuery {
  const [since, until] = [snapshotIdOf(parameters, "since"), snapshotIdOf(parameters, "until")];
  if (since === undefined)
    throw invalidParameter("since", "since is missing: the id of the snapshot that your copy has.");
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && until === undefined)
    throw invalidParameter("skip", "skip counts lines of one answer: give its X-Snapshot-Id as until, too.");
  return { since, until, skip: skip ?? 0 };
}

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

/** The id that is asked for (INTERFACE 4.12). */
export function parseAbsenceQuery(parameters: Parameters): string {
  const { name } = idParameter;
  const id = parameters.get(name) ?? "";
  if (marketIdPattern.test(id)) return id;
  throw invalidParameter(name, `${name} must be given: the id of a market, a UUID in lower case.`);
}

/** The hashes, in the order asked (INTERFACE 4.12). */
export function parsePartsQuery(parameters: Parameters): string[] {
  const { name } = partsParameter;
  const hashes = parameters.get(name)?.split(",") ?? [];
  const sound = hashes.length > 0 && hashes.every((hash) => digestPattern.test(hash));
  if (!sound || hashes.length > maxIndexParts)
    throw invalidParameter(
      name,
      `${name} must be 1 to ${maxIndexParts} hashes of 64 lower-case hex digits, separated by commas.`,
    );
  if (new Set(hashes).size === hashes.length) return hashes;
  throw invalidParameter(name, `${name} names a hash more than once; once is enough.`);
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

const archiveQueryOf = (parameters: Parameters, asOf: AsOf | undefined): ArchiveQuery => ({
  filter: parseFilter(parameters),
  page: optionalInteger(parameters, "page", 1, paging.maxPage),
  pageSize: optionalInteger(parameters, "pageSize", 1, paging.maxPageSize),
  cursor: parameters.get("cursor"),
  asOf,
});

/** For all rows in one answer. */
export function parseRowsQuery(parameters: Parameters, asOf?: AsOf): RowsQuery {
  for (const name of ["page", "pageSize"]) {
    if (parameters.has(name))
      throw invalidParameter(
        name,
        `${name} belongs to pages of JSON; an answer in NDJSON or CSV has all rows. Leave it out.`,
      );
  }
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && !parameters.has("cursor"))
    throw invalidParameter(
      "skip",
      "skip counts markets behind a cursor: give the X-Cursor they came with, too.",
    );
  return { ...archiveQueryOf(parameters, asOf), skip: skip ?? 0 };
}

/** INTERFACE 4.7. */
export function parseFacetQuery(parameters: Parameters, asOf?: AsOf): FacetQuery {
  const text = parameters.get("by");
  if (text === undefined)
    throw invalidParameter(
      "by",
      `by is missing: one of ${facetNames.join(", ")}, or several separated by commas.`,
    );
  return {
    filter: parseFilter(parameters),
    by: parseFacetNames(text),
    limit: optionalInteger(parameters, "limit", 1, facetLimit.max) ?? facetLimit.otherwise,
    asOf,
  };
}

/** Where a walk through one snapshot continues. A cursor is not secret and grants no rights. */
export interface Cursor {
  commit: number;
  snapshotId: string;
  /** Ordinal of the last market returned; the archive's number of markets when none was returned yet. */
  ordinal: number;
  /** Key of that market; time 0 and id "" when none was returned yet. */
  after: MarketKey;
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

export function encodeCursor({ commit, snapshotId, ordinal, after, pageSize, filter }: Cursor): string {
  const fields: z.infer<typeof Fields> = [
    commit,
    snapshotId,
    ordinal,
    after.resolvedAt,
    after.id,
    pageSize,
    filter.canonical,
  ];
  return Buffer.from(JSON.stringify(fields)).toString("base64url");
}

export function decodeCursor(text: string): Cursor {
  if (text.length > maxCursorLength) throw invalidCursor();
  try {
    const json: unknown = JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
    const [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical] = Fields.parse(json);
    const filter = parseCanonicalFilter(canonical);
    const cursor = { commit, snapshotId, ordinal, after: { resolvedAt, id }, pageSize, filter };
    // Node's decoder skips invalid characters and JSON allows spaces, so only the canonical spelling is accepted.
    if (encodeCursor(cursor) === text) return cursor;
  } catch {
    // The caller gets the same answer whatever is wrong with the cursor.
  }
  throw invalidCursor();
}

/** No reader of this store gave out the cursor, or not in this form. */
export const invalidCursor = () =>
  new Fault(
    "INVALID_CURSOR",
    "The cursor is not one this service gave out; pass nextCursor as it is, or start without a cursor.",
    { parameter: "cursor" },
  );
