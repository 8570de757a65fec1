import type { ComponentChildren } from "preact";

/**
 * Wraps content that may be wider than the screen. Some browsers let the keyboard scroll only what can have the focus.
 */
export const Scrolls = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <section class="scrolls" ref={(element) => element?.setAttribute("tabindex", "0")} aria-label={label}>
    {children}
  </section>
);
