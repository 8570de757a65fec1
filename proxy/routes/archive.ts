import { Fault } from "../../schemas/errors.ts";
import { ndjson } from "../../schemas/media.ts";
import { plans } from "../../schemas/plans.ts";
import { commitAsOf, readSnapshot, type Stream, weakTag } from "../../snapshots/read/answer.ts";
import { askFacets } from "../../snapshots/read/archive/counts.ts";
import { findMarket, proveMarket } from "../../snapshots/read/archive/market.ts";
import { askPage, type PagePlan } from "../../snapshots/read/archive/paging.ts";
import { askRows, type RowsForm, type RowsPlan, rowsByType } from "../../snapshots/read/archive/rows.ts";
import type { Payer } from "../../snapshots/read/budgets.ts";
import { listExports } from "../../snapshots/read/catalog/exports.ts";
import { askProven, type Logged, proofText } from "../../snapshots/read/catalog/public-log.ts";
import { type ChangesPlan, ChangesReader } from "../../snapshots/read/changes/changes.ts";
import {
  parseArchiveQuery,
  parseChangesQuery,
  parseFacetQuery,
  parseRowsQuery,
} from "../../snapshots/read/query/query.ts";
import { proveScore } from "../../snapshots/read/scores.ts";
import { paymentOf, type Request } from "../exchange.ts";
import {
  type Answer,
  askedReply,
  type Content,
  inForms,
  jsonContent,
  textContent,
  textReply,
} from "../reply/reply.ts";
import { fileReply } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";

/** Answers about the archive (INTERFACE 4.5 and 4.7 to 4.11). */
export function archiveAnswers({ catalog, exports, now }: AppServices) {
  const changes = new ChangesReader(catalog);

  const page: Answer = async ({ parameters, asOf, caller }) => {
    const { tier } = plans[caller!.plan];
    const timestamp = new Date(now()).toISOString();
    const asked = await askPage(catalog, parseArchiveQuery(parameters!, asOf));
    return askedReply(catalog, asked, async (page, coding) => ({
      headers: nextLink(page),
      body: await page.body({ tier, timestamp, gzip: coding === "gzip" }),
    }));
  };

  const allRows =
    (form: RowsForm, contentType: string): Answer =>
    async ({ parameters, asOf }, request) => {
      requireChunks(request, contentType);
      const asked = await askRows(catalog, parseRowsQuery(parameters!, asOf), form);
      return { ...askedReply(catalog, asked, (plan) => rowsOf(plan, contentType)), price: "rows" };
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
      return { ...askedReply(catalog, asked, changesOf), price: "rows" };
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

/** Throws BAD_REQUEST for HTTP/1.0, in which a client could not tell a complete answer from one that was cut off. */
function requireChunks({ httpVersion }: Request, contentType: string): void {
  if (httpVersion !== "1.0") return;
  const detail = `${contentType.split(";")[0]} needs HTTP/1.1, where the end of an answer can be told.`;
  throw new Fault("BAD_REQUEST", detail);
}

/**
 * The header that links to the next page (RFC 8288). A cursor carries filters and page size, so the target needs no
 * more.
 */
const nextLink = ({ nextCursor }: Pick<PagePlan, "nextCursor">) =>
  nextCursor === null ? {} : { Link: `<?cursor=${nextCursor}>; rel="next"` };

function streamed(stream: Stream, headers: Content["headers"]): Content {
  return { headers: { "X-Count": stream.count, ...headers }, stream };
}

function rowsOf(plan: RowsPlan, contentType: string): Content {
  return streamed(plan, {
    "Content-Type": contentType,
    "X-Total-Count": plan.total,
    "X-Cursor": plan.cursor,
    "X-Archive-Root": plan.snapshot.commit.archiveRoot,
  });
}

function changesOf(plan: ChangesPlan): Content {
  return streamed(plan, {
    "Content-Type": ndjson,
    "X-Since-Snapshot-Id": plan.since,
    "X-Archive-Root": plan.archiveRoot,
  });
}

const media = { json: "application/json", text: "text/plain; charset=utf-8" };
const texts = new Map(["text/plain", media.text].map((type) => [type, "text" as const]));

/** Proofs of markets and scores (INTERFACE 4.9), as JSON or as the text of c2sp.org/tlog-proof. */
export function proofAnswers({ catalog, publicLog }: Pick<AppServices, "catalog" | "publicLog">) {
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
