import { Fault } from "../../schemas/errors.ts";
import { ndjson } from "../../schemas/media.ts";
import type { TableId } from "../../schemas/tables.ts";
import { type CsvForm, csvByType } from "../../snapshots/format/csv.ts";
import type { PagePlan } from "../../snapshots/read/archive/paging.ts";
import type { RowsPlan } from "../../snapshots/read/archive/rows.ts";
import type { ChangesPlan } from "../../snapshots/read/changes/changes.ts";
import { budgets, Memo } from "../../snapshots/read/memo.ts";
import type { Stream } from "../../snapshots/read/stream.ts";
import { asTable } from "../../snapshots/read/tables.ts";
import type { Request } from "../exchange.ts";
import { type Answer, type Coding, type Content, inEachCoding, type Reply } from "./reply.ts";

/** The form of an answer that a request prefers (RFC 9110, 12.5.1). */
export function preferred(request: Request, answer: Answer): Answer {
  // Most callers accept anything, and weighing media types would cost as much as finding a score.
  if (!answer.others || (request.headers.accept ?? "*/*") === "*/*") return answer;
  return answer.others.get(String(request.accepts("application/json", ...answer.others.keys()))) ?? answer;
}

/** An answer in JSON that comes in other forms, too. */
export const inForms = <Form>(
  answer: Answer,
  forms: ReadonlyMap<string, Form>,
  answerIn: (form: Form, contentType: string) => Answer,
): Answer =>
  Object.assign(answer, { others: new Map([...forms].map(([type, form]) => [type, answerIn(form, type)])) });

/** The same for one that comes as a table (INTERFACE 4.15). */
export const alsoAsTable = (id: TableId, answer: Answer): Answer =>
  inForms(answer, csvByType, (form, contentType) => async (...asked) => {
    return tableReply(await answer(...asked), id, form, contentType);
  });

/** Tables by their tags. */
const tables = new Memo<Record<Coding, Buffer>>(
  budgets.scoreTables,
  ({ identity, gzip }) => identity.length + gzip.length,
);

function tableReply(reply: Reply, id: TableId, form: CsvForm, contentType: string): Reply {
  const tagsOfTable =
    ({ etag }: Pick<Reply, "etag">) =>
    (coding: Coding) =>
      etag!(coding).replace(/"$/, `-${form.name}"`);
  return {
    ...reply,
    etag: tagsOfTable(reply),
    async content(coding) {
      const { body = [], instead } = await reply.content("identity");
      const etag = tagsOfTable(instead ?? reply);
      const table = await tables.get(etag("identity"), () => inEachCoding(asTable(id, body, form)));
      const headers = { "Content-Type": contentType };
      return { body: [table[coding]], headers, ...(instead && { instead: { ...instead, etag } }) };
    },
  };
}

/** Throws BAD_REQUEST for HTTP/1.0, in which a client could not tell a complete answer from one that was cut off. */
export function requireChunks({ httpVersion }: Request, contentType: string): void {
  if (httpVersion !== "1.0") return;
  const detail = `${contentType.split(";")[0]} needs HTTP/1.1, where the end of an answer can be told.`;
  throw new Fault("BAD_REQUEST", detail);
}

/**
 * The header that links to the next page (RFC 8288). A cursor carries filters and page size, so the target needs no
 * more.
 */
export const nextLink = ({ nextCursor }: Pick<PagePlan, "nextCursor">) =>
  nextCursor === null ? {} : { Link: `<?cursor=${nextCursor}>; rel="next"` };

function streamed(stream: Stream, headers: Content["headers"]): Content {
  return { headers: { "X-Count": stream.count, ...headers }, stream };
}

export function rowsOf(plan: RowsPlan, contentType: string): Content {
  return streamed(plan, {
    "Content-Type": contentType,
    "X-Total-Count": plan.total,
    "X-Cursor": plan.cursor,
    "X-Archive-Root": plan.snapshot.commit.archiveRoot,
  });
}

export function changesOf(plan: ChangesPlan): Content {
  return streamed(plan, {
    "Content-Type": ndjson,
    "X-Since-Snapshot-Id": plan.since,
    "X-Archive-Root": plan.archiveRoot,
  });
}
