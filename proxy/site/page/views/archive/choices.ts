import type { LabelFacet } from "../../../../../schemas/envelopes.ts";
import { foldCase } from "../../../../../schemas/names.ts";
import { tiers } from "../../model/words.ts";

export interface Choice {
  value: string;
  /** Its spellings, the most frequent first. They count together. */
  spellings: string[];
  count: number;
  disputed: number;
}

export const chosenIn = (query: URLSearchParams, facet: string) =>
  query.get(facet)?.split(facet === "tier" ? "," : /$^/) ?? [];

/** The choices of a facet, those in the query first. */
export function choicesOf(facet: string, { buckets }: LabelFacet, query: URLSearchParams): Choice[] {
  const order = facet === "tier" ? tiers.toReversed() : chosenIn(query, facet);
  const choices = new Map<string, Choice>(
    order.map((value) => [value, { value, spellings: [], count: 0, disputed: 0 }]),
  );
  // Letter case does not tell categories apart.
  const same = (value: string) =>
    (facet === "category" && [...choices.keys()].find((each) => foldCase(each) === foldCase(value))) || value;
  for (const { value, count, disputed } of buckets) {
    const key = same(value);
    const before = choices.get(key);
    choices.set(key, {
      value: key,
      spellings: [...(before?.spellings ?? []), value],
      count: count + (before?.count ?? 0),
      disputed: disputed + (before?.disputed ?? 0),
    });
  }
  const all = [...choices.values()];
  // Spellings that count together may have overtaken others.
  return facet === "category" ? all.sort((a, b) => b.count - a.count) : all;
}
