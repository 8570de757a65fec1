import { ndjson } from "../../schemas/endpoints.ts";
import { plans } from "../../schemas/plans.ts";
import { ChangesReader } from "../../snapshots/read/changes.ts";
import { planFacets } from "../../snapshots/read/facets.ts";
import { planPage } from "../../snapshots/read/paging.ts";
import {
  parseArchiveQuery,
  parseChangesQuery,
  parseFacetQuery,
  parseRowsQuery,
} from "../../snapshots/read/query.ts";
import { planRows } from "../../snapshots/read/rows.ts";
import type { AppParts } from "../parts.ts";
import { encode } from "../reply/coding.ts";
import type { Answer } from "../reply/reply.ts";
import { changesReply, negotiated, preferredRows, requireChunks, rowsReply } from "../reply/rows.ts";

/** Answers about the archive (INTERFACE 4.5, 4.7 and 4.8). */
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
  } satisfies Record<string, Answer>;
}
