import { createContext } from "preact";
import { useContext, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
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
export type Loaded<T> = ReturnType<typeof useLoaded<T>>;

/**
 * Loads when the component is drawn first, when an input changes, and when the site shows everything anew. `load` must
 * end when its signal is aborted, which happens when the answer is no longer wanted.
 */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]) {
  const round = useStored((state) => state.round);
  const [settled, settle] = useState<{ asking?: object; value?: T; error?: unknown }>({});
  const { asking, again } = useAsking(
    async ({ signal }) => {
      const answer = await load(signal).then(
        (value) => ({ asking, value }),
        (error) => ({ asking, error }),
      );
      if (!signal.aborted) settle(answer);
    },
    [...inputs, round],
  );
  const busy = settled.asking !== asking;
  return { value: settled.value, error: busy ? undefined : settled.error, busy, again };
}

/**
 * Calls `ask` when the component is drawn first, when an input changes, and for `again`, and aborts the request before.
 * `asking` is a new object for each request, to tell requests apart.
 */
export function useAsking(ask: (ending: AbortController) => void, inputs: readonly unknown[]) {
  const [tries, again] = useReducer((count: number) => count + 1, 0);
  const asking = useMemo(() => ({}), [...inputs, tries]);
  // A layout effect, so that the request starts at once and not after the next frame.
  useLayoutEffect(() => {
    const ending = new AbortController();
    ask(ending);
    return () => ending.abort();
  }, [asking]);
  return { asking, again: () => again(undefined) };
}

function download(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/**
 * Saves files that are made on demand. `saving` is the name of the file in the making, `problem` the reason why there
 * is none.
 */
export function useSaving() {
  const [problem, setProblem] = useState<unknown>();
  const [saving, setSaving] = useState("");
  const save = async (name: string, make: () => Blob | Promise<Blob>) => {
    setSaving(name);
    setProblem(undefined);
    try {
      download(await make(), name);
    } catch (error) {
      setProblem(error);
    }
    setSaving("");
  };
  return { problem, saving, save };
}
