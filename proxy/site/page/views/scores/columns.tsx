import type { ComponentChildren } from "preact";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import { Diverging, Scored } from "../../charts/bar.tsx";
import type { Meaning } from "../../components/meaning.tsx";
import { Change, Moment, ProtocolLink, Tier } from "../../components/text.tsx";

interface Column {
  name: string;
  by: (entry: ScoreListEntry) => string | number;
  /** Whether the first click sorts in descending order. */
  descending?: boolean;
  number?: boolean;
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
    cell: ({ category }) => <bdi>{category}</bdi>,
  },
  { name: "Chain", by: ({ chain = "" }) => chain, cell: ({ chain }) => <bdi>{chain}</bdi> },
  {
    name: "TVL",
    by: ({ tvl = "" }) => amountIn(tvl),
    descending: true,
    number: true,
    about: "tvl",
    cell: ({ tvl }) => tvl,
  },
  {
    name: "BRI",
    by: ({ bri }) => bri,
    descending: true,
    number: true,
    about: "bri",
    cell: ({ bri, forgeScaleNum }) => <Scored value={bri} max={1000} step={forgeScaleNum} />,
  },
  {
    name: "Tier",
    by: ({ forgeScaleNum }) => forgeScaleNum,
    descending: true,
    about: "tier",
    cell: ({ forgeScale, forgeScaleNum }) => <Tier name={forgeScale} number={forgeScaleNum} />,
  },
  {
    name: "Confidence",
    by: ({ confidence }) => confidence,
    descending: true,
    number: true,
    about: "confidence",
    cell: ({ confidence }) => confidence,
  },
  {
    name: "Change",
    by: ({ delta }) => delta,
    descending: true,
    number: true,
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
