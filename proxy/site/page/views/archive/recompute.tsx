import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Trust } from "../../../client/client.ts";
import { labels, scores } from "../../model/filters.ts";
import { useSite, useStored } from "../../model/store.ts";
import { counted, size } from "../../model/words.ts";
import { Failure } from "../../parts/failure.tsx";
import { PlainButton } from "../../parts/text.tsx";
import { Recomputed } from "./recomputed.tsx";

/** Bytes for each market, of all columns of the index and of the words of the questions. */
const [columnBytes, wordBytes] = [13.6, 8];
/** Of an archive's index that hardly has markets. */
const leastBytes = 10_000;
/** A request of the quota pays for so many. */
const unitBytes = 2 ** 18;

/** Why the numbers of a snapshot could not be recomputed. */
interface Failed {
  asOf: string;
  error: unknown;
}

const toButton = () => document.getElementById("recompute")?.focus({ preventScroll: true });

/** The offer to recompute the totals and counts of a snapshot in this browser, and whether it is open. */
export function useRecomputing() {
  const { api } = useSite();
  const [isOpen, open] = useState(false);
  const [failed, fail] = useState<Failed>();
  /** Takes the service's numbers from now on, and says why. */
  const refuse = (asOf: string, error: unknown) => {
    api.own = undefined;
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
  <button
    id="recompute"
    type="button"
    class="plain"
    aria-controls="recomputing"
    aria-expanded={isOpen ? "true" : "false"}
    onClick={() => open(!isOpen)}
  >
    {useOwn(asOf) ? "✓ Recomputed" : "Recompute here"}
  </button>
);

/** The panel that offers to recompute, and then tells what was checked. `changed` asks for all numbers anew. */
export function RecomputePanel({ asOf, recomputing, changed }: RecomputeProps & { changed: () => void }) {
  const { api } = useSite();
  const own = useOwn(asOf);
  const { isOpen, open, failed, fail } = recomputing;
  const { key, entry = "" } = api.own?.trust ?? {};
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
      const by = [...labels, ...scores, "month"];
      const first = await api.service.recompute({ by, asOf, trust, signal: ending.signal });
      api.own = { asOf, trust, first };
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
    api.own = undefined;
    leave();
    changed();
  };
  return (
    <section ref={panel} id="recomputing" class="recomputing" aria-label="Recompute here" hidden={!isOpen}>
      {isOpen && (
        <div>
          {fetching ? (
            <Fetching cancel={() => fetching.abort()} />
          ) : own ? (
            <Recomputed first={own.first}>
              <PlainButton onClick={leave}>Close</PlainButton>
              <PlainButton onClick={giveUp}>Show the service’s numbers again</PlainButton>
            </Recomputed>
          ) : (
            <>
              {failed?.asOf === asOf && (
                <>
                  <Failure error={failed.error} />
                  <p>
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

function Offer() {
  const { api } = useSite();
  const markets = api.shown?.counts.markets ?? 0;
  const bytes = leastBytes + columnBytes * markets;
  const takes: ComponentChildren[] = [
    `It takes about ${size(bytes)} and ${counted(3 + Math.ceil(bytes / unitBytes), "request")} of the day’s quota. `,
    api.own && "Of that, only what changed since the snapshot before is fetched. ",
    `The first search for words takes about ${size(leastBytes + wordBytes * markets)} more, and each list of ` +
      "markets a request more.",
  ];
  return (
    <>
      <p>
        This page can count for itself. It fetches the columns of the archive’s index, checks every byte of
        them against the root that the log’s entry of this snapshot names, and from then on evaluates filters
        and brushes in this browser, without asking the service for a number.
      </p>
      <p>{takes}</p>
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
  const field = useRef<HTMLTextAreaElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const trust = trustIn(text);
    setWrong(!trust);
    if (trust) start(trust);
    else field.current?.focus();
  };
  return (
    <form class="verify" onSubmit={submit} noValidate>
      <label for="trust">Publisher’s key or policy, or the hash of the log’s entry, if you have it</label>
      <div class="joined">
        <textarea
          ref={field}
          id="trust"
          rows={1}
          autocomplete="off"
          spellcheck={false}
          placeholder="NAME+ID+BASE64"
          aria-describedby="trust-problem"
          aria-invalid={isWrong ? "true" : undefined}
          value={text}
          onInput={({ currentTarget }) => type(currentTarget.value)}
        />
        <button type="submit">Fetch and recompute</button>
      </div>
      <div id="trust-problem">{isWrong && <Failure error={noTrust} />}</div>
    </form>
  );
}

const noTrust = new Error(
  "A key is NAME+ID+BASE64, a policy is the text of its file, and a hash has 64 hexadecimal digits.",
);

/** What a reader entered to check against, or undefined when it is nothing of the kind. */
function trustIn(text: string): Trust | undefined {
  const entered = text.trim();
  if (entered === "") return {};
  if (/^[0-9a-f]{64}$/.test(entered)) return { entry: entered };
  return /^[^\s+]+\+[0-9a-f]{8}\+\S+$/.test(entered) || /\s/.test(entered) ? { key: entered } : undefined;
}
