import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { foldCase } from "../../../../schemas/filters.ts";
import { nameOf } from "../../../../schemas/names.ts";
import { archiveAddress } from "../model/filters.ts";
import { useLoaded, useSite, useStored } from "../model/hooks.ts";
import { tiers } from "../model/words.ts";

interface Place {
  text: string;
  href: string;
}

const mostPlaces = 12;

const archive = (query: Record<string, string>) => archiveAddress(new URLSearchParams(query));

const fixed: readonly Place[] = [
  { text: "Scores", href: "#/" },
  { text: "What changed this week", href: "#/week" },
  { text: "Archive", href: archive({}) },
  { text: "Archive: Do scores mean something?", href: archive({ show: "score" }) },
  { text: "Archive: Download", href: archive({ show: "file" }) },
  { text: "What the numbers mean", href: "#/meanings" },
  { text: "Disputed markets", href: archive({ disputed: "true" }) },
  ...tiers.map((tier) => ({ text: `Markets of tier ${tier}`, href: archive({ tier }) })),
];

/**
 * The places that match the typed text, the best first: by the whole name, its beginning, the beginning of a word, or
 * anything within it. Equally good ones stay in their order.
 */
function placesFor(typed: string, places: readonly Place[]): readonly Place[] {
  const part = foldCase(typed);
  const rankOf = ({ text }: Place) => {
    const name = foldCase(text);
    const isWord = name.split(/[\s:]+/).some((word) => word.startsWith(part));
    return [name === part, name.startsWith(part), isWord, name.includes(part)].indexOf(true);
  };
  const ranked = places.map((place) => ({ place, rank: rankOf(place) })).filter(({ rank }) => rank >= 0);
  const sorted = ranked.toSorted((a, b) => a.rank - b.rank).map(({ place }) => place);
  const search = { text: `Search the archive for “${typed}”`, href: archive({ q: typed }) };
  return [...sorted.slice(0, mostPlaces), ...(typed ? [search] : [])];
}

/** Ctrl+K opens a list of places: views, protocols, filters of the archive, and the search for words. */
export function Jump() {
  const { store } = useSite();
  const open = useStored((state) => state.jumps);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const toggle = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      store.set({ jumps: !store.state.jumps });
    };
    window.addEventListener("keydown", toggle);
    return () => window.removeEventListener("keydown", toggle);
  }, [store]);
  useLayoutEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  const move = (event: KeyboardEvent) => {
    const stops = [...(dialog.current?.querySelectorAll<HTMLElement>("input, a") ?? [])];
    const at = stops.indexOf(document.activeElement as HTMLElement);
    const to = event.key === "ArrowDown" ? at + 1 : event.key === "ArrowUp" ? at - 1 : -1;
    if (event.key === "Enter" && at === 0) stops[1]?.click();
    else if (stops[to]) stops[to].focus();
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="panel jump"
      aria-label="Go to"
      // The event comes late: the dialog may be open again.
      onClose={() => dialog.current?.open || store.set({ jumps: false })}
      onKeyDown={move}
    >
      {open && <Places />}
    </dialog>
  );
}

function Places() {
  const { api, store } = useSite();
  const [typed, type] = useState("");
  // Without protocols the other places are still of use. The next opening asks again.
  const { value } = useLoaded((signal) => api.scores.scores({ signal }), []);
  const protocols = (value?.scores ?? []).map(({ slug }) => ({
    text: nameOf(slug),
    href: `#/protocols/${slug}`,
  }));
  const name = "Go to a protocol, view or filter, or search for words";
  return (
    <>
      <input
        type="text"
        dir="auto"
        aria-label={name}
        placeholder={name}
        onInput={({ currentTarget }) => type(currentTarget.value.trim())}
      />
      <ul class="bare">
        {placesFor(typed, [...fixed, ...protocols]).map(({ text, href }) => (
          <li key={href}>
            <a href={href} dir="auto" onClick={() => store.set({ jumps: false })}>
              {text}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}
