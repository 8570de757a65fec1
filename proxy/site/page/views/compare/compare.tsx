import { useRef } from "preact/hooks";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../../schemas/records.ts";
import { Loading } from "../../components/failure.tsx";
import { DimensionLink } from "../../components/meaning.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { go } from "../../model/router.ts";
import { compareAddress } from "../../model/statistics.ts";
import { useLoaded, useSite, useTitle } from "../../model/store.ts";
import { keysOf, Table } from "./table.tsx";

const most = 4;

export function Compare({ slugs }: { slugs: readonly string[] }) {
  const { api } = useSite();
  useTitle(["Side by side", ...slugs.map(nameOf)].join(" · "));
  const loaded = useLoaded(
    async (signal) => {
      const { scores } = await api.scores.scores({ signal });
      const there = slugs.filter((slug) => scores.some((entry) => entry.slug === slug));
      const known = there.slice(0, most);
      const records = await Promise.all(known.map((slug) => api.scores.score(slug, { signal })));
      return { scores, records, there };
    },
    [slugs.join()],
  );
  return (
    <article>
      <h1>Side by side</h1>
      <Loading of={loaded} words="Loading the scores…">
        {({ scores, records, there }) => {
          const known = records.map(({ slug }) => slug);
          const missing = slugs.filter((slug) => !there.includes(slug));
          const left = there.slice(most).map(nameOf);
          return (
            <>
              {missing.length > 0 && <p>No protocol is scored under the name {missing.join(" or ")}.</p>}
              {left.length > 0 && (
                <p>
                  At most {most} fit side by side, without {left.join(", ")}.
                </p>
              )}
              {known.length > 1 && <Differences records={records} />}
              {known.length < most && <Picker slugs={known} scores={scores} />}
              {known.length > 0 && (
                <>
                  <Table records={records} scores={scores} />
                  <TakeAlong
                    name="scores"
                    title={`Risk scores of ${known.map(nameOf).join(", ")}`}
                    asked={() => known.map((slug) => ({ path: `scores/${slug}`, name: slug }))}
                  />
                </>
              )}
            </>
          );
        }}
      </Loading>
    </article>
  );
}

function Differences({ records }: { records: readonly ProtocolScore[] }) {
  const spreads = keysOf(records)
    .map((key) => {
      const scores = records.map(({ dimensions }) => dimensions[key]);
      return { key, low: Math.min(...scores), high: Math.max(...scores) };
    })
    .filter(({ low, high }) => high > low)
    .toSorted((a, b) => b.high - b.low - (a.high - a.low))
    .slice(0, 3);
  if (spreads.length === 0) return <p>All twelve dimensions are equal.</p>;
  return (
    <p>
      They differ most in{" "}
      {spreads.map(({ key, low, high }, index) => (
        <span key={key}>
          {index > 0 && ", "}
          <DimensionLink name={key} /> ({low} to {high})
        </span>
      ))}
      .
    </p>
  );
}

interface PickerProps {
  slugs: readonly string[];
  scores: readonly ScoreListEntry[];
}

function Picker({ slugs, scores }: PickerProps) {
  const choice = useRef<HTMLSelectElement>(null);
  const others = scores.map(({ slug }) => slug).filter((slug) => !slugs.includes(slug));
  if (others.length === 0) return null;
  const add = (event: Event) => {
    event.preventDefault();
    if (choice.current) go(compareAddress([...slugs, choice.current.value]));
  };
  return (
    <form class="picker" onSubmit={add}>
      <label for="add">{slugs.length > 0 ? "Compare with" : "Protocol"}</label>
      <select ref={choice} id="add">
        {others.toSorted().map((slug) => (
          <option key={slug} value={slug}>
            {nameOf(slug)}
          </option>
        ))}
      </select>
      <button type="submit">Add</button>
    </form>
  );
}
