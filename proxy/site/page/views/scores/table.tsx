import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import { Curve } from "../../charts/curve.tsx";
import { Loading } from "../../components/failure.tsx";
import { useLoaded, useSite, useStored } from "../../model/hooks.ts";
import { counted, grouped } from "../../model/words.ts";
import { peerAddress } from "../compare.tsx";
import { type Choice, type chosenFrom, columns } from "./choice.tsx";

/** How many rows are drawn at once. More follow when the reader comes to their end. */
const batch = 60;
/** How many rows are drawn before the page reacts again, when all are wanted. */
const slice = 20;

interface TableProps {
  scores: readonly ScoreListEntry[];
  chosen: ReturnType<typeof chosenFrom>;
  choice: Choice;
  sortBy: (column: number) => void;
}

export function Table({ scores, chosen, choice, sortBy }: TableProps) {
  const keyed = useStored((state) => state.keyed);
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
            {columns.map(({ name, kind, about }, index) => (
              <th
                key={name}
                scope="col"
                role="columnheader"
                class={kind}
                aria-sort={
                  index !== choice.column ? undefined : choice.descending ? "descending" : "ascending"
                }
              >
                <button type="button" onClick={() => sortBy(index)} data-meaning={about}>
                  {name}
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
  const left = Math.max(0, total - count);
  useEffect(() => {
    if (!button.current) return undefined;
    const observer = new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting) change((now) => ({ count: now.count + batch }));
    });
    observer.observe(button.current);
    return () => observer.disconnect();
  }, [subject, count, all, left > 0]);
  useEffect(() => {
    if (!all || left === 0) return undefined;
    // All at once, they would block the page for just as long. This lets clicks and keys in between.
    const next = setTimeout(() => change((now) => ({ count: now.count + slice })));
    return () => clearTimeout(next);
  }, [subject, count, all, left > 0]);
  const rest = left > 0 && !all && (
    <button ref={button} type="button" class="plain" onClick={() => change(() => ({ all: true }))}>
      Show {grouped(left)} more
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
