import type { ComponentChildren } from "preact";
import { nameOf } from "../../../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../schemas/records.ts";
import { Scored } from "../charts/picture.tsx";
import { Picker } from "../components/field.tsx";
import { TakeAlong } from "../components/take-along.tsx";
import {
  Change,
  DimensionLink,
  type Meaning,
  Moment,
  ProtocolLink,
  Scrolls,
  Tier,
  titleOf,
} from "../components/text.tsx";
import { Loading, View } from "../components/view.tsx";
import { useLoaded, useSite } from "../model/hooks.ts";
import { go } from "../model/state.ts";
import { grouped } from "../model/words.ts";

const most = 4;

export function Compare({ slugs }: { slugs: readonly string[] }) {
  const { api } = useSite();
  const loaded = useLoaded(
    async (signal) => {
      const { scores } = await api.scores.scores({ signal });
      const there = slugs.filter((slug) => scores.some((entry) => entry.slug === slug));
      const compared = there.slice(0, most);
      const records = await Promise.all(compared.map((slug) => api.scores.score(slug, { signal })));
      return { scores, records, there };
    },
    [slugs.join()],
  );
  return (
    <View title={["Side by side", ...slugs.map(nameOf)].join(" · ")} heading="Side by side">
      <Loading of={loaded} words="Loading the scores…">
        {({ scores, records, there }) => {
          const compared = records.map(({ slug }) => slug);
          const missing = slugs.filter((slug) => !there.includes(slug));
          const excess = there.slice(most).map(nameOf);
          return (
            <>
              {missing.length > 0 && <p>No protocol is scored under the name {missing.join(" or ")}.</p>}
              {excess.length > 0 && (
                <p>
                  At most {most} fit side by side, without {excess.join(", ")}.
                </p>
              )}
              {compared.length > 1 && <Differences records={records} />}
              {compared.length < most && <Adding slugs={compared} scores={scores} />}
              {compared.length > 0 && (
                <>
                  <Table records={records} scores={scores} />
                  <TakeAlong
                    name="scores"
                    title={`Risk scores of ${compared.map(nameOf).join(", ")}`}
                    requests={() => compared.map((slug) => ({ path: `scores/${slug}`, name: slug }))}
                  />
                </>
              )}
            </>
          );
        }}
      </Loading>
    </View>
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

function Adding({ slugs, scores }: { slugs: readonly string[]; scores: readonly ScoreListEntry[] }) {
  const others = scores.map(({ slug }) => slug).filter((slug) => !slugs.includes(slug));
  if (others.length === 0) return null;
  return (
    <Picker
      id="add"
      label={slugs.length > 0 ? "Compare with" : "Protocol"}
      choices={others.toSorted().map((slug) => [slug, nameOf(slug)])}
      verb="Add"
      pick={(slug) => go(compareAddress([...slugs, slug]))}
    />
  );
}

interface Line {
  title: string;
  /** The title where no heading stands above it. */
  alone?: string;
  about?: Meaning;
  /** The dimension that the title links to. */
  dimension?: string;
  cell: (record: ProtocolScore) => ComponentChildren;
  /** Whether its cells are words, and not numbers. */
  words?: true;
}

type DimensionKey = keyof ProtocolScore["dimensions"];

const keysOf = ([record]: readonly ProtocolScore[]) =>
  Object.keys(record?.dimensions ?? {}) as DimensionKey[];

/** The members of records besides scores, by the parts of a protocol's page. */
export const facts: Record<"cascade" | "findings" | "about", readonly Line[]> = {
  cascade: [
    { title: "Blast radius", about: "cascade", cell: ({ cascade }) => grouped(cascade.blastRadius) },
    {
      title: "Upstream dependencies",
      about: "cascade",
      cell: ({ cascade }) => grouped(cascade.upstreamDeps),
    },
  ],
  findings: [
    {
      title: "Critical",
      alone: "Critical findings",
      about: "findings",
      cell: ({ findings }) => grouped(findings.critical),
    },
    { title: "High", about: "findings", cell: ({ findings }) => grouped(findings.high) },
    { title: "Medium", about: "findings", cell: ({ findings }) => grouped(findings.medium) },
  ],
  about: [
    { title: "Category", cell: ({ metadata }) => <bdi>{metadata.category}</bdi>, words: true },
    { title: "Chain", cell: ({ metadata }) => <bdi>{metadata.chain}</bdi>, words: true },
    { title: "Value locked (TVL)", about: "tvl", cell: ({ metadata }) => metadata.tvl },
    { title: "Contracts", about: "contracts", cell: ({ metadata }) => grouped(metadata.contracts) },
    { title: "Z factor", about: "zFactor", cell: ({ metadata }) => metadata.zFactor },
  ],
};

/** The scores, and their places among those of all protocols. */
const scoresAmong = (scores: readonly ScoreListEntry[]): Line[] => [
  {
    title: "BRI",
    about: "bri",
    cell: ({ bri, forgeScaleNum }) => <Scored value={bri} max={1000} step={forgeScaleNum} />,
  },
  {
    title: "Place by BRI",
    cell: ({ bri }) =>
      `${grouped(1 + scores.filter((entry) => entry.bri > bri).length)} of ${grouped(scores.length)}`,
    words: true,
  },
  {
    title: "Tier",
    about: "tier",
    cell: ({ forgeScale }) => <Tier name={forgeScale} />,
    words: true,
  },
  { title: "Confidence", about: "confidence", cell: ({ confidence }) => confidence },
  { title: "Change", about: "delta", cell: ({ delta }) => <Change value={delta} /> },
  { title: "Updated", cell: ({ updatedAt }) => <Moment iso={updatedAt} />, words: true },
];

interface TableProps {
  records: readonly ProtocolScore[];
  /** Of all protocols. */
  scores: readonly ScoreListEntry[];
}

function Table({ records, scores }: TableProps) {
  const slugs = records.map(({ slug }) => slug);
  const parts: Record<string, readonly Line[]> = {
    Score: scoresAmong(scores),
    "Twelve dimensions": keysOf(records).map((key) => ({
      title: key,
      dimension: key,
      cell: ({ dimensions }) => <Scored value={dimensions[key]} />,
    })),
    "Findings, reach and size": [...facts.findings, ...facts.cascade, ...facts.about],
  };
  return (
    <Scrolls label="Protocols side by side">
      <table class="compared-protocols">
        <thead>
          <tr>
            <td />
            {slugs.map((slug) => (
              <th key={slug} scope="col">
                <ProtocolLink slug={slug} />{" "}
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
        {Object.entries(parts).map(([part, lines]) => (
          <tbody key={part}>
            <tr>
              <th scope="rowgroup" colSpan={records.length + 1} class="part">
                {part}
              </th>
            </tr>
            {lines.map(({ title, alone = title, about, dimension, cell, words }) => (
              <tr key={title}>
                <th scope="row">
                  {dimension ? <DimensionLink name={dimension} /> : titleOf({ title: alone, about })}
                </th>
                {records.map((record) => (
                  <td key={record.slug} class={words ? undefined : "number"}>
                    {cell(record)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </Scrolls>
  );
}

const compareAddress = (slugs: readonly string[]) => `#/compare/${slugs.join()}`;

/** The address that compares a protocol with the one nearest by BRI, of its own category if there is another. */
export function peerAddress(entry: ScoreListEntry, scores: readonly ScoreListEntry[]): string {
  const others = scores.filter(({ slug }) => slug !== entry.slug);
  const kin = others.filter(({ category }) => category === entry.category);
  const distance = ({ bri }: ScoreListEntry) => Math.abs(bri - entry.bri);
  const peer = (kin.length > 0 ? kin : others).toSorted((a, b) => distance(a) - distance(b))[0];
  return compareAddress(peer ? [entry.slug, peer.slug] : [entry.slug]);
}
