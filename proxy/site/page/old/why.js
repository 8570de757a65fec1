import { failure, fill, html } from "./dom.js";
import { dimensionLink } from "./explain.js";
import { change, minutes, moment, tier } from "./words.js";

/**
 * @import { ScoreDimensions, SnapshotList } from "../../../../schemas/envelopes.ts"
 * @import { ProtocolScore } from "../../../../schemas/records.ts"
 * @import { Api } from "../api.ts"
 */

/** How many runs back the moves are told. */
const runs = 3;

/**
 * Which dimensions moved, the largest move first: in seven days, and on demand from run to run.
 * @param {Api} api
 * @param {ProtocolScore} record
 * @param {string | null} asOf the snapshot that it is of, by its id or a time; the present one if null
 * @param {ScoreDimensions["dimensions"]} moves
 * @param {AbortSignal} signal
 */
export function whyChanged(api, record, asOf, moves, signal) {
  const steps = html("div");
  const button = html(
    "button",
    { type: "button", class: "plain", onclick: load },
    `Show the last runs one by one (at most ${2 * runs + 1} requests)`,
  );
  const days = moves.map(({ key, score, change7d }) => ({ key, before: score - change7d, after: score }));
  return html(
    "section",
    { class: "why", "aria-labelledby": "why" },
    html("h2", { id: "why" }, "Why it changed"),
    html("h3", {}, "In seven days"),
    moved(days),
    steps,
    button,
  );

  async function load() {
    button.hidden = true;
    fill(steps, html("p", { class: "quiet", role: "status" }, "Asking for the runs before…"));
    try {
      const snapshots = await api.snapshots(signal);
      const told = [];
      // Newest first; those that may hold an earlier run.
      const shown = asOf ?? snapshots[0]?.snapshotId;
      let states = snapshots.slice(1 + snapshots.findIndex(({ snapshotId }) => snapshotId === shown));
      let later = record;
      for (let run = 0; run < runs && states.length > 0; run += 1) {
        const found = await earlier(states, later);
        if (!found) break;
        told.push(...stepOf(found.before, later));
        states = states.slice(1 + states.indexOf(found.state));
        later = found.before;
      }
      fill(
        steps,
        told.length > 0 ? told : html("p", {}, "No earlier run is in a snapshot that your key can read."),
      );
    } catch (error) {
      if (!signal.aborted) fill(steps, failure(error, load));
    }
  }

  /**
   * The state with the run before one, as far as states can be read: what was published before a run took place holds
   * the one before. Where all were published later, as when runs are published behind one another, the newest and the
   * oldest of them are looked into.
   * @param {SnapshotList["snapshots"]} states
   * @param {ProtocolScore} later
   */
  async function earlier(states, later) {
    const state = states.find(({ publishedAt }) => publishedAt < later.updatedAt);
    for (const each of state ? [state] : new Set([states[0], states.at(-1)])) {
      if (!each) continue;
      const before = await api.service.score(record.slug, { signal, asOf: each.snapshotId });
      if (before.updatedAt < later.updatedAt) return { state: each, before };
    }
    return undefined;
  }
}

/**
 * @param {ProtocolScore} before
 * @param {ProtocolScore} later
 */
function stepOf(before, later) {
  const dimensions = Object.entries(later.dimensions).map(([key, after]) => ({
    key,
    before: before.dimensions[/** @type {keyof typeof before.dimensions} */ (key)],
    after,
  }));
  return [
    html(
      "h3",
      {},
      `From ${minutes(before.updatedAt)} to ${minutes(later.updatedAt)}: BRI ${before.bri} → ${later.bri}`,
    ),
    moved(dimensions),
  ];
}

/** @param {readonly { key: string, before: number, after: number }[]} dimensions */
function moved(dimensions) {
  const size = (/** @type {{ before: number, after: number }} */ { before, after }) =>
    Math.abs(after - before);
  const those = dimensions.filter((each) => size(each) > 0).toSorted((a, b) => size(b) - size(a));
  if (those.length === 0) return html("p", {}, "No dimension moved.");
  return html(
    "ol",
    { class: "moves" },
    those.map(({ key, before, after }) =>
      html("li", {}, dimensionLink(key), ` ${before} → ${after} `, change(after - before)),
    ),
  );
}

/**
 * The changes of a protocol's tier, newest first, where they are published.
 * @param {Api} api
 * @param {string} slug
 * @param {AbortSignal} signal
 */
export function tierLog(api, slug, signal) {
  const panel = html("div", {}, html("p", { class: "quiet" }, "Loading the changes…"));
  load();
  return html(
    "section",
    { "aria-labelledby": "tiers" },
    html("h2", { id: "tiers" }, "Changes of tier"),
    panel,
  );

  async function load() {
    try {
      const { since, changes } = await api.tiers(signal);
      const own = changes.filter((each) => each.slug === slug);
      fill(
        panel,
        html(
          "p",
          { class: "quiet" },
          own.length > 0 ? "" : "None. ",
          `The log has the changes of at most 30 days, the newest 500 of all protocols; it began ${minutes(since)}.`,
        ),
        html(
          "ol",
          { class: "moves" },
          own.map(({ from, to, bri, at }) =>
            html("li", {}, moment(at), ": ", tier(from), " → ", tier(to), `, BRI ${bri}`),
          ),
        ),
      );
    } catch (error) {
      if (!signal.aborted) fill(panel, failure(error, load));
    }
  }
}
