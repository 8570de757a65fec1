import { ServiceError } from "../../schemas/errors.ts";
import { paging } from "../../schemas/filters.ts";
import type { RowsQuery } from "../../schemas/query.ts";
import type { Catalog, Snapshot } from "./catalog.ts";
import { encodeCursor } from "./cursor.ts";
import { Lines } from "./lines.ts";
import { cursorAt, type Position, planAt, storeFaultsAs503, weakTag } from "./paging.ts";

/** Rows as they are read at once: one JSON text per line, each with its line end. */
export interface RowsChunk {
  count: number;
  text: Buffer;
}

/** All that match from one place on, in the archive's order, decided before the first of them is read. */
export interface RowsPlan {
  snapshot: Snapshot;
  /** Weak entity tag: equal for every answer with the same rows. */
  etag: string;
  /** Markets that match, those before this place included. */
  total: number;
  /** Rows from this place on. */
  count: number;
  /** This place, as a cursor. */
  cursor: string;
  /** Reads the next rows only when they are asked for. Throws ServiceError SNAPSHOT_UNAVAILABLE. */
  read(): AsyncGenerator<RowsChunk, void, void>;
}

// Rows whose stored pages are fetched side by side: one after the other, a store far away would set the pace.
const rowsFetched = paging.maxPageSize;
// Rare matches lie in as many pages as they are rows, each with a run to be inflated: this bounds the memory of an
// answer, whatever is asked for.
const rowsAtOnce = rowsFetched / 4;

/**
 * Finds what a query asks for in one answer. Throws ServiceError as planPage does, and INVALID_PARAMETER when more are
 * to be skipped than there are.
 */
export async function planRows(catalog: Catalog, query: RowsQuery): Promise<RowsPlan> {
  const { skip } = query;
  try {
    return await planAt(catalog, query, (start) => planFrom(catalog, start, skip));
  } catch (error) {
    throw skip > 0 && error instanceof ServiceError && error.code === "CURSOR_EXPIRED" ? gone() : error;
  }
}

async function planFrom(catalog: Catalog, start: Position, skip: number): Promise<RowsPlan> {
  const { snapshot, filter, matches } = start;
  const left = matches.total - start.skip;
  if (skip > left) {
    const detail = `skip is more than the ${left} markets behind the cursor.`;
    throw new ServiceError("INVALID_PARAMETER", detail, { parameter: "skip" });
  }
  const position = { ...start, skip: start.skip + skip };
  return {
    snapshot,
    etag: weakTag(snapshot.commit.digest, filter.canonical, position.skip, "rows"),
    total: matches.total,
    count: left - skip,
    cursor: encodeCursor(await cursorAt(catalog, position)),
    read: () => readFrom(catalog, position),
  };
}

async function* readFrom(catalog: Catalog, { snapshot, matches, skip }: Position) {
  const read = (ordinals: readonly number[]) => Lines.read(snapshot.archive, ordinals, catalog);
  for (let at = skip; at < matches.total; at += rowsFetched) {
    const ordinals = matches.slice(at, rowsFetched);
    await storeFaultsAs503(() => read(ordinals));
    for (let from = 0; from < ordinals.length; from += rowsAtOnce) {
      const some = ordinals.slice(from, from + rowsAtOnce);
      yield { count: some.length, text: await storeFaultsAs503(async () => textOf(await read(some))) };
    }
  }
}

const lineEnd = Buffer.from("\n");

async function textOf(lines: Lines): Promise<Buffer> {
  return Buffer.concat((await lines.all()).flatMap((line) => [line, lineEnd]));
}

/** What was skipped is known only in the snapshot that is gone, so there is no place to go on at in another. */
function gone(): ServiceError {
  const detail =
    "The snapshot of this cursor is no longer kept, and skip counts lines of that one; start again without a cursor.";
  return new ServiceError("CURSOR_EXPIRED", detail, { parameter: "cursor" });
}
