import { fill, html } from "./dom.js";
import { meanings } from "./meanings.js";

/** @import { Child } from "./dom.js" */
/** @typedef {keyof typeof meanings} Meaning */

/**
 * A term whose meaning opens when it is tapped or gets the focus.
 * @param {Child} text
 * @param {Meaning} about
 */
export const term = (text, about) =>
  html("button", { type: "button", class: "term", "data-meaning": about }, text);

/**
 * Shows the meaning of whatever is tapped, pointed at or focused, if it has `data-meaning`. Called once for the page.
 * Numbers in tables have that too: a tap opens it there, and the keyboard finds it at the column's heading.
 */
export function startExplaining() {
  const bubble = html("div", { id: "meaning", role: "tooltip", popover: "manual" });
  document.body.append(bubble);
  /** @type {Element | undefined} */
  let shown;

  /** @param {Event} event */
  const subject = ({ target }) => (target instanceof Element ? target.closest("[data-meaning]") : null);

  /** @param {Element} element */
  function show(element) {
    hide();
    const about = /** @type {Meaning} */ (element.getAttribute("data-meaning"));
    fill(bubble, meanings[about].meaning);
    shown = element;
    element.setAttribute("aria-describedby", bubble.id);
    bubble.showPopover();
    const { left, top, bottom } = element.getBoundingClientRect();
    const { width, height } = bubble.getBoundingClientRect();
    const below = bottom + 8 + height < innerHeight;
    // Set through the object model, which the page's policy allows: a style attribute it does not.
    bubble.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8))}px`;
    bubble.style.top = `${below ? bottom + 8 : Math.max(8, top - height - 8)}px`;
  }

  function hide() {
    shown?.removeAttribute("aria-describedby");
    shown = undefined;
    bubble.hidePopover();
  }

  for (const how of ["focusin", "click", "mouseover"]) {
    document.addEventListener(how, (event) => {
      const element = subject(event);
      // The pointer opens terms only: bubbles that follow it through a table would be in the way.
      if (how === "mouseover" && !element?.matches("button")) return;
      if (element && element !== shown) show(element);
      else if (!element && how === "click") hide();
    });
  }
  document.addEventListener("focusout", hide);
  document.addEventListener("mouseout", (event) => {
    if (subject(event) === shown && shown !== document.activeElement) hide();
  });
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") hide();
  });
  // It would stay where its term no longer is.
  document.addEventListener("scroll", hide, { passive: true });
}
