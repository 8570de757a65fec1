import { useState } from "preact/hooks";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/versions.ts";
import { Distribution } from "../../charts/columns.tsx";
import { Field } from "../../components/field.tsx";
import { TakeAlong } from "../../components/take-along.tsx";
import { Change, Moment, ProtocolLink, SkipTo, Tier } from "../../components/text.tsx";
import { Loading, View } from "../../components/view.tsx";
import { useLoaded, useSite } from "../../model/hooks.ts";
import { replaceAddress } from "../../model/state.ts";
import { ago, counted, grouped, minutes, numberOf, tiers } from "../../model/words.ts";
import { addressOf, type Choice, choiceIn, chosenFrom, Table } from "./table.tsx";

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
  const { api, store } = useSite();
  const inAddress = choiceIn(query);
  // Typed text filters at once, and reaches the address later: browsers fetch the icon anew with every address.
  const [typed, type] = useState({ query, text: inAddress.text });
  const choice = typed.query === query ? { ...inAddress, text: typed.text } : inAddress;
  const chosen = chosenFrom(scores, choice);
  // A new entry in the history for every choice would make the back button useless.
  const choose = (next: Choice) => replaceAddress(store, addressOf(next));
  const toggle = (tier: ForgeTier) => {
    const others = choice.tiers.filter((name) => name !== tier);
    choose({ ...choice, tiers: choice.tiers.includes(tier) ? others : [...others, tier] });
  };
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
          text={inAddress.text}
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
        sortBy={(column) => {
          const descending = choice.column === column ? !choice.descending : !column.ascending;
          choose({ ...choice, column, descending });
        }}
      />
      <TakeAlong
        name="scores"
        title="The BRI of all protocols"
        n={counted(scores.length, "protocol")}
        legend={tiers.map((text) => ({ text, class: `tier-${numberOf(text)}` }))}
        picture={() => <Distribution scores={scores} />}
        requests={() => [{ path: "scores" }]}
        {...(api.published !== undefined && { embed: `${api.published}embed/index.html` })}
      />
    </>
  );
}

const week = 7 * 86_400_000;
const most = 20;

/** The biggest moves of the runs of a week, and the changes of tier in it. */
export function Week() {
  const { api } = useSite();
  const list = useLoaded((signal) => api.scores.scores({ signal }), []);
  const tiers = useLoaded((signal) => api.scores.tiers({ signal }), []);
  const newest = newestRun(list.value?.scores ?? []);
  // The week ends with the newest run rather than today, because nothing follows that run.
  const since = newest ? new Date(Date.parse(newest) - week).toISOString() : "";
  return (
    <View
      title="What changed this week"
      lede={newest && <p class="lede">The seven days up to {minutes(newest)}, the newest run.</p>}
    >
      <h2>Biggest moves</h2>
      <Loading of={list} words="Loading the scores…">
        {({ scores }) => <Moves scores={scores.filter(({ updatedAt }) => updatedAt >= since)} />}
      </Loading>
      <h2>Changes of tier</h2>
      <Loading of={tiers} words="Loading the changes…">
        {({ changes }) => {
          const recent = changes.filter(({ at }) => at >= since);
          if (recent.length === 0) return <p>No protocol changed its tier.</p>;
          return (
            <ol class="moves">
              {recent.map(({ slug, from, to, bri, at }) => (
                <li key={`${slug} ${at}`}>
                  <ProtocolLink slug={slug} />: <Tier name={from} /> → <Tier name={to} />, BRI {bri},{" "}
                  <Moment iso={at} />
                </li>
              ))}
            </ol>
          );
        }}
      </Loading>
    </View>
  );
}

function Moves({ scores }: { scores: readonly ScoreListEntry[] }) {
  const moved = moversOf(scores);
  return (
    <>
      <p class="quiet">
        {counted(scores.length, "protocol")} had a run, {counted(moved.length, "of them", "of them")} with
        another score than before. Each is listed by its last run.
      </p>
      <ol class="moves">
        {moved.slice(0, most).map(({ slug, bri, delta, updatedAt }) => (
          <li key={slug}>
            <ProtocolLink slug={slug} /> {bri - delta} → {bri} <Change value={delta} />,{" "}
            <Moment iso={updatedAt} />
          </li>
        ))}
      </ol>
    </>
  );
}

const few = 5;

const dayAndMonth = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", timeZone: "UTC" });

/** The biggest moves of the day of the newest run, each protocol's in its last run. */
function Movers({ scores }: { scores: readonly ScoreListEntry[] }) {
  const newest = newestRun(scores);
  const all = moversOf(scores.filter(({ updatedAt }) => updatedAt.startsWith(newest.slice(0, 10))));
  if (all.length === 0) return null;
  const moved = all.slice(0, few);
  const least = Math.abs(moved.at(-1)?.delta ?? 0);
  const equal = all.slice(few).filter(({ delta }) => Math.abs(delta) === least).length;
  return (
    <p class="movers">
      <span class="quiet">Biggest moves on {dayAndMonth.format(new Date(newest))}: </span>
      {moved.map(({ slug, delta }, index) => (
        <span key={slug}>
          {index > 0 && ", "}
          <ProtocolLink slug={slug} /> <Change value={delta} />
        </span>
      ))}
      {equal > 0 && `, and ${grouped(equal)} more by ${least} up or down`}
      {" · "}
      <a href="#/week">What changed this week</a>
    </p>
  );
}

/** The time of the newest run of any protocol; an empty text when there is none. */
const newestRun = (scores: readonly ScoreListEntry[]) =>
  scores.reduce((last, { updatedAt }) => (updatedAt > last ? updatedAt : last), "");

/** The biggest move first. */
export const moversOf = <T extends { delta: number }>(all: readonly T[]): T[] =>
  all.filter(({ delta }) => delta !== 0).toSorted((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
