import { ndjson } from "../../schemas/endpoints.ts";
import { plans } from "../../schemas/plans.ts";
import type { Catalog } from "../../snapshots/read/catalog.ts";
import { ChangesReader } from "../../snapshots/read/changes.ts";
import { planFacets } from "../../snapshots/read/facets.ts";
import { findMarket, proveMarket } from "../../snapshots/read/market.ts";
import { planPage } from "../../snapshots/read/paging.ts";
import {
  parseArchiveQuery,
  parseChangesQuery,
  parseFacetQuery,
  parseRowsQuery,
} from "../../snapshots/read/query.ts";
import { planRows } from "../../snapshots/read/rows.ts";
import type { Snapshot } from "../../snapshots/read/snapshot.ts";
import { sha256 } from "../../snapshots/store/sha256.ts";
import type { Request } from "../exchange.ts";
import type { AppParts } from "../parts.ts";
import { encode, tagsOf } from "../reply/coding.ts";
import type { Answer, Reply } from "../reply/reply.ts";
import { changesReply, negotiated, preferredRows, requireChunks, rowsReply } from "../reply/rows.ts";

/** A JSON text that is the same for every caller who may have it. */
function jsonReply({ manifest }: Snapshot, json: Buffer): Reply {
  return {
    etag: tagsOf(sha256(json)),
    cacheControl: "private, no-cache",
    snapshotId: manifest.snapshotId,
    body: async (coding) => [await encode(json, coding)],
  };
}

/** The market that a path names, in the current snapshot. */
async function marketOf(catalog: Catalog, { params }: Request) {
  const snapshot = catalog.requireCurrent();
  return { snapshot, found: await findMarket(catalog, snapshot, String(params.id)) };
}

/** Answers about the archive (INTERFACE 4.5 and 4.7 to 4.9). */
export function archiveAnswers({ catalog, now }: AppParts) {
  const changes = new ChangesReader(catalog);
  return {
    marketChanges: async (request, { locals: { parameters } }) => {
      requireChunks(request, ndjson);
      return changesReply(await changes.plan(parseChangesQuery(parameters!)));
    },
    marketsHistorical: async (request, { locals: { parameters, caller } }) => {
      const rows = preferredRows(request);
      if (rows) {
        const plan = await planRows(catalog, parseRowsQuery(parameters!), rows.form);
        return rowsReply(plan, rows.contentType);
      }
      const page = await planPage(catalog, parseArchiveQuery(parameters!));
      const { tier } = plans[caller!.plan];
      const timestamp = new Date(now()).toISOString();
      return {
        etag: () => page.etag,
        cacheControl: "private, no-cache",
        headers: negotiated,
        snapshotId: page.snapshot.manifest.snapshotId,
        body: (coding) => page.body({ tier, timestamp, gzip: coding === "gzip" }),
      };
    },

    marketFacets: (_request, { locals: { parameters } }) => {
      const plan = planFacets(catalog, parseFacetQuery(parameters!));
      return {
        etag: () => plan.etag,
        cacheControl: "private, no-cache",
        snapshotId: plan.snapshot.manifest.snapshotId,
        body: async (coding) => [await encode(Buffer.from(JSON.stringify(await plan.count())), coding)],
      };
    },

    getMarket: async (request) => {
      const { snapshot, found } = await marketOf(catalog, request);
      return jsonReply(snapshot, found.line);
    },

    marketProof: async (request) => {
      const { snapshot, found } = await marketOf(catalog, request);
      return jsonReply(snapshot, Buffer.from(JSON.stringify(await proveMarket(catalog, snapshot, found))));
    },
  } satisfies Record<string, Answer>;
}
