import { nameOf } from "../../../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/scales.ts";
import { tiers } from "../../model/words.ts";
import { columns } from "./columns.tsx";

/** Which protocols the scoreboard shows, and in which order. The address holds it. */
export interface Choice {
  text: string;
  tiers: readonly ForgeTier[];
  /** Index of the column to sort by. */
  column: number;
  descending: boolean;
}

const briColumn = columns.findIndex(({ name }) => name === "BRI");

/** Reads the choice from an address, ignoring unknown tiers and columns. */
export function choiceIn(query: URLSearchParams): Choice {
  const named = query.get("tier")?.split(",") ?? [];
  const sort = query.get("sort") ?? "-BRI";
  const column = columns.findIndex(({ name }) => name === sort.replace(/^-/, ""));
  return {
    text: query.get("find") ?? "",
    tiers: tiers.filter((name) => named.includes(name)),
    column: column < 0 ? briColumn : column,
    descending: column < 0 || sort.startsWith("-"),
  };
}

export function addressOf({ text, tiers: chosen, column, descending }: Choice): string {
  const query = new URLSearchParams();
  if (text.trim() !== "") query.set("find", text.trim());
  if (chosen.length > 0) query.set("tier", tiers.filter((name) => chosen.includes(name)).join());
  const { name = "" } = columns[column] ?? {};
  if (name !== "BRI" || !descending) query.set("sort", `${descending ? "-" : ""}${name}`);
  return query.size > 0 ? `#/?${query}` : "#/";
}

/** The choice after a click on the heading of a column. */
export function sortedBy(choice: Choice, column: number): Choice {
  const descending = choice.column === column ? !choice.descending : (columns[column]?.descending ?? false);
  return { ...choice, column, descending };
}

/** The choice after a click on a tier. While none is chosen, all are shown. */
export function toggled(choice: Choice, tier: ForgeTier): Choice {
  const isChosen = choice.tiers.includes(tier);
  return {
    ...choice,
    tiers: isChosen ? choice.tiers.filter((name) => name !== tier) : [...choice.tiers, tier],
  };
}

export function chosenFrom(scores: readonly ScoreListEntry[], choice: Choice): ScoreListEntry[] {
  const by = columns[choice.column]?.by ?? (({ slug }) => slug);
  const sign = choice.descending ? -1 : 1;
  const compare = (a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0);
  return scores
    .filter((entry) => matches(entry, choice))
    .map((entry) => [by(entry), entry] as const)
    .sort(([a, one], [b, other]) => sign * compare(a, b) || compare(one.slug, other.slug))
    .map(([, entry]) => entry);
}

function matches({ slug, category, chain, tvl, forgeScale }: ScoreListEntry, choice: Choice): boolean {
  if (choice.tiers.length > 0 && !choice.tiers.includes(forgeScale)) return false;
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [slug, nameOf(slug), category, chain, tvl].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}
