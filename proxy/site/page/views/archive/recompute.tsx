import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Trust } from "../../../client/client.ts";
import { Failure } from "../../components/failure.tsx";
import { PlainButton } from "../../components/text.tsx";
import { labels, scores } from "../../model/filters.ts";
import { useSite, useStored } from "../../model/store.ts";
import { size } from "../../model/words.ts";
import { Offer, TrustForm } from "./recompute-offer.tsx";
import { Recomputed } from "./recomputed.tsx";

interface Failed {
  asOf: string;
  error: unknown;
}

const toButton = () => document.getElementById("recompute")?.focus({ preventScroll: true });

/** The offer to recompute the totals and counts of a snapshot in this browser, and whether it is open. */
export function useRecomputing() {
  const { store } = useSite();
  const [isOpen, open] = useState(false);
  const [failed, fail] = useState<Failed>();
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

/** The panel that offers to recompute, and then tells what was checked. `changed` loads all numbers anew. */
export function RecomputePanel({ asOf, recomputing, changed }: RecomputeProps & { changed: () => void }) {
  const { api, store } = useSite();
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
