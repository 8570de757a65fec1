import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import { useStored } from "../../model/store.ts";
import { grouped } from "../../model/words.ts";
import type { Choice, chosenFrom } from "./choice.ts";
import { columns } from "./columns.tsx";
import { Row } from "./row.tsx";

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
            {columns.map(({ name, number, about }, index) => (
              <th
                key={name}
                scope="col"
                role="columnheader"
                class={`${number ? "number " : ""}col-${name.toLowerCase()}`}
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
