import type { LabelFacet } from "../../../../../schemas/envelopes.ts";
import { foldCase } from "../../../../../schemas/filters.ts";
import { Bar } from "../../charts/picture.tsx";
import { Field } from "../../components/field.tsx";
import { DimensionLink, type Meaning, Tier, titleOf } from "../../components/text.tsx";
import { Sketch } from "../../components/view.tsx";
import { archiveAddress, changed, dimensions, labelOf, valueWords } from "../../model/filters.ts";
import { counted, grouped, percent, spoken, tiers } from "../../model/words.ts";
import type { FacetProps } from "./answers.ts";

const few = 7;

/** The values of a text, as links that choose or leave them, each with its count. */
export function ChoiceList({ facet, query, answer, isBusy, go }: FacetProps) {
  const counts = answer?.counts as LabelFacet | undefined;
  const choices = answer && counts ? choicesOf(facet, counts, answer.query) : [];
  const other = counts?.other.count ?? 0;
  const most = Math.max(1, ...choices.map(({ count }) => count));
  const items = choices.map((choice) => (
    <ChoiceItem key={choice.value} {...{ facet, query, choice, most, isWhole: other === 0 }} />
  ));
  const cut = items.length > few + 2 ? few : items.length;
  const all =
    other > 0 ? `More of ${grouped(counts?.distinct ?? 0)}` : `All ${grouped(counts?.distinct ?? 0)}`;
  return (
    <section class={answer?.isRecomputed ? "facet recomputed" : "facet"} data-facet={facet}>
      <FacetTitle facet={facet} />
      {!answer && isBusy && <Sketch />}
      <ul class="bare choices">
        {answer && items.length === 0 ? <li class="quiet">None</li> : items.slice(0, cut)}
      </ul>
      {/* Where no counts are, another value can still be typed in. */}
      <details hidden={answer ? cut === items.length && other === 0 : isBusy}>
        <summary>{answer ? (facet === "category" ? "More" : all) : "Another value"}</summary>
        <ul class="bare choices">{items.slice(cut)}</ul>
        <p class="quiet">{other > 0 && `${counted(other, "market")} of further values`}</p>
        <Field
          id={facet}
          query={query}
          text=""
          dir="auto"
          placeholder="Another value"
          aria-label={labelOf(facet)}
          enter={(value) => go(changed(query, { [facet]: value }))}
        />
      </details>
    </section>
  );
}

interface ChoiceItemProps {
  facet: string;
  query: URLSearchParams;
  choice: Choice;
  most: number;
  /**
   * Whether all values are listed. Otherwise there may be a value that was typed in, or another spelling of a category.
   */
  isWhole: boolean;
}

function ChoiceItem({ facet, query, choice, most, isWhole }: ChoiceItemProps) {
  const { value, spellings, count, disputed } = choice;
  const chosen = chosenIn(query, facet);
  const isHere = chosen.includes(value);
  const next = isHere
    ? chosen.filter((each) => each !== value)
    : facet === "tier"
      ? tiers.filter((each) => each === value || chosen.includes(each))
      : [value];
  const tally = isWhole
    ? grouped(count)
    : count === 0
      ? "–"
      : `${facet === "category" ? "at least " : ""}${grouped(count)}`;
  const isMerged = spellings.length > 1;
  const about = [
    ...(isMerged ? [`Counted together: ${spellings.join(", ")}`] : []),
    ...(count > 0 ? [`${percent(disputed / count)} disputed`] : []),
  ];
  return (
    <li>
      <a
        href={archiveAddress(changed(query, { [facet]: next.join() }))}
        aria-current={isHere ? "true" : undefined}
        data-key={`${facet} ${value}`}
        title={about.join(". ") || undefined}
      >
        <span class="label">
          <span class="value" dir="auto">
            {facet === "tier" ? <Tier name={value} /> : valueWords(facet, value)}
          </span>
          {isMerged && <span class="spellings">{counted(spellings.length, "spelling")}</span>}
        </span>
        <span class="quiet tally">
          {tally}
          <span class="unseen"> markets</span>
        </span>
        <Bar value={count} max={most} />
      </a>
    </li>
  );
}

const abouts: Record<string, Meaning> = { tier: "tier", disputed: "disputed", composite: "composite" };

export function FacetTitle({ facet }: { facet: string }) {
  const title = facet === "month" ? "Resolved" : spoken(facet);
  const heading = titleOf({ title, about: abouts[facet] });
  return <h3>{dimensions.includes(facet) ? <DimensionLink name={facet} /> : heading}</h3>;
}

type Choice = ReturnType<typeof choicesOf>[number];

const chosenIn = (query: URLSearchParams, facet: string) =>
  query.get(facet)?.split(facet === "tier" ? "," : /$^/) ?? [];

/** The choices of a facet, those in the query first. Letter case does not tell categories apart. */
function choicesOf(facet: string, { buckets }: LabelFacet, query: URLSearchParams) {
  const fold = (value: string) => (facet === "category" ? foldCase(value) : value);
  const first = facet === "tier" ? tiers.toReversed() : chosenIn(query, facet);
  const none = first.map((value) => ({ value, count: 0, disputed: 0 }));
  const groups = Map.groupBy([...none, ...buckets], ({ value }) => fold(value));
  const all = [...groups.values()].map((group) => ({
    value: group[0]!.value,
    // The most frequent first.
    spellings: group.filter((bucket) => buckets.includes(bucket)).map(({ value }) => value),
    count: group.reduce((sum, { count }) => sum + count, 0),
    disputed: group.reduce((sum, { disputed }) => sum + disputed, 0),
  }));
  // Spellings that count together may have overtaken others.
  return facet === "category" ? all.sort((a, b) => b.count - a.count) : all;
}
