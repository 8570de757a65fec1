import { useState } from "preact/hooks";
import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import type { ProtocolScore, ScoreListEntry } from "../../../../schemas/records.ts";
import { Scored } from "../charts/bar.tsx";
import { Columns } from "../charts/columns.tsx";
import { KeyOffer } from "../components/closed.tsx";
import { Loading } from "../components/failure.tsx";
import { TakeAlong } from "../components/take-along.tsx";
import { PlainButton, ProtocolLink } from "../components/text.tsx";
import { View } from "../components/view.tsx";
import type { Api } from "../model/api.ts";
import { archiveAddress } from "../model/filters.ts";
import { useLoaded, useSite, useStored } from "../model/hooks.ts";
import { counted, grouped, spoken, stepOf } from "../model/words.ts";
import { chartOf } from "./archive/histogram.tsx";

/** A dimension: what it measures in the operator's words, its distribution, and who is strongest and weakest in it. */
export function Dimension({ name }: { name: string }) {
  const isOfMarkets = Object.hasOwn(dimensionMeanings.market, name);
  const all: Record<string, string> = { ...dimensionMeanings.protocol, ...dimensionMeanings.market };
  const words = Object.hasOwn(all, name) ? all[name] : undefined;
  return (
    <View title={spoken(name)} path={<a href={`#/meanings/${name}`}>What the numbers mean</a>}>
      <p class="lede">{words ?? "No dimension has this name."}</p>
      {words !== undefined && (
        <>
          <p class="quiet">{meanings[isOfMarkets ? "marketDimension" : "protocolDimension"].meaning}</p>
          {isOfMarkets ? <OfMarkets name={name} /> : <OfProtocols name={name} />}
        </>
      )}
    </View>
  );
}

function OfMarkets({ name }: { name: string }) {
  const { api } = useSite();
  const plan = useStored((state) => state.plan);
  const counts = useLoaded(
    async (signal) => {
      if (plan !== "aegis") return undefined;
      const { snapshotId: asOf } = await api.pin();
      const { facets } = await api.service.facets([name], { asOf }, { signal });
      return (facets as Record<string, unknown>)[name];
    },
    [name, plan],
  );
  const link = (end: string, value: string) =>
    archiveAddress(new URLSearchParams({ [`${end}_${name}`]: value }));
  if (plan !== "aegis") return <KeyOffer words="How the markets lie in it takes a key of the Aegis plan." />;
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

const axis = [0, 25, 50, 75, 100].map((score) => ({ at: score / 5, text: `${score}` }));

/** The distribution of the protocols in a dimension, and the weakest and strongest in it. */
function OfProtocols({ name }: { name: string }) {
  const { api } = useSite();
  const [asked, ask] = useState(false);
  const list = useLoaded((signal) => api.scores.scores({ signal }), []);
  return (
    <Loading of={list} words="Loading the protocols…">
      {({ scores }) => {
        const read = scores.slice(0, mostRecords);
        const requests = Math.ceil(read.length / batch);
        // Files take none of the day's requests.
        if (asked || api.files || requests <= unasked)
          return <Protocols name={name} scores={read} all={scores.length} />;
        return (
          <p>
            <PlainButton onClick={() => ask(true)}>
              Read the records of {counted(read.length, "protocol")} ({counted(requests, "request")})
            </PlainButton>
          </p>
        );
      }}
    </Loading>
  );
}

interface Entry {
  slug: string;
  score: number;
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
      {(found) => (
        <>
          <h2>{counted(found.length, "protocol")}</h2>
          {all > scores.length && <p class="quiet">Of {grouped(all)}, those with the highest BRI.</p>}
          <Distribution name={name} scores={found.map(({ score }) => score)} />
          <h2>Weakest</h2>
          <Ranked protocols={found.slice(0, few)} />
          <h2>Strongest</h2>
          <Ranked protocols={found.toReversed().slice(0, few)} />
        </>
      )}
    </Loading>
  );
}

async function dimensionOf(
  api: Api,
  name: string,
  entries: readonly ScoreListEntry[],
  signal: AbortSignal,
): Promise<Entry[]> {
  const found: ProtocolScore[] = [];
  const waiting = entries.map(({ slug }) => slug);
  const work = async () => {
    while (waiting.length > 0) {
      if (api.files)
        for (const slug of waiting.splice(0, 1)) found.push(await api.files.score(slug, { signal }));
      else found.push(...(await api.service.batch(waiting.splice(0, batch), { signal })).scores);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return found
    .map(({ slug, dimensions }) => ({ slug, score: dimensions[name as keyof typeof dimensions] }))
    .sort((a, b) => a.score - b.score || (a.slug < b.slug ? -1 : 1));
}

const Ranked = ({ protocols }: { protocols: readonly Entry[] }) => (
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
  const columns = Array.from({ length: 20 }, (_, index) => {
    const [from, to] = [5 * index, index === 19 ? 100 : 5 * index + 4];
    const value = scores.filter((score) => score >= from && score <= to).length;
    const title = `${counted(value, "protocol")} with ${from} to ${to}`;
    return value === 0 ? [] : [{ value, title, class: `column tier-${stepOf(from / 100)}` }];
  });
  const label = `${spoken(name)} of ${counted(scores.length, "protocol")}, from 0 to 100.`;
  return <Columns columns={columns} label={label} axis={axis} unit="safer →" />;
}
