import type { ScoreFacet } from "../../../../../schemas/envelopes.ts";
import { dimensionMeanings, meanings } from "../../../../../schemas/meanings.ts";
import { Columns } from "../../charts/columns.tsx";
import { KeyOffer } from "../../components/closed.tsx";
import { Loading } from "../../components/failure.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { archiveAddress } from "../../model/filters.ts";
import { useLoaded, useSite, useStored, useTitle } from "../../model/store.ts";
import { counted, spoken, stepOf } from "../../model/words.ts";
import { OfProtocols } from "./of-protocols.tsx";

/** A dimension: what it measures in the operator's words, its distribution, and who is strongest and weakest in it. */
export function Dimension({ name }: { name: string }) {
  useTitle(spoken(name));
  const isOfMarkets = Object.hasOwn(dimensionMeanings.market, name);
  const all: Record<string, string> = { ...dimensionMeanings.protocol, ...dimensionMeanings.market };
  const words = Object.hasOwn(all, name) ? all[name] : undefined;
  return (
    <article>
      <p class="path">
        <a href={`#/meanings/${name}`}>What the numbers mean</a>
      </p>
      <h1>{spoken(name)}</h1>
      <p class="lede">{words ?? "No dimension has this name."}</p>
      {words !== undefined && (
        <>
          <p class="quiet">{meanings[isOfMarkets ? "marketDimension" : "protocolDimension"].meaning}</p>
          {isOfMarkets ? <OfMarkets name={name} /> : <OfProtocols name={name} />}
        </>
      )}
    </article>
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
      return (facets as Record<string, ScoreFacet>)[name]?.buckets;
    },
    [name, plan],
  );
  const link = (end: string, value: string) =>
    archiveAddress(new URLSearchParams({ [`${end}_${name}`]: value }));
  if (plan !== "aegis") return <KeyOffer words="How the markets lie in it takes a key of the Aegis plan." />;
  return (
    <Loading of={counts} words="Loading the counts…">
      {(buckets) => {
        if (!buckets) return null;
        const picture = () => (
          <Columns
            columns={buckets.map(({ from, to, count }, index) => [
              {
                value: count,
                title: `${from} to ${to}: ${counted(count, "market")}`,
                class: `column risk tier-${stepOf(index / buckets.length)}`,
              },
            ])}
            label={`${spoken(name)} of all markets, from 0 to 100.`}
            axis={buckets.flatMap(({ from }, at) => (from % 25 === 0 ? [{ at, text: `${from}` }] : []))}
            unit="riskier →"
          />
        );
        return (
          <>
            {picture()}
            <p>
              <a href={link("min", "90")}>Markets with the strongest signal, 90 and more</a> ·{" "}
              <a href={link("max", "10")}>with the weakest, 10 and less</a>
            </p>
            <TakeAlong
              name={`markets-by-${name}`}
              title={`Resolved markets by ${spoken(name).toLowerCase()}`}
              picture={picture}
              asked={() => [{ path: "markets/facets", filters: new URLSearchParams({ by: name }) }]}
            />
          </>
        );
      }}
    </Loading>
  );
}
