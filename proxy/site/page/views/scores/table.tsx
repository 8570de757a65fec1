import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/versions.ts";
import { Curve } from "../../charts/curve.tsx";
import { Diverging, Scored } from "../../charts/picture.tsx";
import { Change, type Meaning, Moment, ProtocolLink, Tier } from "../../components/text.tsx";
import { Loading } from "../../components/view.tsx";
import { useLoaded, useSite, useStored } from "../../model/hooks.ts";
import { isKeyed } from "../../model/state.ts";
import { counted, grouped, tiers } from "../../model/words.ts";
import { peerAddress } from "../compare.tsx";

interface Column {
  name: string;
  by: (entry: ScoreListEntry) => string | number;
  /** Whether the first click sorts in ascending order. */
  ascending?: true;
  kind?: "number" | "quiet";
  about?: Meaning;
  /** `most` is the largest change of all protocols. */
  cell: (entry: ScoreListEntry, most: number) => ComponentChildren;
}

const columns: readonly Column[] = [
  {
    name: "Protocol",
    by: ({ slug }) => slug,
    ascending: true,
    cell: ({ slug }) => <ProtocolLink slug={slug} />,
  },
  {
    name: "Category",
    by: ({ category = "" }) => category,
    ascending: true,
    kind: "quiet",
    cell: ({ category }) => <bdi>{category}</bdi>,
  },
  {
    name: "Chain",
    by: ({ chain = "" }) => chain,
    ascending: true,
    kind: "quiet",
    cell: ({ chain }) => <bdi>{chain}</bdi>,
  },
  {
    name: "TVL",
    by: ({ tvl = "" }) => amountIn(tvl),
    kind: "number",
    about: "tvl",
    cell: ({ tvl }) => tvl,
  },
  {
    name: "BRI",
    by: ({ bri }) => bri,
    kind: "number",
    about: "bri",
    cell: ({ bri, forgeScaleNum }) => <Scored value={bri} max={1000} step={forgeScaleNum} />,
  },
  {
    name: "Tier",
    by: ({ forgeScaleNum }) => forgeScaleNum,
    about: "tier",
    cell: ({ forgeScale }) => <Tier name={forgeScale} />,
  },
  {
    name: "Confidence",
    by: ({ confidence }) => confidence,
    kind: "number",
    about: "confidence",
    cell: ({ confidence }) => confidence,
  },
  {
    name: "Change",
    by: ({ delta }) => delta,
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
  /** The one to sort by. */
  column: Column;
  descending: boolean;
}

const columnNamed = (wanted: string) => columns.find(({ name }) => name === wanted);

/** Reads the choice from an address, ignoring unknown tiers and columns. */
export function choiceIn(query: URLSearchParams): Choice {
  const named = query.get("tier")?.split(",") ?? [];
  const sort = query.get("sort") ?? "-BRI";
  const column = columnNamed(sort.replace(/^-/, ""));
  return {
    text: query.get("find") ?? "",
    tiers: tiers.filter((name) => named.includes(name)),
    column: column ?? columnNamed("BRI")!,
    descending: !column || sort.startsWith("-"),
  };
}

export function addressOf({ text, tiers: chosen, column, descending }: Choice): string {
  const query = new URLSearchParams();
  if (text.trim() !== "") query.set("find", text.trim());
  if (chosen.length > 0) query.set("tier", tiers.filter((name) => chosen.includes(name)).join());
  if (column.name !== "BRI" || !descending) query.set("sort", `${descending ? "-" : ""}${column.name}`);
  return query.size > 0 ? `#/?${query}` : "#/";
}

export function chosenFrom(scores: readonly ScoreListEntry[], choice: Choice): ScoreListEntry[] {
  const { by } = choice.column;
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

/** How many rows are drawn at once. More follow when the reader comes to their end. */
const batch = 60;
/** How many rows are drawn before the page reacts again, when all are wanted. */
const slice = 20;

interface TableProps {
  scores: readonly ScoreListEntry[];
  chosen: readonly ScoreListEntry[];
  choice: Choice;
  sortBy: (column: Column) => void;
}

export function Table({ scores, chosen, choice, sortBy }: TableProps) {
  const keyed = useStored(isKeyed);
  // Memoised, so that a redraw does not compare rows that are already drawn.
  const rows = useMemo(() => {
    const most = Math.max(...scores.map(({ delta }) => Math.abs(delta)));
    return new Map(
      scores.map((entry) => [
        entry,
        <Row key={entry.slug} entry={entry} scores={scores} most={most} keyed={keyed} />,
      ]),
    );
  }, [scores, keyed]);
  const { count, rest } = useGradually(chosen.length, JSON.stringify(choice));
  return (
    <>
      <table class="board" role="table">
        <caption class="unseen">
          Protocols and their scores. The buttons in the headings sort the table.
        </caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                role="columnheader"
                class={column.kind}
                aria-sort={
                  column !== choice.column ? undefined : choice.descending ? "descending" : "ascending"
                }
              >
                <button type="button" onClick={() => sortBy(column)} data-meaning={column.about}>
                  {column.name}
                  <span class="arrow" aria-hidden="true" />
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody id="protocols" role="rowgroup">
          {chosen.slice(0, count).map((entry) => rows.get(entry))}
        </tbody>
      </table>
      {rest}
      {chosen.length === 0 && (
        <p class="quiet">No protocol matches. Shorten the text or choose another tier.</p>
      )}
    </>
  );
}

/**
 * How many of `total` rows are drawn: a browser needs a second for a thousand. More come when the reader reaches the
 * button `rest`, and all of them, a few at a time, when it is pressed. Another `subject` begins anew.
 */
function useGradually(total: number, subject: string) {
  const first = { subject, count: batch, all: false };
  const [drawn, draw] = useState(first);
  const { count, all } = drawn.subject === subject ? drawn : first;
  const change = (next: (now: typeof first) => Partial<typeof first>) =>
    draw((last) => {
      const now = last.subject === subject ? last : first;
      return { ...now, ...next(now) };
    });
  const button = useRef<HTMLButtonElement>(null);
  const remaining = Math.max(0, total - count);
  useEffect(() => {
    const draw = (more: number) => change((now) => ({ count: now.count + more }));
    // All at once, they would block the page for just as long. This lets clicks and keys in between.
    const next = all && remaining > 0 ? setTimeout(() => draw(slice)) : undefined;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && draw(batch));
    if (button.current) observer.observe(button.current);
    return () => {
      clearTimeout(next);
      observer.disconnect();
    };
  }, [subject, count, all, remaining > 0]);
  const rest = remaining > 0 && !all && (
    <button ref={button} type="button" class="plain" onClick={() => change(() => ({ all: true }))}>
      Show {grouped(remaining)} more
    </button>
  );
  return { count, rest };
}

interface RowProps {
  entry: ScoreListEntry;
  scores: readonly ScoreListEntry[];
  most: number;
  keyed: boolean;
}

/** A protocol's row and, once it was opened, the row with its curve. */
function Row({ entry, scores, most, keyed }: RowProps) {
  const [open, setOpen] = useState(false);
  const { slug } = entry;
  // On narrow screens CSS lays rows out as cards, which removes the implicit table roles. So they are stated here.
  return (
    <>
      <tr role="row">
        {columns.map(({ name, kind, about, cell }, index) => {
          const shared = { class: kind, "data-name": name, "data-meaning": about };
          if (index > 0)
            return (
              <td key={name} role="cell" {...shared}>
                {cell(entry, most)}
              </td>
            );
          return (
            <th key={name} role="rowheader" scope="row" {...shared}>
              {keyed && (
                <button
                  type="button"
                  class="opener"
                  aria-expanded={open ? "true" : "false"}
                  aria-label={`Curve of ${nameOf(slug)}`}
                  onClick={() => setOpen(!open)}
                />
              )}
              {cell(entry, most)}
              <a
                class="compare"
                href={peerAddress(entry, scores)}
                title="Compare with the nearest BRI of its category"
              >
                <span class="unseen">Compare {nameOf(slug)}</span>
              </a>
            </th>
          );
        })}
      </tr>
      {open && (
        <tr role="row" class="curve">
          <td role="cell" colSpan={columns.length}>
            <CurveOf slug={slug} scores={scores} />
          </td>
        </tr>
      )}
    </>
  );
}

function CurveOf({ slug, scores }: { slug: string; scores: readonly ScoreListEntry[] }) {
  const { api } = useSite();
  const history = useLoaded((signal) => api.service.history(slug, { signal }), [slug]);
  return (
    <Loading of={history} words="Loading the curve…">
      {({ points }) => (
        <Curve
          points={points}
          scores={scores}
          name={`BRI of ${nameOf(slug)} over ${counted(points.length, "run")}`}
        />
      )}
    </Loading>
  );
}
