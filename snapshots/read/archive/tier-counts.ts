import type { LabelFacet, TierCounts } from "../../../schemas/envelopes.ts";
import { type ForgeTier, forgeTiers } from "../../../schemas/scales.ts";
import { awaitBudget } from "../effort.ts";
import type { Archive } from "./archive.ts";
import { countFacets } from "./count-facets.ts";
import { matchColumns } from "./match-columns.ts";

// Asking for the status costs callers nothing, so an archive is counted only once.
const counted = new WeakMap<Archive, Promise<TierCounts>>();

export function countTiers(archive: Archive): Promise<TierCounts> {
  const known = counted.get(archive) ?? count(archive);
  counted.set(archive, known);
  return known;
}

async function count(archive: Archive): Promise<TierCounts> {
  const all = await matchColumns(archive, [], awaitBudget);
  const { tier } = await countFacets(archive, all, ["tier"], forgeTiers.length, awaitBudget);
  const { buckets } = tier as LabelFacet;
  const countOf = (name: ForgeTier) => buckets.find(({ value }) => value === name)?.count ?? 0;
  return Object.fromEntries(forgeTiers.map((name) => [name, countOf(name)])) as TierCounts;
}
