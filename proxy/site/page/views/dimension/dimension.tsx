import { dimensionMeanings, meanings } from "../../../../../schemas/meanings.ts";
import { useTitle } from "../../model/store.ts";
import { spoken } from "../../model/words.ts";
import { OfMarkets } from "./of-markets.tsx";
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
