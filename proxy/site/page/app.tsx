import { render } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Access } from "./components/access.tsx";
import { Jump } from "./components/jump.tsx";
import { MeaningBubble, PlainButton, SkipTo } from "./components/text.tsx";
import { Failure, View } from "./components/view.tsx";
import { Api } from "./model/api.ts";
import { SiteContext, useSite, useStored } from "./model/hooks.ts";
import { keyOf, type Route, Store, startRouter } from "./model/state.ts";
import { minutes } from "./model/words.ts";
import { Archive } from "./views/archive/archive.tsx";
import { Compare } from "./views/compare.tsx";
import { Market } from "./views/market.tsx";
import { Dimension, Meanings } from "./views/meanings.tsx";
import { Protocol } from "./views/protocol/protocol.tsx";
import { Scores, Week } from "./views/scores/scores.tsx";

function Shown({ route: { name, key, query } }: { route: Route }) {
  const asOf = query.get("asOf");
  if (name === "scores") return <Scores query={query} />;
  if (name === "protocol") return <Protocol slug={key} asOf={asOf} />;
  if (name === "archive") return <Archive query={query} />;
  if (name === "compare") return <Compare slugs={[...new Set(key.split(",").filter(Boolean))]} />;
  if (name === "meanings") return <Meanings current={key} />;
  if (name === "dimension") return <Dimension name={key} />;
  if (name === "week") return <Week />;
  if (name === "market") return <Market id={key} asOf={asOf} />;
  return (
    <View title="No such page">
      <p>
        <a href="#/">Go to the scores</a>
      </p>
    </View>
  );
}

function App() {
  const route = useStored((state) => state.route);
  const main = useRef<HTMLElement>(null);
  useNews();
  useFocus(route, main);
  const place = (href: string, name: Route["name"], text: string) => (
    <a href={href} aria-current={route.name === name ? "page" : undefined}>
      {text}
    </a>
  );
  return (
    <>
      <SkipTo id="main">Skip to the content</SkipTo>
      <header class="top">
        <div class="wide">
          <a class="brand" href="#/">
            <img src="site/icon.svg" alt="" width="28" height="28" />
            Protocol Risk Scores
          </a>
          <nav id="nav" aria-label="Views">
            {place("#/", "scores", "Scores")}
            {place("#/archive", "archive", "Archive")}
          </nav>
          <div id="access">
            <Access />
          </div>
          <MeaningBubble />
        </div>
      </header>
      <main ref={main} id="main" class="wide" tabIndex={-1}>
        <Shown key={keyOf(route)} route={route} />
      </main>
      <News />
      <Colophon />
      <Jump />
    </>
  );
}

/** Gives a new view's heading the focus, and scrolls to where the reader was when the history leads back to it. */
function useFocus(route: Route, main: { current: HTMLElement | null }): void {
  const places = useRef<ReturnType<typeof keepPlaces>>(undefined);
  const before = useRef(keyOf(route));
  useLayoutEffect(() => {
    if (!main.current) return;
    const key = keyOf(route);
    const isNew = key !== before.current;
    before.current = key;
    if (!places.current) {
      places.current = keepPlaces(main.current);
      return;
    }
    const known = places.current.enter();
    if (!isNew) return;
    if (!known) window.scrollTo(0, 0);
    const heading = main.current.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }, [route]);
}

/**
 * Keeps the scroll position of each entry of the history. The browser's own restoration would come before the entry's
 * content is loaded.
 */
function keepPlaces(main: HTMLElement): { enter: () => boolean } {
  history.scrollRestoration = "manual";
  const places: Map<number, number> = new Map();
  let here = 0;
  let wanted = 0;
  let giving: ReturnType<typeof setTimeout> | undefined;
  const leave = () => {
    wanted = 0;
  };
  // Scrolls again until enough is loaded to reach the position, and nothing above can still move it away.
  const reach = () => {
    if (wanted === 0) return;
    window.scrollTo(0, wanted);
    if (scrollY >= wanted - 1 && !main.querySelector("[aria-busy]")) leave();
  };
  new ResizeObserver(reach).observe(main);
  for (const how of ["wheel", "touchstart", "keydown", "pointerdown"])
    window.addEventListener(how, leave, { passive: true });
  window.addEventListener(
    "scroll",
    () => {
      if (wanted === 0) places.set(here, scrollY);
      else reach();
    },
    { passive: true },
  );
  const name = () => {
    here = history.state?.place ?? Date.now();
    if (!places.has(here)) places.set(here, 0);
    history.replaceState({ place: here }, "");
  };
  name();
  return {
    enter() {
      // The address was replaced within the entry.
      if (history.state?.place === here) return true;
      const position = places.get(history.state?.place);
      name();
      if (position === undefined) {
        places.set(here, scrollY);
        return false;
      }
      wanted = position;
      clearTimeout(giving);
      giving = setTimeout(leave, 10_000);
      if (position === 0) window.scrollTo(0, 0);
      reach();
      return true;
    },
  };
}

/** Asks now and then which snapshot is served, as long as the reader looks at the page. */
function useNews(): void {
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

function News() {
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
function Colophon() {
  const { api, store } = useSite();
  const scores = api.files ? "api/v1/scores.json" : `${api.base}/scores`;
  return (
    <footer class="wide">
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
  // Only these views have earlier states. They say which one is shown.
  const isEarlier = useStored(
    ({ route: { name, query } }) => ["archive", "market", "protocol"].includes(name) && query.has("asOf"),
  );
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

const root = document.getElementById("site");
if (!root) throw new Error("index.html has no #site");
const store = new Store();
try {
  const api = await Api.find(store);
  startRouter(store);
  render(
    <SiteContext.Provider value={{ api, store }}>
      <App />
    </SiteContext.Provider>,
    root,
  );
} catch (error) {
  render(
    <main id="main" class="wide" tabIndex={-1}>
      <h1>Risk scores</h1>
      <Failure error={error} again={() => location.reload()} />
    </main>,
    root,
  );
}
