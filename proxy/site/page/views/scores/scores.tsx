import { useState } from "preact/hooks";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/scales.ts";
import { Distribution } from "../../charts/columns.tsx";
import { Loading } from "../../components/failure.tsx";
import { Field } from "../../components/field.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { SkipTo, Tier } from "../../components/text.tsx";
import { View } from "../../components/view.tsx";
import { useLoaded, useSite } from "../../model/hooks.ts";
import { replaceAddress } from "../../model/state.ts";
import { ago, counted, grouped, minutes, numberOf, tiers } from "../../model/words.ts";
import { Movers } from "../week.tsx";
import { addressOf, type Choice, choiceIn, chosenFrom, sortedBy, Table, toggled } from "./table.tsx";

export function Scores({ query }: { query: URLSearchParams }) {
  const { api } = useSite();
  const list = useLoaded((signal) => api.scores.scores({ signal }), []);
  const { value } = list;
  return (
    <View
      title="Risk scores"
      lede={
        <p class="lede dated">
          DeFi protocols by their risk. Higher is safer.
          {value && ` Updated ${minutes(value.updatedAt)}, ${ago(value.updatedAt, Date.now())}.`}
        </p>
      }
    >
      <Loading of={list} words="Loading the scores…">
        {({ scores }) => <Board scores={scores} query={query} />}
      </Loading>
    </View>
  );
}

function Board({ scores, query }: { scores: readonly ScoreListEntry[]; query: URLSearchParams }) {
  const { store } = useSite();
  const asked = choiceIn(query);
  // Typed text filters at once, and reaches the address later: browsers fetch the icon anew with every address.
  const [typed, type] = useState({ query, text: asked.text });
  const choice = typed.query === query ? { ...asked, text: typed.text } : asked;
  const chosen = chosenFrom(scores, choice);
  // A new entry in the history for every choice would make the back button useless.
  const choose = (next: Choice) => replaceAddress(store, addressOf(next));
  const toggle = (tier: ForgeTier) => choose(toggled(choice, tier));
  const find = "Find a protocol, category, chain or TVL";
  return (
    <>
      <SkipTo id="protocols">Skip to the protocols</SkipTo>
      <Movers scores={scores} />
      <div class="distribution">
        <p class="quiet">Protocols by BRI, in columns of 25 points</p>
        <Distribution scores={scores} chosen={choice.tiers} onPick={toggle} />
      </div>
      <fieldset class="chips">
        <legend class="unseen">Tiers</legend>
        {tiers.map((tier) => (
          <button
            key={tier}
            type="button"
            class="chip"
            aria-pressed={choice.tiers.includes(tier) ? "true" : "false"}
            onClick={() => toggle(tier)}
          >
            <Tier name={tier} />
            <span class="quiet tally">{scores.filter(({ forgeScale }) => forgeScale === tier).length}</span>
          </button>
        ))}
      </fieldset>
      <div class="row tools">
        <Field
          id="filter"
          type="search"
          placeholder={find}
          aria-label={find}
          query={query}
          text={asked.text}
          onInput={({ currentTarget }) => type({ query, text: currentTarget.value })}
          enter={(text) => choose({ ...choice, text })}
          pause={400}
        />
        <p class="count" role="status">
          <b>{grouped(chosen.length)}</b> of {counted(scores.length, "protocol")}
        </p>
      </div>
      <Table
        scores={scores}
        chosen={chosen}
        choice={choice}
        sortBy={(column) => choose(sortedBy(choice, column))}
      />
      <TakeScores scores={scores} />
    </>
  );
}

function TakeScores({ scores }: { scores: readonly ScoreListEntry[] }) {
  const { api } = useSite();
  return (
    <TakeAlong
      name="scores"
      title="The BRI of all protocols"
      n={counted(scores.length, "protocol")}
      legend={tiers.map((text) => ({ text, class: `tier-${numberOf(text)}` }))}
      picture={() => <Distribution scores={scores} />}
      asked={() => [{ path: "scores" }]}
      {...(api.published !== undefined && { embed: `${api.published}embed/index.html` })}
    />
  );
}
