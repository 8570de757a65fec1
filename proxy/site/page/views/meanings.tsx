import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../schemas/records.ts";
import { Columns, scaleOf } from "../charts/columns.tsx";
import { Scored } from "../charts/picture.tsx";
import { KeyOffer } from "../components/access.tsx";
import { TakeAlong } from "../components/take-along.tsx";
import { DimensionLink, type Meaning, PlainButton, ProtocolLink } from "../components/text.tsx";
import { Loading, View } from "../components/view.tsx";
import type { Api } from "../model/api.ts";
import { archiveAddress } from "../model/filters.ts";
import { useLoaded, useSite, useStored } from "../model/hooks.ts";
import { counted, grouped, spoken, stepOf } from "../model/words.ts";
import { chartOf } from "./archive/histogram.tsx";

const protocolTerms: readonly (readonly [Meaning, string])[] = [
  ["bri", "BRI"],
  ["tier", "Tier"],
  ["confidence", "Confidence"],
  ["delta", "Change"],
  ["cascade", "Cascade"],
  ["findings", "Findings"],
];
const marketTerms: readonly (readonly [Meaning, string])[] = [
  ["composite", "Composite"],
  ["weight", "Weight"],
  ["computation", "Computation"],
  ["disputed", "Disputed"],
];
const prices: readonly (readonly [string, string])[] = [
  [
    "Scores",
    "One for the list, which Ctrl+K asks for too, and one for each protocol. With a key, two more for a protocol’s seven days, and one for a curve in the list.",
  ],
  ["As it was", "One for the list of earlier states."],
  [
    "Archive",
    "One for each page of markets. One for the counts beside the choices, up to one more for each filter, and one for each formula version compared. Recomputed here, counts take none.",
  ],
  ["Market", "One."],
  ["Dimension", "One for the list of protocols, and one for each 50 of them; of markets, one."],
  ["This week", "One for the list, and one for the changes of tier."],
  ["Buttons", "What else takes requests says so beside its button."],
];

/** The meaning of each number and dimension, and how to read it. `current` is the dimension in the address. */
export function Meanings({ current }: { current: string }) {
  useLayoutEffect(() => {
    // Later, because the page goes to its top when it shows another view.
    const show = () => document.querySelector("main [aria-current]")?.scrollIntoView({ block: "center" });
    const later = setTimeout(show);
    return () => clearTimeout(later);
  }, [current]);
  return (
    <View title="What the numbers mean">
      <p class="quiet">
        Beside each dimension stands what it is named for. What it measures is the operator’s formula, and the
        operator’s to state.
      </p>
      <h2>Score of a protocol</h2>
      <List entries={protocolTerms.map(([key, title]) => [title, meanings[key].meaning])} />
      <h2>Twelve dimensions of a protocol</h2>
      <p>{meanings.protocolDimension.meaning}</p>
      <List entries={dimensionsOf(dimensionMeanings.protocol)} current={current} />
      <h2>Score of a market</h2>
      <List entries={marketTerms.map(([key, title]) => [title, meanings[key].meaning])} />
      <h2>Six risk signals of a market</h2>
      <p>{meanings.marketDimension.meaning}</p>
      <List entries={dimensionsOf(dimensionMeanings.market)} current={current} />
      <h2 aria-current={current === "requests" ? "true" : undefined}>What takes a request</h2>
      <p>
        A plan has so many requests for each day in UTC. What the browser has, and is still current, takes
        none.
      </p>
      <List entries={prices} />
    </View>
  );
}

type Entry = readonly [term: ComponentChildren, words: string, dimension?: string];

const dimensionsOf = (all: Record<string, string>) =>
  Object.entries(all).map(([key, words]): Entry => [<DimensionLink key={key} name={key} />, words, key]);

const List = ({ entries, current = "" }: { entries: readonly Entry[]; current?: string }) => (
  <dl class="measure meanings">
    {entries.map(([term, words, dimension]) => (
      <div key={words} class="meaning" aria-current={dimension === current ? "true" : undefined}>
        <dt>{term}</dt>
        <dd>{words}</dd>
      </div>
    ))}
  </dl>
);

/** A dimension: what it measures in the operator's words, its distribution, and who is strongest and weakest in it. */
export function Dimension({ name }: { name: string }) {
  const plan = useStored((state) => state.plan);
  const isOfMarkets = Object.hasOwn(dimensionMeanings.market, name);
  const all: Record<string, string> = { ...dimensionMeanings.protocol, ...dimensionMeanings.market };
  const words = Object.hasOwn(all, name) ? all[name] : undefined;
  return (
    <View title={spoken(name)} path={<a href={`#/meanings/${name}`}>What the numbers mean</a>}>
      <p class="lede">{words ?? "No dimension has this name."}</p>
      {words !== undefined && (
        <>
          <p class="quiet">{meanings[isOfMarkets ? "marketDimension" : "protocolDimension"].meaning}</p>
          {!isOfMarkets ? (
            <OfProtocols name={name} />
          ) : plan === "aegis" ? (
            <OfMarkets name={name} />
          ) : (
            <KeyOffer words="How the markets lie in it takes a key of the Aegis plan." />
          )}
        </>
      )}
    </View>
  );
}

function OfMarkets({ name }: { name: string }) {
  const { api } = useSite();
  const counts = useLoaded(
    async (signal) => {
      const { snapshotId: asOf } = await api.pin();
      const { facets } = await api.service.facets([name], { asOf }, { signal });
      return (facets as Record<string, unknown>)[name];
    },
    [name],
  );
  const link = (end: string, value: string) =>
    archiveAddress(new URLSearchParams({ [`${end}_${name}`]: value }));
  return (
    <Loading of={counts} words="Loading the counts…">
      {(facet) => {
        const chart = chartOf(name, facet, new URLSearchParams());
        return (
          <>
            {chart.picture()}
            <p>
              <a href={link("min", "90")}>Markets with the strongest signal, 90 and more</a> ·{" "}
              <a href={link("max", "10")}>with the weakest, 10 and less</a>
            </p>
            <TakeAlong {...chart} />
          </>
        );
      }}
    </Loading>
  );
}

/** How many protocols are named at either end. */
const few = 5;
/** How many protocols' records are read at most, because no list has their dimensions. */
const mostRecords = 500;
/** How many records one request gets, and how many requests are made without being asked for. */
const batch = 50;
const unasked = 4;
/** How many files are read at a time where there is no service. */
const atOnce = 6;

const { spans, axis } = scaleOf(100, 5);

/** The distribution of the protocols in a dimension, and the weakest and strongest in it. */
function OfProtocols({ name }: { name: string }) {
  const { api } = useSite();
  const [confirmed, confirm] = useState(false);
  const list = useLoaded((signal) => api.scores.scores({ signal }), []);
  return (
    <Loading of={list} words="Loading the protocols…">
      {({ scores }) => {
        const read = scores.slice(0, mostRecords);
        const requests = Math.ceil(read.length / batch);
        // Files take none of the day's requests.
        if (confirmed || api.files || requests <= unasked)
          return <Protocols name={name} scores={read} all={scores.length} />;
        return (
          <p>
            <PlainButton onClick={() => confirm(true)}>
              Read the records of {counted(read.length, "protocol")} ({counted(requests, "request")})
            </PlainButton>
          </p>
        );
      }}
    </Loading>
  );
}

interface ProtocolsProps {
  name: string;
  /** Those whose records are read. */
  scores: readonly ScoreListEntry[];
  /** The number of all protocols. */
  all: number;
}

function Protocols({ name, scores, all }: ProtocolsProps) {
  const { api } = useSite();
  const scored = useLoaded((signal) => dimensionOf(api, name, scores, signal), [name, scores]);
  return (
    <Loading of={scored} words="Reading the records…">
      {(protocols) => (
        <>
          <h2>{counted(protocols.length, "protocol")}</h2>
          {all > scores.length && <p class="quiet">Of {grouped(all)}, those with the highest BRI.</p>}
          <Distribution name={name} scores={protocols.map(({ score }) => score)} />
          <h2>Weakest</h2>
          <Ranked protocols={protocols.slice(0, few)} />
          <h2>Strongest</h2>
          <Ranked protocols={protocols.toReversed().slice(0, few)} />
        </>
      )}
    </Loading>
  );
}

async function dimensionOf(api: Api, name: string, entries: readonly ScoreListEntry[], signal: AbortSignal) {
  const records: ProtocolScore[] = [];
  const waiting = entries.map(({ slug }) => slug);
  const work = async () => {
    while (waiting.length > 0) {
      if (api.files)
        for (const slug of waiting.splice(0, 1)) records.push(await api.files.score(slug, { signal }));
      else records.push(...(await api.service.batch(waiting.splice(0, batch), { signal })).scores);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return records
    .map(({ slug, dimensions }) => ({ slug, score: dimensions[name as keyof typeof dimensions] }))
    .sort((a, b) => a.score - b.score || (a.slug < b.slug ? -1 : 1));
}

const Ranked = ({ protocols }: { protocols: Awaited<ReturnType<typeof dimensionOf>> }) => (
  <ol class="bare ranked">
    {protocols.map(({ slug, score }) => (
      <li key={slug}>
        <ProtocolLink slug={slug} />
        <Scored value={score} />
      </li>
    ))}
  </ol>
);

function Distribution({ name, scores }: { name: string; scores: readonly number[] }) {
  const columns = spans.map(({ from, to }) => {
    const value = scores.filter((score) => score >= from && score <= to).length;
    const title = `${counted(value, "protocol")} with ${from} to ${to}`;
    return value === 0 ? [] : [{ value, title, class: `tier-${stepOf(from / 100)}` }];
  });
  const label = `${spoken(name)} of ${counted(scores.length, "protocol")}, from 0 to 100.`;
  return <Columns columns={columns} label={label} axis={axis} unit="safer →" />;
}
