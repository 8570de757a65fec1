import type { ComponentChildren } from "preact";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/scales.ts";
import { Diverging, Scored } from "../../charts/bar.tsx";
import type { Meaning } from "../../components/meaning.tsx";
import { Change, Moment, ProtocolLink, Tier } from "../../components/text.tsx";
import { tiers } from "../../model/words.ts";

interface Column {
  name: string;
  by: (entry: ScoreListEntry) => string | number;
  /** Whether the first click sorts in descending order. */
  descending?: boolean;
  kind?: "number" | "quiet";
  about?: Meaning;
  /** `most` is the largest change of all protocols. */
  cell: (entry: ScoreListEntry, most: number) => ComponentChildren;
}

export const columns: readonly Column[] = [
  {
    name: "Protocol",
    by: ({ slug }) => slug,
    cell: ({ slug }) => <ProtocolLink slug={slug} />,
  },
  {
    name: "Category",
    by: ({ category = "" }) => category,
    kind: "quiet",
    cell: ({ category }) => <bdi>{category}</bdi>,
  },
  {
    name: "Chain",
    by: ({ chain = "" }) => chain,
    kind: "quiet",
    cell: ({ chain }) => <bdi>{chain}</bdi>,
  },
  {
    name: "TVL",
    by: ({ tvl = "" }) => amountIn(tvl),
    descending: true,
    kind: "number",
    about: "tvl",
    cell: ({ tvl }) => tvl,
  },
  {
    name: "BRI",
    by: ({ bri }) => bri,
    descending: true,
    kind: "number",
    about: "bri",
    cell: ({ bri, forgeScaleNum }) => <Scored value={bri} max={1000} step={forgeScaleNum} />,
  },
  {
    name: "Tier",
    by: ({ forgeScaleNum }) => forgeScaleNum,
    descending: true,
    about: "tier",
    cell: ({ forgeScale }) => <Tier name={forgeScale} />,
  },
  {
    name: "Confidence",
    by: ({ confidence }) => confidence,
    descending: true,
    kind: "number",
    about: "confidence",
    cell: ({ confidence }) => confidence,
  },
  {
    name: "Change",
    by: ({ delta }) => delta,
    descending: true,
    kind: "number",
    about: "delta",
    cell: ({ delta }, most) => (
      <span class="moved">
        <Diverging value={delta} most={most} />
        <Change value={delta} />
      </span>
    ),
  },
  {
    name: "Updated",
    by: ({ updatedAt }) => updatedAt,
    descending: true,
    kind: "quiet",
    cell: ({ updatedAt }) => <Moment iso={updatedAt} />,
  },
];

const magnitudes = ["", "K", "M", "B", "T"];

/** The number in a text like `$1.2B`, or −1. */
function amountIn(text: string): number {
  const [, number, unit = ""] = /^\D*([\d.,]+)\s*([KMBT]?)/i.exec(text) ?? [];
  if (number === undefined) return -1;
  return Number(number.replaceAll(",", "")) * 1000 ** magnitudes.indexOf(unit.toUpperCase());
}

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
