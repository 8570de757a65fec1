import { vary } from "../../schemas/headers.ts";
import { ndjson } from "../../schemas/media.ts";
import type { PagePlan } from "../../snapshots/read/archive/paging.ts";
import { type RowsForm, type RowsPlan, rowsForms } from "../../snapshots/read/archive/rows.ts";
import type { ChangesPlan } from "../../snapshots/read/changes/changes.ts";
import type { Stream } from "../../snapshots/read/stream.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { Request } from "../exchange.ts";
import type { Reply } from "./reply.ts";

/** A request that names some of a media type's parameters, or none, asks for the first that has them. */
const forms = new Map(rowsForms.flatMap((form) => form.mediaTypes.map((type) => [type, form] as const)));

/** The form of rows that a request prefers to JSON (RFC 9110, 12.5.1), if it does. Throws as requireChunks does. */
export function preferredRows(request: Request): { form: RowsForm; contentType: string } | undefined {
  const contentType = String(request.accepts("application/json", ...forms.keys()));
  const form = forms.get(contentType);
  if (form) requireChunks(request, contentType);
  return form && { form, contentType };
}

/**
 * Throws ServiceError BAD_REQUEST for HTTP/1.0, in which a client could not tell a complete answer from one that was
 * cut off.
 */
export function requireChunks({ httpVersion }: Request, contentType: string): void {
  if (httpVersion !== "1.0") return;
  const detail = `${contentType.split(";")[0]} needs HTTP/1.1, where the end of an answer can be told.`;
  throw new ServiceError("BAD_REQUEST", detail);
}

/** Headers that tell caches that the media type is negotiated. */
export const negotiated = { Vary: `${vary}, Accept` };

/**
 * Header that names the page that follows (RFC 8288). A cursor carries filters and page size, so the target needs no
 * more.
 */
export const nextLink = ({ nextCursor }: Pick<PagePlan, "nextCursor">) =>
  nextCursor === null ? {} : { Link: `<?cursor=${nextCursor}>; rel="next"` };

/** The part of a reply that streams rows. */
function streamed(stream: Stream, headers: Record<string, string | number>): Partial<Reply> {
  return { bodyHeaders: { "X-Count": stream.count, ...headers }, stream, price: "rows" };
}

/** What a reply has of all rows of a plan. */
export function rowsOf(plan: RowsPlan, contentType: string): Partial<Reply> {
  return streamed(plan, {
    "Content-Type": contentType,
    "X-Total-Count": plan.total,
    "X-Cursor": plan.cursor,
    "X-Archive-Root": plan.snapshot.commit.archiveRoot,
  });
}

/** What a reply has of the difference between two snapshots. */
export function changesOf(plan: ChangesPlan): Partial<Reply> {
  return streamed(plan, {
    "Content-Type": ndjson,
    "X-Since-Snapshot-Id": plan.since,
    "X-Archive-Root": plan.archiveRoot,
  });
}
