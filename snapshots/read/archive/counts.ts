import {
  type LabelFacet,
  type MarketFacets,
  maxSnapshotsListed,
  type SnapshotList,
  type Status,
  type TierCounts,
} from "../../../schemas/envelopes.ts";
import { type FacetName, facetLimit, facetNames } from "../../../schemas/filters.ts";
import { type ForgeTier, forgeTiers } from "../../../schemas/versions.ts";
import { ObjectError, unless } from "../../store/errors.ts";
import { type Asked, type AsOf, commitAsOf, readSnapshot, weakTag } from "../answer.ts";
import { awaitBudget } from "../budgets.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Archive, Snapshot } from "../catalog/snapshots.ts";
import {
  type ArchiveFilter,
  invalidParameter,
  optionalInteger,
  type Parameters,
  parseFacetNames,
  parseFilter,
} from "../parameters.ts";
import { countFacets } from "./count-facets.ts";
import { evaluate } from "./evaluate.ts";

export function statusOf(catalog: Catalog, { staleAfterSeconds }: { staleAfterSeconds: number }): Status {
  const { commit, manifest } = catalog.requireCurrent();
  const checkedAt = catalog.checkedAt() ?? commit.publishedAt;
  const ageSeconds = Math.max(0, Math.floor((catalog.log.now() - Date.parse(checkedAt)) / 1000));
  return {
    snapshotId: commit.snapshotId,
    commit: commit.commit,
    publishedAt: commit.publishedAt,
    checkedAt,
    ageSeconds,
    stale: ageSeconds > staleAfterSeconds,
    counts: commit.counts,
    newestResolvedAt: manifest.newestResolvedAt,
    newestUpdatedAt: manifest.newestUpdatedAt,
  };
}

/** What everybody may know of the current snapshot (INTERFACE 4.6). */
export async function publicStatus(catalog: Catalog, how: { staleAfterSeconds: number }): Promise<Status> {
  const status = statusOf(catalog, how);
  const { commit } = catalog.requireCurrent();
  // Where the archive is damaged, the rest is told all the same.
  const snapshot = await unless(ObjectError, () => catalog.snapshot(commit));
  if (!snapshot) return status;
  const { archive } = snapshot;
  // Asking for the status costs callers nothing, so an archive is counted only once.
  archive.tiers ??= countTiers(archive);
  return { ...status, marketsByTier: await archive.tiers };
}

async function countTiers(archive: Archive): Promise<TierCounts> {
  const all = await evaluate(archive, { conditions: [], words: [] }, awaitBudget);
  const { tier } = await countFacets(archive, all, ["tier"], forgeTiers.length, awaitBudget);
  const { buckets } = tier as LabelFacet;
  const countOf = (name: ForgeTier) => buckets.find(({ value }) => value === name)?.count ?? 0;
  return Object.fromEntries(forgeTiers.map((name) => [name, countOf(name)])) as TierCounts;
}

/** The snapshots that can be read, newest first (INTERFACE 4.10). */
export async function listSnapshots(catalog: Catalog): Promise<SnapshotList> {
  catalog.requireCurrent();
  const entries = (await catalog.log.readable()).slice(0, maxSnapshotsListed);
  const snapshots = await Promise.all(
    entries.map(async ({ snapshotId, commit, publishedAt, counts, archiveRoot }) => {
      const successor = await catalog.log.entry(commit + 1);
      return {
        snapshotId,
        commit,
        publishedAt,
        supersededAt: successor?.publishedAt ?? null,
        counts,
        archiveRoot,
      };
    }),
  );
  return { count: snapshots.length, snapshots };
}

/** A query of GET /api/v1/markets/facets. */
export interface FacetQuery {
  filter: ArchiveFilter;
  /** In the order asked, each once. */
  by: FacetName[];
  limit: number;
  asOf: AsOf | undefined;
}

/** INTERFACE 4.7. */
export function parseFacetQuery(parameters: Parameters, asOf?: AsOf): FacetQuery {
  const text = parameters.get("by");
  if (text === undefined)
    throw invalidParameter(
      "by",
      `by is missing: one of ${facetNames.join(", ")}, or several separated by commas.`,
    );
  return {
    filter: parseFilter(parameters),
    by: parseFacetNames(text),
    limit: optionalInteger(parameters, "limit", 1, facetLimit.max) ?? facetLimit.otherwise,
    asOf,
  };
}

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
