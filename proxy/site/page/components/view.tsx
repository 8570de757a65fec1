import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect } from "preact/hooks";

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

/** A part of a view, named by its heading. */
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
