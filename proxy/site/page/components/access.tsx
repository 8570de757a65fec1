import { Fragment } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Status } from "../../../../schemas/envelopes.ts";
import { contactText } from "../../../../schemas/names.ts";
import type { Usage } from "../../client/client.ts";
import { Bar } from "../charts/picture.tsx";
import { comparedIn, filtersOf, sides } from "../model/filters.ts";
import { useLoaded, useSite, useStored } from "../model/hooks.ts";
import { isKeyed } from "../model/state.ts";
import { counted, grouped, numberOf, tiers } from "../model/words.ts";
import { Refusal, refused } from "./field.tsx";
import { FilterWords, OutsideLink, PlainButton, Tier } from "./text.tsx";
import { Section } from "./view.tsx";

const planNames: Record<Usage["plan"], string> = {
  free: "Free",
  developer: "Developer",
  aegis: "Aegis",
};

/** The plan and its quota, and a form to enter a key or a button to forget it. */
export function Access() {
  const { api } = useSite();
  const plan = useStored((state) => state.plan);
  const quota = useStored((state) => state.quota);
  const keyed = useStored(isKeyed);
  const place = useRef<HTMLDivElement>(null);
  // The button that was pressed goes away, so the focus must move.
  const before = useRef(keyed);
  useLayoutEffect(() => {
    if (before.current !== keyed) place.current?.querySelector<HTMLElement>("summary, button")?.focus();
    before.current = keyed;
  }, [keyed]);
  if (!api.live)
    return (
      <p class="quiet">
        This copy of the site has only files. It shows the scores; history and archive need the service.
      </p>
    );
  return (
    <div class="row access" ref={place}>
      <p class="quiet standing">
        <strong>{planNames[plan]} plan</strong>
        {quota && (
          <>
            {" "}
            · {grouped(quota.remaining)} of {grouped(quota.limit)} <a href="#/meanings/requests">requests</a>{" "}
            left today
          </>
        )}
      </p>
      {keyed ? <PlainButton onClick={() => api.forgetKey()}>Forget key</PlainButton> : <KeyEntry />}
    </div>
  );
}

function KeyEntry() {
  const { api, store } = useSite();
  const open = useStored((state) => state.asksForKey);
  const field = useRef<HTMLInputElement>(null);
  const [error, refuse] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    if (open || error) field.current?.focus();
  }, [open, error]);
  const submit = async (event: Event) => {
    event.preventDefault();
    const key = field.current?.value.trim() ?? "";
    if (field.current) field.current.value = "";
    refuse(undefined);
    if (key === "") return refuse(new Error("Enter a key first."));
    setBusy(true);
    try {
      await api.useKey(key);
      store.set({ asksForKey: false });
    } catch (refused) {
      refuse(refused);
      setBusy(false);
    }
  };
  return (
    <details
      class="key"
      open={open}
      onToggle={({ currentTarget }) => {
        // The event comes late, so it may be about an earlier state.
        if (currentTarget.open !== store.state.asksForKey) store.set({ asksForKey: currentTarget.open });
      }}
    >
      <summary>Enter an API key</summary>
      <form id="key-form" class="panel" autocomplete="off" noValidate onSubmit={submit}>
        <label for="key">API key</label>
        <div class="joined">
          <input
            ref={field}
            id="key"
            type="password"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            required
            {...refused("key", error)}
            aria-describedby="problem-key key-note"
          />
          <button type="submit" disabled={busy}>
            Use key
          </button>
        </div>
        <p id="key-note" class="quiet">
          Kept in this page’s memory until you leave it, and stored nowhere.
        </p>
        <AskForKey />
        <Refusal of="key" error={error} />
      </form>
    </details>
  );
}

/** What a key opens, in words: a picture of it would look like an answer. */
export function KeyOffer({ words }: { words: string }) {
  const { api, store } = useSite();
  const keyed = useStored(isKeyed);
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
  const plan = useStored((state) => isKeyed(state) && planNames[state.plan]);
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
      {query && query.size > 0 && <SharedRequest query={query} secret={byTier ? "Which" : "How many"} />}
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
function SharedRequest({ query, secret }: { query: URLSearchParams; secret: string }) {
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

/** Says where a key comes from, if the operator names a place. */
function AskForKey() {
  const { contact } = useSite().api;
  if (contact === undefined) return null;
  const isMailbox = contact.startsWith("mailto:");
  return (
    <p class="quiet">
      Ask for a key:{" "}
      {isMailbox ? <a href={contact}>{contactText(contact)}</a> : <OutsideLink address={contact} />}
    </p>
  );
}
