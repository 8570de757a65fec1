import { type BulkheadPolicy, bulkhead } from "cockatiel";
import { LRUCache } from "lru-cache";
import { type AnsweredBy, type Endpoint, type EndpointId, endpoints } from "../../schemas/endpoints.ts";
import { Fault } from "../../schemas/errors.ts";
import { type TableId, tableColumns } from "../../schemas/records.ts";
import { type CsvForm, csvByType } from "../../snapshots/read/archive/csv.ts";
import { asTable } from "../../snapshots/read/archive/rows.ts";
import { budgets, Memo } from "../../snapshots/read/budgets.ts";
import { snapshotIdOf } from "../../snapshots/read/parameters.ts";
import { inTime, within } from "../../snapshots/store/deadline.ts";
import { sharingAnswers } from "../delta-sharing/answers.ts";
import type { Exchange, Handler, Request, Response } from "../exchange.ts";
import { recomputeAnswers } from "../recompute/answers.ts";
import {
  type Answer,
  type Coding,
  inEachCoding,
  inForms,
  negotiatedHeaders,
  preferred,
  prepare,
  type Reply,
  send,
} from "../reply/reply.ts";
import { createStreamSender, requireUnits } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";
import { staticReplies } from "../site/static-replies.ts";
import { ownAnswers } from "./endpoints.ts";

/** All endpoints but those whose protocol answers by itself. */
type AnsweredId = Exclude<EndpointId, AnsweredBy<"protocol">>;
const table: Record<string, Endpoint> = endpoints;
const ids = Object.keys(endpoints).filter((id): id is AnsweredId => table[id]!.answeredBy !== "protocol");

export type Answers = Record<AnsweredId, Answer>;

/** The answer of each endpoint, and the handler that sends it. An endpoint without an answer does not compile. */
export function createAnswers(services: AppServices) {
  const fileAt = staticReplies(services.files);
  const file: Answer = ({ path }) => fileAt(path);
  const answers: Answers = {
    ...(Object.fromEntries(ids.map((id) => [id, file])) as Record<AnsweredBy<"file">, Answer>),
    scoreFeed: upgradeRequired,
    ...ownAnswers(services),
    ...recomputeAnswers(services),
    ...sharingAnswers(services),
  };
  for (const id of Object.keys(tableColumns) as TableId[]) addTable(id, answers[id]);
  const { now } = services;
  const bounded = createBounds(services);
  const { requireRoom, sendStream } = createStreamSender(services);

  /** Prepares an answer within the deadline, settles its price and sends it. */
  function answering(endpoint: Endpoint, answer: Answer): Handler {
    const prepared = async (request: Request, response: Response) => {
      const { locals } = response;
      const reply = await preferred(request, answer)(locals, request, response);
      return prepare(request, reply, (price) => {
        if (price) requireRoom(price, locals.caller!.owner);
        // All rows of the archive are counted already, so an answer without a query is no work.
        locals.worked ||= Boolean(locals.parameters?.size);
      });
    };
    return async (request, response) => {
      const { locals } = response;
      const { receipt } = locals;
      if (answer.others) locals.addressHeaders = negotiatedHeaders;
      const { streamed, ...ready } = await bounded(endpoint, locals, () => prepared(request, response));
      if (ready.known) await receipt?.giveBack();
      if (streamed && receipt) requireUnits(streamed, receipt);
      if (streamed && request.method !== "HEAD") await sendStream({ ...ready, ...streamed }, response);
      else send(request, response, ready, now());
    };
  }

  const handlers = ids.map((id) => [id, answering(endpoints[id], answers[id])]);
  return { answers, bounded, handlers: Object.fromEntries(handlers) as Record<AnsweredId, Handler> };
}

/** Answers plain HTTP requests for what speaks over a WebSocket. */
const upgradeRequired: Answer = ({ parameters }) => {
  snapshotIdOf(parameters!, "since");
  throw new Fault("UPGRADE_REQUIRED", "Connect with a WebSocket client, protocol version 13.");
};

// A page of rare matches may hold hundreds of stored pages in memory until it is put together. The number of
// connections bounds the waiting requests, since each connection waits for one answer.
const heavyAtOnce = 16;
// Without it, one owner could keep all others waiting.
const perOwner = 4;
const busyOwners = 1000;

/** Prepares an answer of an endpoint within the deadline, and a heavy one when its turn has come. */
export type Bounded = <T>(endpoint: Endpoint, exchange: Exchange, work: () => Promise<T>) => Promise<T>;

/** The bounds that all answers of a process share: of their time, and of the heavy ones in all and per owner. */
function createBounds({ limits: { answerSeconds } }: Pick<AppServices, "limits">): Bounded {
  const all = bulkhead(heavyAtOnce, Number.POSITIVE_INFINITY);
  const owners = new LRUCache<string, BulkheadPolicy>({
    max: busyOwners,
    memoMethod: () => bulkhead(perOwner, Number.POSITIVE_INFINITY),
  });
  return ({ heavy }, { asOf, caller }, work) => {
    // An older snapshot may have to be loaded, so its answer counts as heavy.
    if (!heavy && !asOf) return inTime(answerSeconds, work());
    return within(answerSeconds, (late) => {
      const timely = () => {
        // Nobody waits for it any more.
        late.throwIfAborted();
        return work();
      };
      return owners.memo(caller?.owner ?? "").execute(() => all.execute(timely));
    });
  };
}

/** Lets an answer in JSON come as a table, too (INTERFACE 4.15). */
export const addTable = (id: TableId, answer: Answer): Answer =>
  inForms(answer, csvByType, (form, contentType) => async (...args) => {
    return tableReply(await answer(...args), id, form, contentType);
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
