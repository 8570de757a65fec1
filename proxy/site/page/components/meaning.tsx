import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import { spoken } from "../model/words.ts";

export type Meaning = keyof typeof meanings;

/** A term whose meaning opens when it is tapped or gets the focus. */
export const Term = ({ about, children }: { about: Meaning; children: ComponentChildren }) => (
  <button type="button" class="term" data-meaning={about}>
    {children}
  </button>
);

export const DimensionLink = ({
  name,
  children = spoken(name),
}: {
  name: string;
  children?: ComponentChildren;
}) => (
  <a
    class="term"
    href={`#/dimensions/${name}`}
    data-meaning={name in dimensionMeanings.market ? "marketDimension" : "protocolDimension"}
  >
    {children}
  </a>
);

/**
 * Shows the meaning of whatever is tapped, pointed at or focused, if it has `data-meaning`. Numbers in tables have that
 * too: a tap opens it there, and the keyboard finds it at the column's heading.
 */
export function MeaningBubble() {
  const bubble = useRef<HTMLDivElement>(null);
  const [subject, setSubject] = useState<Element>();
  useEffect(() => {
    const listening = new AbortController();
    const { signal } = listening;
    const subjectOf = ({ target }: Event) =>
      (target instanceof Element && target.closest("[data-meaning]")) || undefined;
    const hide = () => setSubject(undefined);
    for (const how of ["focusin", "click", "mouseover"]) {
      const show = (event: Event) => {
        const element = subjectOf(event);
        // The pointer opens terms only: bubbles that follow it through a table would be in the way.
        if (how === "mouseover" && !element?.matches("button, a")) return;
        if (element) setSubject(element);
        else if (how === "click") hide();
      };
      document.addEventListener(how, show, { signal });
    }
    document.addEventListener("focusout", hide, { signal });
    const leave = (event: Event) =>
      setSubject((shown) =>
        subjectOf(event) === shown && shown !== document.activeElement ? undefined : shown,
      );
    document.addEventListener("mouseout", leave, { signal });
    document.addEventListener("keydown", ({ key }) => key === "Escape" && hide(), { signal });
    // Otherwise it would stay where its term no longer is.
    document.addEventListener("scroll", hide, { signal, passive: true });
    return () => listening.abort();
  }, []);
  useLayoutEffect(() => {
    const panel = bubble.current;
    if (!panel || !subject) return undefined;
    subject.setAttribute("aria-describedby", panel.id);
    panel.showPopover();
    const { left, top, bottom } = subject.getBoundingClientRect();
    const { width, height } = panel.getBoundingClientRect();
    const below = bottom + 8 + height < innerHeight;
    // Set through the object model, which the page's policy allows: a style attribute it does not.
    panel.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8))}px`;
    panel.style.top = `${below ? bottom + 8 : Math.max(8, top - height - 8)}px`;
    return () => {
      subject.removeAttribute("aria-describedby");
      panel.hidePopover();
    };
  }, [subject]);
  const about = subject?.getAttribute("data-meaning") as Meaning | undefined;
  return (
    <div ref={bubble} id="meaning" role="tooltip" popover="manual">
      {about && meanings[about].meaning}
    </div>
  );
}
