import { useRef, useState } from "preact/hooks";
import type { MarketPage } from "../../../../../schemas/envelopes.ts";
import { ApiError, type Filters, type Trust, VerificationError } from "../../../client/client.ts";
import type { Api } from "../../model/api.ts";
import {
  type Ask,
  archiveAddress,
  type Counts,
  changed,
  comparedIn,
  countsOf,
  filtersOf,
  labelOf,
  labels,
  othersOf,
  ownOf,
  scores,
  without,
} from "../../model/filters.ts";
import { useAsking, useSite } from "../../model/hooks.ts";
import { wantedFor } from "./reliability.tsx";

const defaultPageSize = "25";

export const histograms = [...scores, "month"];
export const facets = [...labels, ...histograms];

/** Counts by a facet under a query. Recomputed ones come from this browser. */
export interface FacetAnswer {
  counts: unknown;
  query: URLSearchParams;
  isRecomputed: boolean;
}

/** What each facet of the archive is drawn from. */
export interface FacetProps {
  facet: string;
  query: URLSearchParams;
  answer: FacetAnswer | undefined;
  isBusy: boolean;
  go: (query: URLSearchParams) => void;
}

/** The content of the chosen tab, and its query. */
type Side = { query: URLSearchParams; isRecomputed?: boolean } & (
  | { kind: "list"; page: MarketPage }
  | { kind: "shares"; counts: Counts }
  | { kind: "file"; asOf: string; total: number }
  | { kind: "failed"; error: unknown }
);

interface Shown {
  asOf: string;
  total?: { count: number; isRecomputed: boolean } | undefined;
  facets: Record<string, FacetAnswer>;
  side?: Side | undefined;
  error?: unknown;
  /** The requests for which the figures and the side are complete. */
  figuresFor?: object;
  sideFor?: object;
  /** The request during which a brush shows figures that the side does not belong to. */
  previewFor?: object | undefined;
}

const trustOf = ({ state: { own } }: Api, asOf: string): Trust | undefined =>
  own?.asOf === asOf ? own.trust : undefined;

/** Evaluates totals and counts in this browser; undefined where the service is to be asked. */
function evaluator(api: Api, asOf: string, signal: AbortSignal): Ask | undefined {
  const trust = trustOf(api, asOf);
  return (
    trust && ((by, { asOf: _, ...filters }) => api.service.recompute({ filters, by, asOf, trust, signal }))
  );
}

/** Waits until the page is painted as it is now. */
const painted = () =>
  new Promise<void>((resolve) => {
    // A hidden page is not painted.
    if (document.hidden) resolve();
    else requestAnimationFrame(() => setTimeout(resolve));
  });

/** The facets that are at least partly on the screen. */
const inView = () =>
  [...document.querySelectorAll<HTMLElement>("[data-facet]")].flatMap((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return top < innerHeight && bottom > 0 ? [element.dataset.facet ?? ""] : [];
  });

const isHistogram = (facet: string) => histograms.includes(facet);
/**
 * The answers to a query. The answers to the query before stay until the new ones are here, marked as busy. `refuse` is
 * called with an answer that did not verify.
 */
export function useAnswers(query: URLSearchParams, refuse: (asOf: string, error: unknown) => void) {
  const { api } = useSite();
  const [shown, show] = useState<Shown>({ asOf: "", facets: {} });
  const ending = useRef(new AbortController());
  const following = useRef<{ address: string; cursor: string | null }>(undefined);
  const aim = useRef<URLSearchParams>(undefined);
  const { asking, again } = useAsking(
    (begun) => {
      ending.current = begun;
      aim.current = undefined;
      load(begun.signal);
    },
    [query],
  );

  /** Shows what changes, unless it is no longer wanted. Facets that it leaves out stay. */
  const showIn = (signal: AbortSignal, changes: Partial<Shown>) => {
    signal.throwIfAborted();
    show((before) => ({ ...before, ...changes, facets: { ...before.facets, ...changes.facets } }));
  };

  async function load(signal: AbortSignal) {
    const filters = filtersOf(query);
    const shares = query.get("show") === "score" ? wantedFor(filters, comparedIn(query)) : [];
    let asOf = filters.get("asOf") ?? "";
    const update = (changes: Partial<Shown>) => showIn(signal, changes);
    try {
      asOf ||= (await api.pin()).snapshotId;
      update({ asOf, previewFor: undefined });
      const own = evaluator(api, asOf, signal);
      if (own) {
        // First the histograms in view, and the rest when those are painted.
        const seen = inView().filter(isHistogram);
        const total = await recount(seen, query, own, signal);
        await painted();
        const rest = facets.filter((facet) => !seen.includes(facet));
        await loadCounts(rest, query, own, true, signal, shares);
        update({ figuresFor: asking });
        // The total stands even if the list fails.
        await loadSide(asOf, total, signal).catch((error) => {
          if (error instanceof VerificationError) throw error;
          update({ side: { kind: "failed", query, error } });
        });
      } else {
        const ask: Ask = (by, filters) => api.service.facets(by, { ...filters, asOf }, { signal });
        await Promise.all([
          loadSide(asOf, undefined, signal),
          loadCounts(facets, query, ask, false, signal, shares),
        ]);
      }
      update({ figuresFor: asking, sideFor: asking, error: undefined });
    } catch (error) {
      if (signal.aborted) return;
      ending.current.abort();
      if (error instanceof VerificationError) refuse(asOf, error);
      // The figures shown before are of another query.
      show({ asOf, facets: {}, error, figuresFor: asking, sideFor: asking });
    }
  }

  /** The list of markets, or the files. The shares of disputed markets come with the counts. */
  async function loadSide(asOf: string, counted: number | undefined, signal: AbortSignal) {
    const kind = { score: "shares", file: "file" }[query.get("show") ?? ""] ?? "list";
    const isRecomputed = counted !== undefined;
    const page = !isRecomputed || kind === "list" ? await loadPage(asOf, signal) : undefined;
    const total = counted ?? page?.total ?? 0;
    showIn(signal, {
      ...(!isRecomputed && { total: { count: total, isRecomputed } }),
      ...(kind === "list" && page && { side: { kind, query, page, isRecomputed } }),
      ...(kind === "file" && { side: { kind, query, asOf, total } }),
    });
  }

  async function loadPage(asOf: string, signal: AbortSignal) {
    const wanted = without(query, ["show", "compare"]);
    if (!wanted.has("pageSize")) wanted.set("pageSize", defaultPageSize);
    wanted.set("asOf", asOf);
    const next = following.current;
    const cursor = next?.address === pageAddress(wanted, Number(wanted.get("page"))) && next.cursor;
    const numbers = { pageSize: Number(wanted.get("pageSize")), page: Number(wanted.get("page") ?? 1) };
    const filters = { ...Object.fromEntries(wanted), ...numbers } as Filters;
    const trust = trustOf(api, asOf);
    const proof = trust && { verified: true, trust };
    const page = await api.service.page(cursor ? { cursor } : filters, { signal, ...proof });
    signal.throwIfAborted();
    following.current = { address: pageAddress(wanted, page.page + 1), cursor: page.nextCursor };
    return page;
  }

  /** Evaluates the total and some counts in this browser, and returns the total. */
  async function recount(names: readonly string[], wanted: URLSearchParams, own: Ask, signal: AbortSignal) {
    const { total } = await own([], Object.fromEntries(filtersOf(wanted)) as Filters);
    await loadCounts(names, wanted, own, true, signal);
    showIn(signal, { total: { count: total, isRecomputed: true } });
    return total;
  }

  /** The counts by some facets under the filters of the others, and those of the shares where these are shown. */
  async function loadCounts(
    names: readonly string[],
    wanted: URLSearchParams,
    ask: Ask,
    isRecomputed: boolean,
    signal: AbortSignal,
    shares: ReturnType<typeof wantedFor> = [],
  ) {
    const filters = filtersOf(wanted);
    const pairs = names.map((facet) => [facet, othersOf(facet, filters)] as [string, URLSearchParams]);
    const counts = await countsOf(ask, [...pairs, ...shares]);
    showIn(signal, {
      facets: Object.fromEntries(
        pairs.map(([facet, others]) => [facet, { counts: counts(facet, others), query, isRecomputed }]),
      ),
      ...(shares.length > 0 && { side: { kind: "shares", query, counts, isRecomputed } }),
    });
  }

  /**
   * Shows what would match while a brush moves, where that asks nobody.
   * @param brushed the facet, whose own counts stay
   */
  async function preview(wanted: URLSearchParams, brushed: string) {
    const { signal } = ending.current;
    const own = evaluator(api, shown.asOf, signal);
    if (!own) return;
    // The list stays that of the query before.
    const isBack = `${wanted}` === `${query}`;
    show((before) => ({ ...before, previewFor: isBack ? undefined : asking }));
    aim.current = wanted;
    // Facets drawn on the way may have moved out of view since, as lists became shorter and longer.
    const seen = (isBack ? facets : inView()).filter((facet) => facet !== brushed);
    try {
      await recount(seen.filter(isHistogram), wanted, own, signal);
      await painted();
      const lists = seen.filter((facet) => !isHistogram(facet));
      // The brush may have moved on.
      if (aim.current === wanted) await recount(lists, wanted, own, signal);
    } catch {
      // The query at the end of the drag is evaluated anew, and its errors are shown.
    }
  }

  const isBusy = shown.figuresFor !== asking;
  return {
    shown,
    error: isBusy ? undefined : shown.error,
    isBusy,
    isSideBusy: shown.sideFor !== asking || shown.previewFor === asking,
    again,
    preview,
  };
}

export const pageAddress = (query: URLSearchParams, page: number) =>
  archiveAddress(changed(query, { page: page > 1 ? `${page}` : null }));

/** A refused value, by the field's parameter. */
export type Problem = { parameter: string; error: unknown } | undefined;

export const errorOf = (name: string, problem: Problem) =>
  problem?.parameter === name ? problem.error : undefined;

const fields = ["q", ...histograms.flatMap(ownOf)];

/** The problem of a field, if an error is about the value of one that can show it. */
export function problemIn(error: unknown): Problem {
  const named = error instanceof Error && "parameter" in error ? `${error.parameter}` : "";
  return fields.includes(named) ? { parameter: named, error: inLabels(error) } : undefined;
}

/**
 * Replaces parameter names in an error message by field labels. A name is the first or last word of the message, or
 * contains a `_`. Elsewhere a word like "from" is not a name.
 */
export function inLabels(error: unknown) {
  if (!(error instanceof ApiError)) return error;
  const names = [...labels, ...fields, "page", "pageSize"];
  const detail = error.message.replace(/^\w+|\w+_\w+|\w+(?=\.$)/g, (name) =>
    names.includes(name) ? `“${labelOf(name)}”` : name,
  );
  const title = "parameter" in error && error.parameter ? "Check this" : error.title;
  return new ApiError(error.code, detail, { title });
}
