import { useEffect } from "preact/hooks";
import { useSite, useStored } from "../model/store.ts";
import { minutes } from "../model/words.ts";
import { PlainButton } from "./text.tsx";

/** Asks now and then which snapshot is served, as long as the reader looks at the page. */
export function useNews(): void {
  const { api } = useSite();
  useEffect(() => {
    if (!api.live) return undefined;
    // The views report failed requests.
    const look = () => document.visibilityState === "visible" && api.look().catch(() => {});
    look();
    const timer = setInterval(look, 60_000);
    window.addEventListener("hashchange", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      window.removeEventListener("hashchange", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, [api]);
}

export function News() {
  const { store } = useSite();
  const newest = useStored((state) => state.newest);
  const shown = useStored((state) => state.shown);
  // Another process behind the same address may be late, and serve an older one.
  const isNewer = newest && shown && newest.commit > shown.commit;
  const show = () => {
    document.getElementById("main")?.focus({ preventScroll: true });
    store.again({ shown: newest });
  };
  return (
    <div id="news" role="status">
      {isNewer && (
        <>
          Newer data was published {minutes(newest.publishedAt)}.{" "}
          <PlainButton onClick={show}>Show it</PlainButton>
        </>
      )}
    </div>
  );
}

/** Which snapshot the page shows, and where its data is. */
export function Colophon() {
  const { api, store } = useSite();
  const scores = api.scores === api.service ? `${api.base}/scores` : "api/v1/scores.json";
  return (
    <footer class="wide" id="about">
      <SnapshotShown />
      <p class="quiet">
        Data: <a href={scores}>scores as JSON</a> · <a href="#/meanings">What the numbers mean</a> ·{" "}
        <PlainButton onClick={() => store.set({ jumps: true })}>Go to… (Ctrl+K)</PlainButton>
        {/* The service serves its documentation beside its API. */}
        {api.live && (
          <>
            {" "}
            · <a href={new URL("../../docs/", `${api.base}/`).href}>API reference</a>
          </>
        )}
      </p>
    </footer>
  );
}

function SnapshotShown() {
  const state = useStored(({ shown, newest }) => shown ?? newest);
  // A view of an earlier state says which one it is.
  const isEarlier = useStored(({ route }) => "query" in route && route.query.has("asOf"));
  return (
    <p class="quiet">
      {state && (
        <>
          {isEarlier ? "The present snapshot is " : "Snapshot "}
          <code title={state.snapshotId}>{state.snapshotId.slice(0, 12)}</code>, published{" "}
          {minutes(state.publishedAt)}, checked {minutes(state.checkedAt)}.
          {state.stale && (
            <strong> No publish run has succeeded recently, so the data may be out of date.</strong>
          )}
        </>
      )}
    </p>
  );
}
