import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dimensionMeanings, meanings } from "../../../../schemas/meanings.ts";
import { nameOf } from "../../../../schemas/names.ts";
import { filterParts } from "../model/filters.ts";
import { minutes, numberOf, signed, spoken } from "../model/words.ts";

/** A time that reads `2026-02-02 08:21 UTC`, and holds the full precision for programs. */
export const Moment = ({ iso }: { iso: string }) => <time dateTime={iso}>{minutes(iso)}</time>;

export const ProtocolLink = ({ slug }: { slug: string }) => (
  <a href={`#/protocols/${slug}`}>{nameOf(slug)}</a>
);

/** A tier: its name after a mark of seven steps, of which as many are filled as the tier's number from 1 to 7. */
export const Tier = ({ name }: { name: string }) => (
  <span class={`tier tier-${numberOf(name)}`}>
    <span class="steps" aria-hidden="true" />
    <span class="tier-name">{name}</span>
  </span>
);

/** The change of a score. A mark and words show its sign, not colour alone. */
export function Change({ value }: { value: number }) {
  const [direction, mark, words] =
    value > 0 ? ["up", "▲", "up "] : value < 0 ? ["down", "▼", "down "] : ["still", "", "unchanged, "];
  return (
    <span class={`change ${direction}`}>
      <span class="mark" aria-hidden="true">
        {mark}
      </span>
      <span class="unseen">{words}</span>
      <span class="number">{signed(value)}</span>
    </span>
  );
}

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

export const Facts = ({ rows }: { rows: readonly (readonly [ComponentChildren, ComponentChildren])[] }) => (
  <dl class="facts">
    {rows.map(([term, value], index) => (
      <div key={index} class="row">
        <dt>{term}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

/**
 * A link to another site. It opens in a new tab, because leaving this page forgets the key. An address that is not http
 * or https is shown as text.
 */
export function OutsideLink({
  address,
  children = address,
}: {
  address: string;
  children?: ComponentChildren;
}) {
  const protocol = URL.canParse(address) ? new URL(address).protocol : "";
  if (protocol !== "https:" && protocol !== "http:") return <span dir="auto">{children}</span>;
  return (
    <a href={address} rel="noopener noreferrer" target="_blank" dir="auto">
      {children}
    </a>
  );
}

/** A link that only the keyboard reaches. It skips everything before the element with an id. */
export function SkipTo({ id, children }: { id: string; children: string }) {
  const skip = (event: Event) => {
    // Following the link would replace the view's address behind the #.
    event.preventDefault();
    const target = document.getElementById(id);
    target?.setAttribute("tabindex", "-1");
    target?.focus();
  };
  return (
    <a class="skip" href={`#${id}`} onClick={skip}>
      {children}
    </a>
  );
}

export function Copyable({ name, text }: { name: string; text: string }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [copied, setCopied] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(text);
    } catch {
      // Pages without a secure origin have no clipboard; the reader's own shortcut works.
      field.current?.select();
    }
  };
  return (
    <div class="joined copyable">
      <textarea ref={field} readOnly rows={1} spellcheck={false} aria-label={name}>
        {text}
      </textarea>
      <PlainButton onClick={copy}>{copied === text ? "Copied" : "Copy"}</PlainButton>
    </div>
  );
}

export const PlainButton = (others: ComponentProps<"button">) => (
  <button type="button" class="plain" {...others} />
);

/**
 * Wraps content that may be wider than the screen. Some browsers let the keyboard scroll only what can have the focus.
 */
export const Scrolls = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <section class="scrolls" ref={(element) => element?.setAttribute("tabindex", "0")} aria-label={label}>
    {children}
  </section>
);

/** A title, as a term if it has a meaning to open. */
export const titleOf = ({ title, about }: { title: string; about?: Meaning | undefined }) =>
  about ? <Term about={about}>{title}</Term> : title;

interface PlainTableProps {
  /** `number` marks a column of numbers. */
  columns: readonly { title: string; about?: Meaning; number?: boolean }[];
  /** Each begins with its heading. */
  rows: readonly (readonly ComponentChildren[])[];
  caption?: ComponentChildren;
  class?: string;
}

export const PlainTable = ({ columns, rows, caption, class: name = "plain-table" }: PlainTableProps) => (
  <table class={name}>
    {caption}
    <thead>
      <tr>
        {columns.map((column) => (
          <th key={column.title} scope="col" class={column.number ? "number" : undefined}>
            {titleOf(column)}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>
      {rows.map(([heading, ...cells], index) => (
        <tr key={index}>
          <th scope="row">{heading}</th>
          {cells.map((cell, place) => {
            const { about, number } = columns[place + 1] ?? {};
            return (
              <td key={place} class={number ? "number" : undefined} data-meaning={about}>
                {cell}
              </td>
            );
          })}
        </tr>
      ))}
    </tbody>
  </table>
);

/** A filter in words. Texts of others keep their own direction. */
export function FilterWords({ name, value }: { name: string; value: string }) {
  const [before, own, after] = filterParts(name, value);
  return (
    <>
      {before}
      <bdi>{own}</bdi>
      {after}
    </>
  );
}

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
      setSubject((current) =>
        subjectOf(event) === current && current !== document.activeElement ? undefined : current,
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
