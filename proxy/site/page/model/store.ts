import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Api } from "./api.ts";
import type { State, Store } from "./state.ts";

/** What every component can reach. */
export interface Site {
  api: Api;
  store: Store;
}

export const SiteContext = createContext<Site | undefined>(undefined);

export function useSite(): Site {
  const site = useContext(SiteContext);
  if (!site) throw new Error("this component stands outside of the site");
  return site;
}

/** A part of the state. The component is drawn again when that part changes. */
export function useStored<T>(select: (state: State) => T): T {
  const { store } = useSite();
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const value = select(store.state);
  const last = useRef({ select, value });
  last.current = { select, value };
  useLayoutEffect(() => {
    const look = () => {
      if (!Object.is(last.current.select(store.state), last.current.value)) redraw(undefined);
    };
    // The part may have changed between drawing and watching.
    look();
    return store.watch(look);
  }, [store]);
  return value;
}

/** The answer to a request. The value before stays while another is requested, and goes away with an error. */
export interface Loaded<T> {
  value: T | undefined;
  error: unknown;
  busy: boolean;
  again: () => void;
}

/**
 * Loads when the component is drawn first, when an input changes, and when the site shows everything anew. `load` must
 * end when its signal is aborted, which happens when the answer is no longer wanted.
 */
export function useLoaded<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
): Loaded<T> {
  const round = useStored((state) => state.round);
  const [tries, again] = useReducer((count: number) => count + 1, 0);
  // A new object for each request, to tell requests apart.
  const asking = useMemo(() => ({}), [...inputs, round, tries]);
  const [settled, settle] = useState<{ asking?: object; value?: T; error?: unknown }>({});
  // A layout effect, so that the request starts at once and not after the next frame.
  useLayoutEffect(() => {
    const ending = new AbortController();
    const { signal } = ending;
    load(signal).then(
      (value) => {
        if (!signal.aborted) settle({ asking, value });
      },
      (error) => {
        if (!signal.aborted) settle({ asking, error });
      },
    );
    return () => ending.abort();
  }, [asking]);
  const busy = settled.asking !== asking;
  return {
    value: settled.value,
    error: busy ? undefined : settled.error,
    busy,
    again: () => again(undefined),
  };
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Protocol Risk Scores`;
  }, [title]);
}

/** The width of an element in CSS pixels, known before its first paint and kept up to date. */
export function useWidth(fallback: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(fallback);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => {
      // A hidden element has no width.
      if (element.clientWidth > 0) setWidth(element.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}
