import { type BulkheadPolicy, bulkhead } from "cockatiel";
import { LRUCache } from "lru-cache";
import { type AnsweredBy, type Endpoint, type EndpointId, endpoints } from "../../schemas/endpoints.ts";
import type { Alive, BatchRequest, Ready, Usage } from "../../schemas/envelopes.ts";
import { Fault, isFault } from "../../schemas/errors.ts";
import { ndjson } from "../../schemas/media.ts";
import { plans } from "../../schemas/plans.ts";
import { type TableId, tableColumns } from "../../schemas/records.ts";
import { type AsOf, commitAsOf, readSnapshot, weakTag } from "../../snapshots/read/answer.ts";
import {
  askFacets,
  listSnapshots,
  parseFacetQuery,
  publicStatus,
  statusOf,
} from "../../snapshots/read/archive/counts.ts";
import { type CsvForm, csvByType } from "../../snapshots/read/archive/csv.ts";
import { findMarket, proveMarket } from "../../snapshots/read/archive/market.ts";
import { askPage, parseArchiveQuery } from "../../snapshots/read/archive/paging.ts";
import {
  askRows,
  asTable,
  parseRowsQuery,
  type RowsForm,
  rowsByType,
} from "../../snapshots/read/archive/rows.ts";
import { budgets, Memo, type Payer } from "../../snapshots/read/budgets.ts";
import { listExports } from "../../snapshots/read/catalog/exports.ts";
import { askProven, type Logged, proofText } from "../../snapshots/read/catalog/public-log.ts";
import { ChangesReader, parseChangesQuery } from "../../snapshots/read/changes/changes.ts";
import { snapshotIdOf } from "../../snapshots/read/parameters.ts";
import {
  type FoundScore,
  findScore,
  findScoreAsOf,
  proveScore,
  readBatch,
  readScore,
  type ScoreName,
  scoreNamed,
  supersededScore,
  TierLog,
} from "../../snapshots/read/scores.ts";
import { inTime, within } from "../../snapshots/store/deadline.ts";
import { headersOf, layout, sha256 } from "../../snapshots/store/layout.ts";
import { sharingAnswers } from "../delta-sharing/answers.ts";
import { type Exchange, type Handler, paymentOf, type Request, type Response } from "../exchange.ts";
import { recomputeAnswers } from "../recompute/answers.ts";
import {
  type Answer,
  askedReply,
  type Coding,
  inEachCoding,
  inForms,
  jsonContent,
  negotiatedHeaders,
  preferred,
  prepare,
  type Reply,
  send,
  tagsOf,
  textContent,
  textReply,
  uncachedJson,
  uncachedText,
} from "../reply/reply.ts";
import { createStreamSender, fileReply, requireUnits } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";
import type { StaticFile } from "../site/static-files.ts";

/** All endpoints but those whose protocol answers by itself. */
type AnsweredId = Exclude<EndpointId, AnsweredBy<"protocol">>;
const table: Record<string, Endpoint> = endpoints;
const ids = Object.keys(endpoints).filter((id): id is AnsweredId => table[id]!.answeredBy !== "protocol");

export type Answers = Record<AnsweredId, Answer>;

/** The answer of each endpoint, and the handler that sends it. An endpoint without an answer does not compile. */
export function createAnswers(services: AppServices) {
  const file = fileAnswer(services.files);
  const answers: Answers = {
    ...(Object.fromEntries(ids.map((id) => [id, file])) as Record<AnsweredBy<"file">, Answer>),
    scoreFeed: upgradeRequired,
    ...scoreAnswers(services),
    ...archiveAnswers(services),
    ...proofAnswers(services),
    ...serviceAnswers(services),
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
      if (endpoint.negotiated) locals.addressHeaders = negotiatedHeaders;
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

/** Answers with files, which are read and compressed once. */
function fileAnswer(files: readonly StaticFile[]): Answer {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const replies = new Memo<Reply>({ most: byPath.size || 1 });
  return (_exchange, { path }) => {
    const file = byPath.get(path);
    if (!file) throw new Error(`the address ${path} has no file`);
    return replies.get(path, () => replyOf(file));
  };
}

async function replyOf({ contentType, headers, read }: StaticFile): Promise<Reply> {
  const body = await inEachCoding(await read(), { level: 9 });
  return {
    snapshotId: undefined,
    etag: tagsOf(sha256(body.identity)),
    // File names stay while contents change with the version of the service, and a page must not get an older script.
    cacheControl: "no-cache",
    headers: { "Content-Type": contentType, Vary: "Accept-Encoding", ...headers },
    content: (coding) => ({ body: [body[coding]] }),
  };
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

/** Scores (INTERFACE 4.1 to 4.4). */
function scoreAnswers(services: AppServices) {
  const { catalog } = services;
  const tierLog = new TierLog(catalog);

  /** Public data: from the origin or, for an earlier snapshot, from the store. */
  const publicAnswer =
    (nameOf: (exchange: Exchange) => ScoreName): Answer =>
    (exchange, request, response) => {
      const { asOf } = exchange;
      const name = nameOf(exchange);
      return asOf ? storedAsOf(asOf, name) : originReply(services, name, request, response);
    };

  /** Data that a plan pays for: from the store and never from the origin. */
  const privateAnswer =
    (kind: "histories" | "dimensions"): Answer =>
    ({ params, asOf }) => {
      const name = scoreNamed(catalog, kind, String(params.slug));
      if (asOf) return storedAsOf(asOf, name);
      const found = findScore(catalog.requireCurrent(), name);
      return {
        ...headOf(found),
        content: async (coding) => textContent(await readScore(catalog, found, name), coding),
      };
    };

  /** The manifest of an earlier snapshot may have to be read first. */
  async function storedAsOf(asOf: AsOf, name: ScoreName): Promise<Reply> {
    const commit = await commitAsOf(catalog, asOf);
    const etag = weakTag(commit, "scores", JSON.stringify(name));
    const plan = () => findScoreAsOf(catalog, commit, name);
    return askedReply(catalog, { commit, etag, plan }, async (found, coding) =>
      textContent(await readScore(catalog, found, name), coding),
    );
  }

  return {
    listScores: publicAnswer(() => "list"),
    getScore: publicAnswer(({ params }) => scoreNamed(catalog, "records", String(params.slug))),
    // From the store, since a forwarded request can fetch only one object.
    batchScores: async ({ body }) => {
      const { json, snapshotId } = await readBatch(catalog, (body as BatchRequest).slugs);
      return uncachedText(json, snapshotId);
    },
    tiers: async () => {
      const { json, hash, snapshotId } = await tierLog.read();
      return textReply(json, snapshotId, hash);
    },
    scoreHistory: privateAnswer("histories"),
    scoreDimensions: privateAnswer("dimensions"),
  } satisfies Record<string, Answer>;
}

/**
 * A public object of the current snapshot or, while the origin is away, of the newest older snapshot that has it in
 * memory.
 */
function originReply(services: AppServices, name: ScoreName, request: Request, response: Response): Reply {
  const { catalog, objects, origin, metrics, now } = services;
  const cached = "private, max-age=60, stale-while-revalidate=600";
  const found = findScore(catalog.requireCurrent(), name);
  const bodiesOf = ({ object }: FoundScore) =>
    objects.get(object, () => origin.fetch(request, response, object));
  return {
    ...headOf(found),
    ...(!response.locals.caller?.keyed && { cacheControl: cached }),
    async content(coding) {
      try {
        return { body: [(await bodiesOf(found))[coding]] };
      } catch (error) {
        const isAway = isFault(error, "UPSTREAM_ERROR", "UPSTREAM_TIMEOUT");
        const older = isAway ? supersededScore(catalog, name, objects.has) : undefined;
        if (!older) throw error;
        metrics.stale.inc();
        // Age tells how long its snapshot has been superseded.
        const age = Math.max(0, Math.floor((now() - Date.parse(older.supersededAt)) / 1000));
        const headers = { Age: age, "Cache-Status": `prs; hit; ttl=-${age}; detail=origin-away` };
        return { body: [(await bodiesOf(older))[coding]], instead: { ...headOf(older), headers } };
      }
    },
  };
}

const headOf = ({ commit, object }: FoundScore) => ({
  snapshotId: commit.snapshotId,
  etag: tagsOf(object.hash),
});

/** The archive (INTERFACE 4.5 and 4.7 to 4.11). */
function archiveAnswers({ catalog, exports, now }: AppServices) {
  const changes = new ChangesReader(catalog);

  const page: Answer = async ({ parameters, asOf, caller }) => {
    const { tier } = plans[caller!.plan];
    const timestamp = new Date(now()).toISOString();
    const asked = await askPage(catalog, parseArchiveQuery(parameters!, asOf));
    return askedReply(catalog, asked, async ({ nextCursor, body }, coding) => ({
      // A cursor carries filters and page size, so the link needs no more (RFC 8288).
      ...(nextCursor !== null && { headers: { Link: `<?cursor=${nextCursor}>; rel="next"` } }),
      body: await body({ tier, timestamp, gzip: coding === "gzip" }),
    }));
  };

  const allRows =
    (form: RowsForm, contentType: string): Answer =>
    async ({ parameters, asOf }, request) => {
      requireChunks(request, contentType);
      const asked = await askRows(catalog, parseRowsQuery(parameters!, asOf), form);
      const reply = askedReply(catalog, asked, (plan) => ({
        headers: {
          "X-Count": plan.count,
          "Content-Type": contentType,
          "X-Total-Count": plan.total,
          "X-Cursor": plan.cursor,
          "X-Archive-Root": plan.snapshot.commit.archiveRoot,
        },
        stream: plan,
      }));
      return { ...reply, price: "rows" };
    };

  return {
    marketChanges: async (exchange, request, response) => {
      requireChunks(request, ndjson);
      const payer: Payer = {
        // The work goes on after the answer's deadline, so that its result is there when the caller asks again.
        gone: () => response.destroyed && !response.writableFinished,
        pay: paymentOf(exchange),
      };
      const asked = await changes.ask(parseChangesQuery(exchange.parameters!), payer);
      const reply = askedReply(catalog, asked, (plan) => ({
        headers: {
          "X-Count": plan.count,
          "Content-Type": ndjson,
          "X-Since-Snapshot-Id": plan.since,
          "X-Archive-Root": plan.archiveRoot,
        },
        stream: plan,
      }));
      return { ...reply, price: "rows" };
    },
    marketsHistorical: inForms(page, rowsByType, allRows),

    marketFacets: async ({ parameters, asOf }) =>
      askedReply(catalog, await askFacets(catalog, parseFacetQuery(parameters!, asOf)), jsonContent),

    listExports: async () => {
      const { snapshotId } = catalog.requireCurrent().commit;
      return textReply(Buffer.from(JSON.stringify(await listExports(exports))), snapshotId);
    },

    exportFile: async ({ params }, request) => {
      const { snapshotId, name } = params as Record<"snapshotId" | "name", string>;
      catalog.requireCurrent();
      return fileReply(request, await exports.open(snapshotId, name), snapshotId);
    },

    getMarket: async ({ params, asOf }) => {
      const id = String(params.id);
      const commit = await commitAsOf(catalog, asOf);
      const plan = () => readSnapshot(catalog, commit, (snapshot) => findMarket(catalog, snapshot, id));
      const asked = { commit, etag: weakTag(commit, "market", id), plan };
      return askedReply(catalog, asked, ({ line }, coding) => textContent(line, coding));
    },
  } satisfies Record<string, Answer>;
}

/** Refuses HTTP/1.0, in which a client could not tell a complete answer from one that was cut off. */
function requireChunks({ httpVersion }: Request, contentType: string): void {
  if (httpVersion !== "1.0") return;
  const detail = `${contentType.split(";")[0]} needs HTTP/1.1, where the end of an answer can be told.`;
  throw new Fault("BAD_REQUEST", detail);
}

const media = { json: "application/json", text: "text/plain; charset=utf-8" };
const texts = new Map(["text/plain", media.text].map((type) => [type, "text" as const]));

/** Proofs of markets and scores (INTERFACE 4.9), as JSON or as the text of c2sp.org/tlog-proof. */
function proofAnswers({ catalog, publicLog }: Pick<AppServices, "catalog" | "publicLog">) {
  const proven = (prove: typeof proveMarket | typeof proveScore) => {
    const answerIn =
      (form: keyof typeof media): Answer =>
      async ({ params, asOf }) => {
        const name = String(params.id ?? params.slug);
        const plan = async (...logged: Logged) => {
          const proof = await prove(catalog, name, ...logged);
          const text = form === "text" ? proofText(proof) : JSON.stringify(proof);
          if (text) return Buffer.from(text);
          throw new Fault("NOT_FOUND", "Nobody has signed the log up to this snapshot.");
        };
        const asked = await askProven(catalog, publicLog, asOf, ["proof", form, name], plan);
        return askedReply(catalog, asked, (text, coding) => textContent(text, coding, media[form]));
      };
    return inForms(answerIn("json"), texts, answerIn);
  };
  return {
    marketProof: proven(proveMarket),
    scoreProof: proven(proveScore),
  } satisfies Record<string, Answer>;
}

/** The service itself (INTERFACE 4.6). */
function serviceAnswers(services: AppServices) {
  const { catalog, publicLog, keys, quota, listening, pollAge } = services;

  /** A file of the public log. `missing` is the message where the log lacks it. */
  async function logReply(name: string, missing: string): Promise<Reply> {
    const content = await publicLog.file(name);
    const { snapshotId } = catalog.requireCurrent().commit;
    if (!content) throw new Fault("NOT_FOUND", missing);
    const { contentType, cacheControl } = headersOf(layout.logFile(name));
    return {
      ...textReply(content, snapshotId),
      cacheControl,
      // Not compressed, because this endpoint is free.
      coding: "identity",
      content: () => ({ body: [content], headers: { "Content-Type": contentType } }),
    };
  }

  return {
    status: async () => {
      const status = await publicStatus(catalog, services);
      return uncachedJson(status, status.snapshotId);
    },

    checkpoint: () => logReply("checkpoint", "The publisher does not sign."),
    log: ({ params }) => logReply(params.logFile!, "The log does not have this file now."),

    listSnapshots: async () =>
      uncachedJson(await listSnapshots(catalog), catalog.requireCurrent().commit.snapshotId),

    usage: async ({ caller }) => {
      const { limit, remaining, resetAt } = await quota.standing(caller!);
      return uncachedJson({ plan: caller!.plan, limit, remaining, reset: resetAt / 1000 } satisfies Usage);
    },

    healthz: () => uncachedJson({ status: "alive" } satisfies Alive),

    readyz: async () => {
      const { snapshotId, commit, ageSeconds, stale } = statusOf(catalog, services);
      if (!listening()) throw new Fault("SNAPSHOT_UNAVAILABLE", "The process is ending.");
      if (!keys.ready()) throw new Fault("SNAPSHOT_UNAVAILABLE", "The keys are not loaded yet.");
      const uncounted =
        "Requests cannot be counted: QUOTA_STORE does not answer, and QUOTA_ON_FAILURE is closed.";
      if (!(await quota.ready())) throw new Fault("QUOTA_UNAVAILABLE", uncounted);
      const ready: Ready = {
        status: "ready",
        snapshotId,
        commit,
        ageSeconds,
        stale,
        pollAgeSeconds: Math.floor(pollAge()),
        quotaStore: quota.failing() ? "failing" : "ok",
        counting: await quota.counting(),
        heldBack: catalog.heldBack() ?? null,
      };
      return uncachedJson(ready, snapshotId);
    },
  } satisfies Record<string, Answer>;
}
