import type { ComponentChildren } from "preact";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../../schemas/records.ts";
import { Scored } from "../../charts/bar.tsx";
import { DimensionLink, type Meaning, Term } from "../../components/meaning.tsx";
import { Change, Moment, ProtocolLink, Scrolls, Tier } from "../../components/text.tsx";
import { compareAddress } from "../../model/statistics.ts";
import { grouped } from "../../model/words.ts";

interface Line {
  title: string;
  about?: Meaning;
  /** The dimension that the title links to. */
  dimension?: string;
  cell: (record: ProtocolScore) => ComponentChildren;
  /** Whether its cells are words, and not numbers. */
  words?: true;
}

type DimensionKey = keyof ProtocolScore["dimensions"];

export const keysOf = ([record]: readonly ProtocolScore[]) =>
  Object.keys(record?.dimensions ?? {}) as DimensionKey[];

/** The members of records besides scores. */
const facts: readonly Line[] = [
  { title: "Critical findings", about: "findings", cell: ({ findings }) => grouped(findings.critical) },
  { title: "High", about: "findings", cell: ({ findings }) => grouped(findings.high) },
  { title: "Medium", about: "findings", cell: ({ findings }) => grouped(findings.medium) },
  { title: "Blast radius", about: "cascade", cell: ({ cascade }) => grouped(cascade.blastRadius) },
  { title: "Upstream dependencies", about: "cascade", cell: ({ cascade }) => grouped(cascade.upstreamDeps) },
  { title: "Category", cell: ({ metadata }) => <bdi>{metadata.category}</bdi>, words: true },
  { title: "Chain", cell: ({ metadata }) => <bdi>{metadata.chain}</bdi>, words: true },
  { title: "Value locked (TVL)", about: "tvl", cell: ({ metadata }) => metadata.tvl },
  { title: "Contracts", about: "contracts", cell: ({ metadata }) => grouped(metadata.contracts) },
  { title: "Z factor", about: "zFactor", cell: ({ metadata }) => metadata.zFactor },
];

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
    cell: ({ forgeScale, forgeScaleNum }) => <Tier name={forgeScale} number={forgeScaleNum} />,
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

export function Table({ records, scores }: TableProps) {
  const slugs = records.map(({ slug }) => slug);
  const dimensions = keysOf(records).map((key) => ({
    title: key,
    dimension: key,
    cell: (record: ProtocolScore) => <Scored value={record.dimensions[key]} />,
  }));
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
        <Part title="Score" lines={scoresAmong(scores)} records={records} />
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
    {lines.map(({ title: name, about, dimension, cell, words }) => (
      <tr key={name}>
        <th scope="row">
          {dimension ? <DimensionLink name={dimension} /> : about ? <Term about={about}>{name}</Term> : name}
        </th>
        {records.map((record) => (
          <td key={record.slug} class={words ? undefined : "number"}>
            {cell(record)}
          </td>
        ))}
      </tr>
    ))}
  </tbody>
);
