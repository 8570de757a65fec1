import type { LabelFacet, MarketFacets, TierCounts } from "../../../schemas/envelopes.ts";
import { type ForgeTier, forgeTiers } from "../../../schemas/scales.ts";
import { type Asked, weakTag } from "../answer.ts";
import { commitAsOf, readSnapshot } from "../catalog/as-of.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Snapshot } from "../catalog/snapshots.ts";
import { awaitBudget } from "../effort.ts";
import type { FacetQuery } from "../query/query.ts";
import type { Archive } from "./archive.ts";
import { countFacets } from "./count-facets.ts";
import { evaluate } from "./evaluate.ts";

/** Facets are counted by `plan`. */
export async function askFacets(
  catalog: Catalog,
  { filter, by, limit, asOf }: FacetQuery,
): Promise<Asked<MarketFacets>> {
  const commit = await commitAsOf(catalog, asOf);
  const count = async ({ archive }: Snapshot) => {
    const matches = await evaluate(archive, filter, awaitBudget);
    const facets = await countFacets(archive, matches, by, limit, awaitBudget);
    return { snapshotId: commit.snapshotId, total: matches.total, facets };
  };
  return {
    commit,
    etag: weakTag(commit, filter.canonical, by.join(), limit, "facets"),
    plan: () => readSnapshot(catalog, commit, count),
  };
}

// Asking for the status costs callers nothing, so an archive is counted only once.
const counted = new WeakMap<Archive, Promise<TierCounts>>();

export function countTiers(archive: Archive): Promise<TierCounts> {
  const known = counted.get(archive) ?? count(archive);
  counted.set(archive, known);
  return known;
}

async function count(archive: Archive): Promise<TierCounts> {
  const all = await evaluate(archive, { conditions: [], words: [] }, awaitBudget);
  const { tier } = await countFacets(archive, all, ["tier"], forgeTiers.length, awaitBudget);
  const { buckets } = tier as LabelFacet;
  const countOf = (name: ForgeTier) => buckets.find(({ value }) => value === name)?.count ?? 0;
  return Object.fromEntries(forgeTiers.map((name) => [name, countOf(name)])) as TierCounts;
}
