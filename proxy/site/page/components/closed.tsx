import { Fragment } from "preact";
import type { Status } from "../../../../schemas/envelopes.ts";
import { Bar } from "../charts/bar.tsx";
import { comparedIn, filtersOf, sides } from "../model/filters.ts";
import { useLoaded, useSite, useStored } from "../model/hooks.ts";
import { counted, grouped, numberOf, tiers } from "../model/words.ts";
import { AskForKey, planNames } from "./access.tsx";
import { FilterWords, PlainButton, Tier } from "./text.tsx";
import { Section } from "./view.tsx";

/** What a key opens, in words: a picture of it would look like an answer. */
export function KeyOffer({ words }: { words: string }) {
  const { api, store } = useSite();
  const keyed = useStored((state) => state.keyed);
  return (
    <div class="measure promise">
      <p>{words}</p>
      <AskForKey />
      {!keyed && api.live && (
        <PlainButton onClick={() => store.set({ asksForKey: true })}>Enter an API key</PlainButton>
      )}
    </div>
  );
}

/**
 * What a reader without an Aegis key sees of the archive: what was asked, how large the archive is, and what the key
 * opens.
 */
export function Closed({ subject, query }: { subject: string; query?: URLSearchParams }) {
  const { api } = useSite();
  const plan = useStored((state) => state.keyed && planNames[state.plan]);
  if (!api.live)
    return (
      <>
        <p>This copy of the site has only files. {subject} needs the service and an Aegis key.</p>
        <AskForKey />
      </>
    );
  // If the address asks for more, the counts by tier would look like the answer.
  const byTier = query !== undefined && [...query.keys()].every((name) => name === "tier");
  return (
    <>
      {query && query.size > 0 && <Asked query={query} secret={byTier ? "Which" : "How many"} />}
      <KeyOffer
        words={
          `${subject} needs a key of the Aegis plan${plan ? `; yours is on the ${plan} plan` : ""}` +
          ". It opens search, exact counts beside every choice, the distribution of every score, and every market " +
          "with its evidence and a proof to verify."
        }
      />
      <ArchiveSize byTier={byTier} />
    </>
  );
}

function ArchiveSize({ byTier }: { byTier: boolean }) {
  const { api } = useSite();
  // The page works without the count.
  const { value } = useLoaded(() => api.pin(), []);
  return (
    <>
      <p class="count">
        {value && (
          <>
            <b>{counted(value.counts.markets, "market")}</b> are in the whole archive. The newest resolved on{" "}
            {value.newestResolvedAt.slice(0, 10)}.
          </>
        )}
      </p>
      {byTier && value?.marketsByTier && <TierCounts counts={value.marketsByTier} />}
    </>
  );
}

/** How many markets each tier has, which takes no key. The safest tier comes first. */
function TierCounts({ counts }: { counts: NonNullable<Status["marketsByTier"]> }) {
  const max = Math.max(...Object.values(counts), 1);
  return (
    <ul class="bare tier-counts" aria-label="Markets by tier">
      {tiers.toReversed().map((tier) => (
        <li key={tier} class={`tier-${numberOf(tier)}`}>
          <Tier name={tier} />
          <Bar value={counts[tier]} max={max} />
          <span class="number">{grouped(counts[tier])}</span>
        </li>
      ))}
    </ul>
  );
}

/**
 * The request in an address to the archive, without an answer. `secret`, such as `Which`, begins the sentence about
 * what takes a key.
 */
function Asked({ query, secret }: { query: URLSearchParams; secret: string }) {
  const side = Object.entries(sides).find(([value]) => value === (query.get("show") ?? ""))?.[1] ?? sides[""];
  const filters = [...filtersOf(query)];
  const compared = comparedIn(query);
  const isAll = filters.length + compared.length === 0;
  return (
    <Section id="shared" class="shared" title={side}>
      <p>This address asks for {isAll ? "all markets." : "markets with:"}</p>
      <ul class="row bare chosen" aria-label="Filters in the address">
        {filters.map(([name, value]) => (
          <li key={name}>
            <FilterWords name={name} value={value} />
          </li>
        ))}
        {compared.length > 0 && (
          <li>
            Formula versions compared:{" "}
            {compared.map((name, index) => (
              <Fragment key={name}>
                {index > 0 && " and "}
                <bdi>{name}</bdi>
              </Fragment>
            ))}
          </li>
        )}
      </ul>
      <p class="quiet">{secret} those are, and what they say, takes a key.</p>
    </Section>
  );
}
