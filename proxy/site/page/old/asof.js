import { failure, fill, html } from "./dom.js";
import { minutes } from "./words.js";

/**
 * @import { Api } from "../api.ts"
 */

/**
 * A choice of the states before the present one, and where one of them is shown, which that is.
 * @param {Api} api
 * @param {string | null} asOf the snapshot's id or a time, where an earlier state is shown
 * @param {(asOf: string | null) => void} go shows another state
 * @param {AbortSignal} signal
 */
export function asItWas(api, asOf, go, signal) {
  const told = html("span", {}, asOf !== null && nameOfState(asOf));
  const choices = html("div");
  let asked = false;
  const details = html(
    "details",
    { class: "earlier", ontoggle: () => !asked && load() },
    html("summary", {}, asOf === null ? "As it was" : "Other states"),
    choices,
  );
  if (asOf !== null) load();
  return html(
    "div",
    { class: "as-of" },
    asOf !== null &&
      html(
        "p",
        { class: "state", role: "note" },
        html("strong", {}, "An earlier state: "),
        told,
        ". ",
        html("button", { type: "button", class: "plain", onclick: () => go(null) }, "Show the present one"),
      ),
    details,
  );

  async function load() {
    asked = true;
    fill(choices, html("p", { class: "quiet" }, "Asking which states there are…"));
    try {
      const snapshots = await api.snapshots(signal);
      const shown = snapshots.find(({ snapshotId }) => snapshotId === asOf);
      if (shown) fill(told, `${nameOfState(shown.snapshotId)}, published ${minutes(shown.publishedAt)}`);
      const earlier = snapshots.filter(
        ({ supersededAt, snapshotId }) => supersededAt !== null && snapshotId !== asOf,
      );
      fill(choices, earlier.length > 0 ? chooser(earlier) : "No other earlier state can be read.");
    } catch (error) {
      if (!signal.aborted) fill(choices, failure(error, load));
    }
  }

  /** @param {readonly { snapshotId: string, publishedAt: string }[]} states */
  function chooser(states) {
    const choice = html(
      "select",
      { id: "as-of" },
      states.map(({ snapshotId, publishedAt }) =>
        html("option", { value: snapshotId }, `published ${minutes(publishedAt)}`),
      ),
    );
    const show = (/** @type {Event} */ event) => {
      event.preventDefault();
      go(choice.value);
    };
    return html(
      "form",
      { class: "picker", onsubmit: show },
      html("label", { for: "as-of" }, "State"),
      choice,
      html("button", { type: "submit" }, "Show"),
    );
  }
}

/** An id of a snapshot in few characters, or a time or day.
 * @param {string} asOf */
export const nameOfState = (asOf) =>
  /^[0-9a-f]{64}$/.test(asOf)
    ? `snapshot ${asOf.slice(0, 12)}`
    : /^\d{4}-\d\d-\d\dT\d\d:\d\d.*Z$/.test(asOf)
      ? minutes(asOf)
      : asOf;
