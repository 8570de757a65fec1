import type { MarketFacets } from "../../../schemas/envelopes.ts";
import { type Asked, weakTag } from "../asked.ts";
import { commitOf, readSnapshot } from "../catalog/as-of.ts";
import { requireIndexed, type Snapshot } from "../catalog/caches.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { awaitBudget } from "../effort.ts";
import type { FacetQuery } from "../query/query.ts";
import { countFacets } from "./count-facets.ts";
import { selectMarkets } from "./select.ts";

/** Facets are counted by `plan`. */
export async function askFacets(
  catalog: Catalog,
  { filter, by, limit, asOf }: FacetQuery,
): Promise<Asked<MarketFacets>> {
  const commit = await commitOf(catalog, asOf);
  const count = async (snapshot: Snapshot) => {
    for (const name of by) if (name !== "month") requireIndexed(snapshot, name);
    const matches = await selectMarkets(catalog, snapshot, filter);
    const facets = await countFacets(snapshot.archive, matches, by, limit, awaitBudget);
    return { snapshotId: commit.snapshotId, total: matches.total, facets };
  };
  return {
    commit,
    etag: weakTag(commit, filter.canonical, by.join(), limit, "facets"),
    plan: () => readSnapshot(catalog, commit, count),
  };
}
