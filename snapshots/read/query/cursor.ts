import { z } from "zod";
import { paging } from "../../../schemas/filters.ts";
import { maxCursorLength } from "../../../schemas/query.ts";
import type { MarketKey } from "../../format/market-line.ts";
import { invalidCursor } from "../errors.ts";
import { type ArchiveFilter, parseCanonicalFilter } from "./filter.ts";

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
