import type { ComponentChildren } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import { DimensionLink, type Meaning } from "../components/meaning.tsx";
import { View } from "../components/view.tsx";

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

/** The meaning of each number and dimension, and how to read it. `asked` is the dimension in the address. */
export function Meanings({ asked }: { asked: string }) {
  useLayoutEffect(() => {
    // Later, because the page goes to its top when it shows another view.
    const show = () => document.querySelector("main [aria-current]")?.scrollIntoView({ block: "center" });
    const later = setTimeout(show);
    return () => clearTimeout(later);
  }, [asked]);
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
      <List entries={dimensionsOf(dimensionMeanings.protocol)} asked={asked} />
      <h2>Score of a market</h2>
      <List entries={marketTerms.map(([key, title]) => [title, meanings[key].meaning])} />
      <h2>Six risk signals of a market</h2>
      <p>{meanings.marketDimension.meaning}</p>
      <List entries={dimensionsOf(dimensionMeanings.market)} asked={asked} />
      <h2 aria-current={asked === "requests" ? "true" : undefined}>What takes a request</h2>
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

const List = ({ entries, asked = "" }: { entries: readonly Entry[]; asked?: string }) => (
  <dl class="measure meanings">
    {entries.map(([term, words, dimension]) => (
      <div key={words} class="meaning" aria-current={dimension === asked ? "true" : undefined}>
        <dt>{term}</dt>
        <dd>{words}</dd>
      </div>
    ))}
  </dl>
);
