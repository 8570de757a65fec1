import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Recomputed, Trust } from "../../../client/client.ts";
import { Refusal, refused } from "../../components/field.tsx";
import { Facts, PlainButton } from "../../components/text.tsx";
import { Failure } from "../../components/view.tsx";
import { useSite, useStored } from "../../model/hooks.ts";
import { counted, grouped, minutes, size } from "../../model/words.ts";
import { facets } from "./answers.ts";

const toButton = () => document.getElementById("recompute")?.focus({ preventScroll: true });

/** The offer to recompute the totals and counts of a snapshot in this browser, and whether it is open. */
export function useRecomputing() {
  const { store } = useSite();
  const [isOpen, open] = useState(false);
  const [failed, fail] = useState<{ asOf: string; error: unknown }>();
  /** Shows the service's numbers from now on, and says why. */
  const refuse = (asOf: string, error: unknown) => {
    store.set({ own: undefined });
    fail({ asOf, error });
    open(true);
  };
  return { isOpen, open, failed, fail, refuse };
}

type Recomputing = ReturnType<typeof useRecomputing>;

interface RecomputeProps {
  /** The snapshot whose numbers the page shows. */
  asOf: string;
  recomputing: Recomputing;
}

const useOwn = (asOf: string) => useStored(({ own }) => (own?.asOf === asOf ? own : undefined));

export const RecomputeButton = ({ asOf, recomputing: { isOpen, open } }: RecomputeProps) => (
  <PlainButton
    id="recompute"
    aria-controls="recomputing"
    aria-expanded={isOpen ? "true" : "false"}
    onClick={() => open(!isOpen)}
  >
    {useOwn(asOf) ? "✓ Recomputed" : "Recompute here"}
  </PlainButton>
);

/** The panel that offers to recompute, and then tells what was checked. `changed` loads all numbers anew. */
export function RecomputePanel({ asOf, recomputing, changed }: RecomputeProps & { changed: () => void }) {
  const { api, store } = useSite();
  const own = useOwn(asOf);
  const { isOpen, open, failed, fail } = recomputing;
  const { key, entry = "" } = api.state.own?.trust ?? {};
  const [text, type] = useState(`${key ?? entry}`);
  const [fetching, setFetching] = useState<AbortController>();
  const panel = useRef<HTMLElement>(null);
  useEffect(() => () => fetching?.abort(), [fetching, asOf]);
  const start = async (trust: Trust) => {
    const ending = new AbortController();
    fail(undefined);
    setFetching(ending);
    try {
      if (!crypto.subtle) throw new Error("Browsers verify on secure origins only: use https.");
      const first = await api.service.recompute({ by: facets, asOf, trust, signal: ending.signal });
      store.set({ own: { asOf, trust, first } });
      changed();
    } catch (error) {
      if (!ending.signal.aborted) fail({ asOf, error });
    }
    const { activeElement } = document;
    if (activeElement === document.body || panel.current?.contains(activeElement)) toButton();
    setFetching(undefined);
  };
  const leave = () => {
    open(false);
    toButton();
  };
  const giveUp = () => {
    store.set({ own: undefined });
    leave();
    changed();
  };
  return (
    <section
      ref={panel}
      id="recomputing"
      class="panel recomputing"
      aria-label="Recompute here"
      hidden={!isOpen}
    >
      {isOpen && (
        <div>
          {fetching ? (
            <Fetching cancel={() => fetching.abort()} />
          ) : own ? (
            <Report first={own.first}>
              <PlainButton onClick={leave}>Close</PlainButton>
              <PlainButton onClick={giveUp}>Show the service’s numbers again</PlainButton>
            </Report>
          ) : (
            <>
              {failed?.asOf === asOf && (
                <>
                  <Failure error={failed.error} />
                  <p class="measure">
                    <strong>No number of this page is verified. </strong>
                    Those that it shows are the service’s word.
                  </p>
                </>
              )}
              <Offer />
              <TrustForm {...{ text, type, start }} />
            </>
          )}
        </div>
      )}
    </section>
  );
}

function Fetching({ cancel }: { cancel: () => void }) {
  const { store } = useSite();
  const [before] = useState(store.state.fetched.bytes);
  const bytes = useStored(({ fetched }) => fetched.bytes) - before;
  const place = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => place.current?.querySelector("button")?.focus(), []);
  return (
    <p ref={place} role="status">
      <span>{bytes > 0 ? `Fetching and checking: ${size(bytes)}…` : "Asking which index there is…"}</span>{" "}
      <PlainButton onClick={cancel}>Cancel</PlainButton>
    </p>
  );
}

/** Bytes per market: of all columns of the index, and of the words of the questions. */
const [columnBytes, wordBytes] = [13.6, 8];
/** Bytes of the index of an archive with hardly any markets. */
const leastBytes = 10_000;
/** How many bytes one request of the quota pays for. */
const unitBytes = 2 ** 18;

function Offer() {
  const { own, shown } = useSite().store.state;
  const markets = shown?.counts.markets ?? 0;
  const bytes = leastBytes + columnBytes * markets;
  const takes: ComponentChildren[] = [
    `It takes about ${size(bytes)} and ${counted(3 + Math.ceil(bytes / unitBytes), "request")} of the day’s quota. `,
    own && "Of that, only what changed since the snapshot before is fetched. ",
    `The first search for words takes about ${size(leastBytes + wordBytes * markets)} more, and each list of ` +
      "markets a request more.",
  ];
  return (
    <>
      <p class="measure">
        This page can count for itself. It fetches the columns of the archive’s index, checks every byte of
        them against the root that the log’s entry of this snapshot names, and from then on evaluates filters
        and brushes in this browser, without asking the service for a number.
      </p>
      <p class="measure">{takes}</p>
    </>
  );
}

interface TrustFormProps {
  text: string;
  type: (text: string) => void;
  start: (trust: Trust) => void;
}

function TrustForm({ text, type, start }: TrustFormProps) {
  const [isWrong, setWrong] = useState(false);
  const error = isWrong ? noTrust : undefined;
  const field = useRef<HTMLTextAreaElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const trust = trustIn(text);
    setWrong(!trust);
    if (trust) start(trust);
    else field.current?.focus();
  };
  return (
    <form class="measure" onSubmit={submit} noValidate>
      <label for="trust">Publisher’s key or policy, or the hash of the log’s entry, if you have it</label>
      <div class="joined">
        <textarea
          ref={field}
          id="trust"
          rows={1}
          autocomplete="off"
          spellcheck={false}
          placeholder="NAME+ID+BASE64"
          {...refused("trust", error)}
          value={text}
          onInput={({ currentTarget }) => type(currentTarget.value)}
        />
        <button type="submit">Fetch and recompute</button>
      </div>
      <Refusal of="trust" error={error} />
    </form>
  );
}

const noTrust = new Error(
  "A key is NAME+ID+BASE64, a policy is the text of its file, and a hash has 64 hexadecimal digits.",
);

/** Parses what a reader entered to check against; undefined for a text that is neither a digest, a key nor a policy. */
function trustIn(text: string): Trust | undefined {
  const entered = text.trim();
  if (entered === "") return {};
  if (/^[0-9a-f]{64}$/.test(entered)) return { entry: entered };
  return /^[^\s+]+\+[0-9a-f]{8}\+\S+$/.test(entered) || /\s/.test(entered) ? { key: entered } : undefined;
}

/** What was fetched, who vouches for it, what was checked, and what was not. */
function Report({ first, children }: { first: Recomputed; children: ComponentChildren }) {
  const { snapshotId, commit, vouched } = first;
  const { by, checkpoint, entry, publishedAt } = vouched;
  const { bytes, requests } = useStored(({ fetched }) => fetched);
  return (
    <>
      <p class="measure" role="status">
        <strong>✓ Recomputed. </strong>
        Totals, counts and charts with a ✓ were counted in this browser. Filters and brushes ask the service
        for none of them, only for the markets to list.
      </p>
      <div class="cards">
        <section>
          <Facts
            rows={[
              ["Fetched", `${size(bytes)} in ${counted(requests, "request")}`],
              ["Vouched for by", voucher(vouched)],
              ["Published", minutes(publishedAt)],
              [
                "Snapshot",
                <>
                  <code title={snapshotId}>{snapshotId.slice(0, 12)}</code>, commit {grouped(commit)}
                </>,
              ],
              ["Entry of the log", <code key="entry">{entry}</code>],
            ]}
          />
        </section>
        <section>
          <h2>What was checked</h2>
          <ul>
            <li>
              Every byte that was counted, also of what this browser had kept: by SHA-256, against the index
              root that the entry of the log names.
            </li>
            <li>
              That this entry is about this snapshot
              {checkpoint !== null &&
                `, and that the log ${checkpoint.origin} has it, of ${counted(checkpoint.size, "commit")}`}
              .
            </li>
            {by.length > 0 && <li>That it is what you trust, by {voucher(vouched)}.</li>}
            <li>
              That the markets listed are those that match, in order and none left out, by the hashes of their
              records.
            </li>
          </ul>
        </section>
        <section>
          <h2>What was not</h2>
          <ul>
            {by.length === 0 && (
              <li>
                {checkpoint === null
                  ? "Who published it: nobody signed the log."
                  : "Who published it: the log is signed, but you entered no key, so its signatures were not checked " +
                    "against a key that does not come from this service."}
              </li>
            )}
            {checkpoint !== null && commit < checkpoint.size && (
              <li>
                Whether this snapshot still counts: it is commit {grouped(commit)}, and the log goes on to
                commit {grouped(checkpoint.size)}.
              </li>
            )}
            <li>
              This page: its code comes from the service that it checks. A dishonest service could send code
              that says all this too. <code>npm run ask</code> and the client in a program of your own do not
              depend on it, with a key that you have from elsewhere.
            </li>
            <li>
              In a search for words, which characters belong to a word: that depends on the version of
              Unicode, and a browser does not tell its own.
            </li>
            <li>
              Whether the index says of a market what its record says: <code>npm run snapshot -- verify</code>{" "}
              and <code>npm run sync</code> check that of all records.
            </li>
          </ul>
        </section>
      </div>
      <p class="row tight">{children}</p>
    </>
  );
}

/** Who says that the entry of the log is the publisher's. */
function voucher({ by, checkpoint }: Recomputed["vouched"]) {
  if (by.includes("policy"))
    return `a log’s key of your policy, and ${counted(checkpoint?.cosigners ?? 0, "witness", "witnesses")} of it`;
  if (by.includes("key")) return "the signature of the key that you entered";
  if (by.includes("entry")) return "the hash that you entered";
  return "nobody but the service";
}
