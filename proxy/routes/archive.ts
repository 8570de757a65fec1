import { ndjson } from "../../schemas/endpoints.ts";
import { plans } from "../../schemas/plans.ts";
import { readAsOf } from "../../snapshots/read/as-of.ts";
import { ChangesReader } from "../../snapshots/read/changes.ts";
import { listExports } from "../../snapshots/read/exports.ts";
import { planFacets } from "../../snapshots/read/facets.ts";
import { type FoundMarket, findMarket, proveMarket } from "../../snapshots/read/market.ts";
import { planPage } from "../../snapshots/read/paging.ts";
import {
  parseArchiveQuery,
  parseAsOf,
  parseChangesQuery,
  parseFacetQuery,
  parseRowsQuery,
} from "../../snapshots/read/query.ts";
import { planRows } from "../../snapshots/read/rows.ts";
import type { Snapshot } from "../../snapshots/read/snapshot.ts";
import type { Request, Response } from "../exchange.ts";
import type { AppParts } from "../parts.ts";
import { encoded } from "../reply/coding.ts";
import { fileReply } from "../reply/file.ts";
import { type Answer, textReply } from "../reply/reply.ts";
import {
  changesReply,
  negotiated,
  nextLink,
  preferredRows,
  requireChunks,
  rowsReply,
} from "../reply/rows.ts";

type TextOf = (snapshot: Snapshot, found: FoundMarket) => Promise<Buffer>;

/** Answers about the archive (INTERFACE 4.5 and 4.7 to 4.11). */
export function archiveAnswers({ catalog, now }: AppParts) {
  const changes = new ChangesReader(catalog);
  /** What `textOf` makes of the market that a path names. */
  const marketReply = ({ params }: Request, { locals }: Response, textOf: TextOf) =>
    readAsOf(catalog, parseAsOf(locals.parameters!), async (snapshot) => {
      const found = await findMarket(catalog, snapshot, String(params.id));
      return textReply(await textOf(snapshot, found), snapshot.manifest.snapshotId);
    });
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
        headers: negotiated,
        bodyHeaders: nextLink(page),
        snapshotId: page.snapshot.manifest.snapshotId,
        body: (coding) => page.body({ tier, timestamp, gzip: coding === "gzip" }),
      };
    },

    marketFacets: async (_request, { locals: { parameters } }) => {
      const plan = await planFacets(catalog, parseFacetQuery(parameters!));
      return {
        etag: () => plan.etag,
        snapshotId: plan.snapshot.manifest.snapshotId,
        body: encoded(async () => Buffer.from(JSON.stringify(await plan.count()))),
      };
    },

    listExports: async () => {
      const { snapshotId } = catalog.requireCurrent().commit;
      return textReply(Buffer.from(JSON.stringify(await listExports(catalog.exports))), snapshotId);
    },

    exportFile: async (request) => {
      const { snapshotId, name } = request.params as Record<"snapshotId" | "name", string>;
      catalog.requireCurrent();
      return fileReply(request, catalog.exports, await catalog.exports.file(snapshotId, name), snapshotId);
    },

    getMarket: (request, response) => marketReply(request, response, async (_snapshot, { line }) => line),

    marketProof: (request, response) =>
      marketReply(request, response, async (snapshot, found) =>
        Buffer.from(JSON.stringify(await proveMarket(catalog, snapshot, found))),
      ),
  } satisfies Record<string, Answer>;
}
