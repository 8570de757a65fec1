import { ndjson } from "../../schemas/media.ts";
import { plans } from "../../schemas/plans.ts";
import { askFacets } from "../../snapshots/read/archive/facets.ts";
import { findMarket } from "../../snapshots/read/archive/market.ts";
import { askPage } from "../../snapshots/read/archive/paging.ts";
import { askRows, type RowsForm, rowsByType } from "../../snapshots/read/archive/rows.ts";
import { weakTag } from "../../snapshots/read/asked.ts";
import { commitOf, readSnapshot } from "../../snapshots/read/catalog/as-of.ts";
import { listExports } from "../../snapshots/read/catalog/exports.ts";
import { ChangesReader } from "../../snapshots/read/changes/changes.ts";
import type { Payer } from "../../snapshots/read/effort.ts";
import {
  parseArchiveQuery,
  parseChangesQuery,
  parseFacetQuery,
  parseRowsQuery,
} from "../../snapshots/read/query/query.ts";
import { paymentOf } from "../exchange.ts";
import { changesOf, inForms, nextLink, requireChunks, rowsOf } from "../reply/forms.ts";
import { type Answer, askedReply, jsonContent, textContent, textReply } from "../reply/reply.ts";
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
        // Work that takes longer than an answer may goes on, so that its result is there when the caller asks again.
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
      const commit = await commitOf(catalog, asOf);
      const plan = () => readSnapshot(catalog, commit, (snapshot) => findMarket(catalog, snapshot, id));
      const asked = { commit, etag: weakTag(commit, "market", id), plan };
      return askedReply(catalog, asked, ({ line }, coding) => textContent(line, coding));
    },
  } satisfies Record<string, Answer>;
}
