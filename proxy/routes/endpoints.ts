import type { Alive, BatchRequest, Ready, Usage } from "../../schemas/envelopes.ts";
import { Fault, isFault } from "../../schemas/errors.ts";
import { ndjson } from "../../schemas/media.ts";
import { plans } from "../../schemas/plans.ts";
import { type AsOf, commitAsOf, readSnapshot, weakTag } from "../../snapshots/read/answer.ts";
import {
  askFacets,
  listSnapshots,
  parseFacetQuery,
  publicStatus,
  statusOf,
} from "../../snapshots/read/archive/counts.ts";
import { findMarket, proveMarket } from "../../snapshots/read/archive/market.ts";
import { askPage, parseArchiveQuery } from "../../snapshots/read/archive/paging.ts";
import { askRows, parseRowsQuery, type RowsForm, rowsByType } from "../../snapshots/read/archive/rows.ts";
import type { Payer } from "../../snapshots/read/budgets.ts";
import { listExports } from "../../snapshots/read/catalog/exports.ts";
import { askProven, type Logged, proofText } from "../../snapshots/read/catalog/public-log.ts";
import { changesReader, parseChangesQuery } from "../../snapshots/read/changes/changes.ts";
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
  tierLog,
} from "../../snapshots/read/scores.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { type Exchange, paymentOf, type Request, type Response } from "../exchange.ts";
import {
  type Answer,
  askedReply,
  inForms,
  jsonContent,
  type Reply,
  tagsOf,
  textContent,
  textReply,
  uncachedJson,
  uncachedText,
} from "../reply/reply.ts";
import { fileReply } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";

export const ownAnswers = (services: AppServices) => ({
  ...scoreAnswers(services),
  ...archiveAnswers(services),
  ...proofAnswers(services),
  ...serviceAnswers(services),
});

/** Scores (INTERFACE 4.1 to 4.4). */
function scoreAnswers(services: AppServices) {
  const { catalog } = services;
  const readTiers = tierLog(catalog);

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
      const score = findScore(catalog.requireCurrent(), name);
      return {
        ...headOf(score),
        content: async (coding) => textContent(await readScore(catalog, score, name), coding),
      };
    };

  /** The manifest of an earlier snapshot may have to be read first. */
  async function storedAsOf(asOf: AsOf, name: ScoreName): Promise<Reply> {
    const commit = await commitAsOf(catalog, asOf);
    const etag = weakTag(commit, "scores", JSON.stringify(name));
    const plan = () => findScoreAsOf(catalog, commit, name);
    return askedReply(catalog, { commit, etag, plan }, async (score, coding) =>
      textContent(await readScore(catalog, score, name), coding),
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
      const { json, hash, snapshotId } = await readTiers();
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
  const score = findScore(catalog.requireCurrent(), name);
  const bodiesOf = ({ object }: FoundScore) =>
    objects.get(object, () => origin.fetch(request, response, object));
  return {
    ...headOf(score),
    ...(!response.locals.caller?.keyed && { cacheControl: cached }),
    async content(coding) {
      try {
        return { body: [(await bodiesOf(score))[coding]] };
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
  const askChanges = changesReader(catalog);

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
      const asked = await askChanges(parseChangesQuery(exchange.parameters!), payer);
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
