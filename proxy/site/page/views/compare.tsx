import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { nameOf } from "../../../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../schemas/records.ts";
import { Bar } from "../charts/bar.tsx";
import { compareAddress } from "../model/peers.ts";
import { go } from "../model/router.ts";
import { useLoaded, useSite, useTitle } from "../model/store.ts";
import { grouped, stepOf } from "../model/words.ts";
import { Loading } from "../parts/failure.tsx";
import { DimensionLink, Term } from "../parts/meaning.tsx";
import { Scrolls } from "../parts/scrolls.tsx";
import { TakeAlong } from "../parts/take-along.tsx";
import { Change, Moment, Tier } from "../parts/text.tsx";

/** How many protocols stand side by side at most. */
const most = 4;

/** Up to four protocols side by side. */
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

type DimensionKey = keyof ProtocolScore["dimensions"];

const keysOf = ([record]: readonly ProtocolScore[]) =>
  Object.keys(record?.dimensions ?? {}) as DimensionKey[];

/** Where the protocols differ most. */
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

interface Line {
  key: string;
  title: ComponentChildren;
  cell: (record: ProtocolScore) => ComponentChildren;
  number?: boolean;
}

const Scored = ({ value, max, step }: { value: number; max: number; step: number }) => (
  <span class={`score tier-${step}`}>
    <Bar value={value} max={max} />
    <b>{value}</b>
  </span>
);

const facts: readonly Line[] = [
  {
    key: "critical",
    title: <Term about="findings">Critical findings</Term>,
    cell: ({ findings }) => grouped(findings.critical),
    number: true,
  },
  {
    key: "high",
    title: <Term about="findings">High</Term>,
    cell: ({ findings }) => grouped(findings.high),
    number: true,
  },
  {
    key: "medium",
    title: <Term about="findings">Medium</Term>,
    cell: ({ findings }) => grouped(findings.medium),
    number: true,
  },
  {
    key: "blast",
    title: <Term about="cascade">Blast radius</Term>,
    cell: ({ cascade }) => grouped(cascade.blastRadius),
    number: true,
  },
  {
    key: "upstream",
    title: <Term about="cascade">Upstream dependencies</Term>,
    cell: ({ cascade }) => grouped(cascade.upstreamDeps),
    number: true,
  },
  { key: "category", title: "Category", cell: ({ metadata }) => <bdi>{metadata.category}</bdi> },
  { key: "chain", title: "Chain", cell: ({ metadata }) => <bdi>{metadata.chain}</bdi> },
  {
    key: "tvl",
    title: <Term about="tvl">Value locked (TVL)</Term>,
    cell: ({ metadata }) => metadata.tvl,
    number: true,
  },
  {
    key: "contracts",
    title: <Term about="contracts">Contracts</Term>,
    cell: ({ metadata }) => grouped(metadata.contracts),
    number: true,
  },
  {
    key: "z",
    title: <Term about="zFactor">Z factor</Term>,
    cell: ({ metadata }) => metadata.zFactor,
    number: true,
  },
];

interface TableProps {
  records: readonly ProtocolScore[];
  scores: readonly ScoreListEntry[];
}

function Table({ records, scores }: TableProps) {
  const slugs = records.map(({ slug }) => slug);
  const place = (bri: number) => 1 + scores.filter((entry) => entry.bri > bri).length;
  const score: readonly Line[] = [
    {
      key: "bri",
      title: <Term about="bri">BRI</Term>,
      cell: ({ bri, forgeScaleNum }) => <Scored value={bri} max={1000} step={forgeScaleNum} />,
      number: true,
    },
    {
      key: "place",
      title: "Place by BRI",
      cell: ({ bri }) => `${grouped(place(bri))} of ${grouped(scores.length)}`,
    },
    {
      key: "tier",
      title: <Term about="tier">Tier</Term>,
      cell: ({ forgeScale, forgeScaleNum }) => <Tier name={forgeScale} number={forgeScaleNum} />,
    },
    {
      key: "confidence",
      title: <Term about="confidence">Confidence</Term>,
      cell: ({ confidence }) => confidence,
      number: true,
    },
    {
      key: "delta",
      title: <Term about="delta">Change</Term>,
      cell: ({ delta }) => <Change value={delta} />,
      number: true,
    },
    { key: "updated", title: "Updated", cell: ({ updatedAt }) => <Moment iso={updatedAt} /> },
  ];
  const dimensions = keysOf(records).map((key) => ({
    key,
    title: <DimensionLink name={key} />,
    cell: (record: ProtocolScore) => {
      const value = record.dimensions[key];
      return <Scored value={value} max={100} step={stepOf(value / 100)} />;
    },
    number: true,
  }));
  return (
    <Scrolls label="Protocols side by side">
      <table class="compared-protocols">
        <thead>
          <tr>
            <td />
            {slugs.map((slug) => (
              <th key={slug} scope="col">
                <a href={`#/protocols/${slug}`}>{nameOf(slug)}</a>{" "}
                <a
                  class="away"
                  href={compareAddress(slugs.filter((other) => other !== slug))}
                  aria-label={`Take ${nameOf(slug)} away`}
                >
                  ×
                </a>
              </th>
            ))}
          </tr>
        </thead>
        <Part title="Score" lines={score} records={records} />
        <Part title="Twelve dimensions" lines={dimensions} records={records} />
        <Part title="Findings, reach and size" lines={facts} records={records} />
      </table>
    </Scrolls>
  );
}

interface PartProps {
  title: string;
  lines: readonly Line[];
  records: readonly ProtocolScore[];
}

const Part = ({ title, lines, records }: PartProps) => (
  <tbody>
    <tr>
      <th scope="rowgroup" colSpan={records.length + 1} class="part">
        {title}
      </th>
    </tr>
    {lines.map(({ key, title: name, cell, number }) => (
      <tr key={key}>
        <th scope="row">{name}</th>
        {records.map((record) => (
          <td key={record.slug} class={number ? "number" : undefined}>
            {cell(record)}
          </td>
        ))}
      </tr>
    ))}
  </tbody>
);
