import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect } from "preact/hooks";
import type { ApiError } from "../../client/client.ts";
import type { Loaded } from "../model/hooks.ts";
import { PlainButton } from "./text.tsx";

interface ViewProps {
  /** Names the view in the window's title. */
  title: string;
  /** The title if left out. */
  heading?: string;
  /** A link to where the view belongs. */
  path?: ComponentChildren;
  /** A paragraph beside the heading. */
  lede?: ComponentChildren;
  children?: ComponentChildren;
}

/** What the address selects, under its heading. */
export function View({ title, heading = title, path, lede, children }: ViewProps) {
  useEffect(() => {
    document.title = `${title} · Protocol Risk Scores`;
  }, [title]);
  return (
    <article>
      {path && <p class="path">{path}</p>}
      <div class="row opening">
        {/* It may be a text of others, such as a market's question. */}
        <h1 class="measure" dir="auto">
          {heading}
        </h1>
        {lede}
      </div>
      {children}
    </article>
  );
}

export const Section = ({
  id,
  title,
  children,
  ...others
}: ComponentProps<"section"> & { title: string }) => (
  <section aria-labelledby={id} {...others}>
    <h2 id={id}>{title}</h2>
    {children}
  </section>
);

/** An error, which screen readers read out at once. With `again` it has a button, where trying again may help. */
export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const problem: Partial<ApiError> = error instanceof Error ? error : {};
  const { title = "Something went wrong", message = "", code = "" } = problem;
  const retry = () => {
    // The button goes away with the message, so the focus must move.
    document.getElementById("main")?.focus({ preventScroll: true });
    again?.();
  };
  return (
    <div class="failure" role="alert">
      <strong>{title}</strong> {forReaders(message)}
      {again && !lasting.test(code) && (
        <>
          {" "}
          <PlainButton onClick={retry}>Try again</PlainButton>
        </>
      )}
    </div>
  );
}

/** Codes of errors that stay when one tries again. */
const lasting = /^INVALID|_(?:NOT_FOUND|REQUIRED)$/;

/** Rewrites a message for programs for readers: without requests, and with times and plans as the page spells them. */
const forReaders = (message: string) =>
  message
    .replaceAll(/\basOf\b/g, "An earlier state")
    .replace("of this slug", "of this name")
    .replaceAll(/[;,.] (?:[^.;]* )?(?:GET|POST) \/\S*[^.;]*/g, "")
    .replaceAll(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?Z/g, "$1 $2 UTC")
    .replaceAll(
      /\b(free|developer|aegis) plan\b(?:'s)?/g,
      (words) => `${words.charAt(0).toUpperCase()}${words.slice(1).replace("'", "’")}`,
    );

interface LoadingProps<T> {
  of: Loaded<T>;
  words: string;
  children: (value: T) => ComponentChildren;
}

/**
 * Loaded content. Until the first answer is here, words and a sketch stand in its place; while another is requested,
 * the content is marked as busy.
 */
export const Loading = <T,>({ of: { value, error, busy, again }, words, children }: LoadingProps<T>) => (
  <div aria-busy={busy ? "true" : undefined}>
    {error !== undefined ? (
      <Failure error={error} again={again} />
    ) : value === undefined ? (
      <Sketch words={words} />
    ) : (
      children(value)
    )}
  </div>
);

/** Grey lines in place of text, perhaps under words that say what is awaited. */
export const Sketch = ({ words }: { words?: string }) => (
  <div class="sketch">{words !== undefined && <p class="quiet">{words}</p>}</div>
);
