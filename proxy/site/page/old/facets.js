import { foldCase } from "../../../../schemas/names.ts";
import { bar, brush, columnChart } from "./chart.js";
import { fill, html } from "./dom.js";
import { dimensionLink, term } from "./explain.js";
import {
  archiveAddress,
  changed,
  dimensions,
  facetAsked,
  filtersOf,
  labelOf,
  othersOf,
  ownOf,
  valueWords,
} from "./filters.js";
import { takeAlong } from "./take.js";
import { compact, counted, grouped, percent, spoken, stepOf, tier, tiers } from "./words.js";

/**
 * @import { LabelFacet, MonthFacet, ScoreFacet } from "../../../../schemas/envelopes.ts"
 * @import { Api } from "../api.ts"
 * @import { Meaning } from "./explain.js"
 */

/** @type {Record<string, Meaning>} */
const abouts = { tier: "tier", disputed: "disputed", composite: "composite" };
/** @param {string} facet */
function titleOf(facet) {
  const about = abouts[facet];
  const title = facet === "month" ? "Resolved" : spoken(facet);
  if (dimensions.includes(facet)) return html("h3", {}, dimensionLink(facet));
  return html("h3", {}, about ? term(title, about) : title);
}

/** How many values of a list are shown at once. */
const few = 7;

/**
 * The values of a text, as links that choose or leave them, each with its count.
 * @param {string} facet
 * @param {(query: URLSearchParams) => void} go
 */
export function choiceList(facet, go) {
  const list = html("ul", { class: "choices" });
  const more = html("ul", { class: "choices" });
  const note = html("p", { class: "quiet" });
  const field = html("input", {
    id: facet,
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    dir: "auto",
    placeholder: "Another value",
    "aria-label": labelOf(facet),
    onchange: () => go(changed(current, { [facet]: field.value })),
  });
  const summary = html("summary");
  const rest = html("details", {}, summary, more, note, field);
  let current = new URLSearchParams();
  const element = html("section", { class: "facet" }, titleOf(facet), list, rest);

  /** @param {URLSearchParams} query */
  function use(query) {
    current = query;
    field.value = "";
  }

  /** @param {LabelFacet} counts */
  function draw({ distinct, buckets, other }) {
    const query = current;
    const chosen = query.get(facet)?.split(facet === "tier" ? "," : /$^/) ?? [];
    const order = facet === "tier" ? tiers.toReversed() : chosen;
    const shown = new Map(order.map((value) => [value, { value, count: 0, disputed: 0 }]));
    // Letter case does not tell categories apart.
    const same = (/** @type {string} */ value) =>
      (facet === "category" && [...shown.keys()].find((each) => foldCase(each) === foldCase(value))) || value;
    for (const { value, count, disputed } of buckets) {
      const key = same(value);
      const before = shown.get(key);
      shown.set(key, {
        value: before?.value ?? value,
        count: count + (before?.count ?? 0),
        disputed: disputed + (before?.disputed ?? 0),
      });
    }
    const most = Math.max(1, ...[...shown.values()].map(({ count }) => count));
    // Spellings that count together may have passed others.
    const listed = [...shown];
    if (facet === "category") listed.sort(([, a], [, b]) => b.count - a.count);
    // The values that are not listed may hold a value that was typed in, and other spellings of a category.
    const tallyOf = (/** @type {number} */ count) => {
      if (other.count === 0) return grouped(count);
      if (count === 0) return "–";
      return facet === "category" ? `at least ${grouped(count)}` : grouped(count);
    };
    const items = listed.map(([value, { value: spelled, count, disputed }]) => {
      const here = chosen.includes(value);
      const next = here
        ? chosen.filter((each) => each !== value)
        : facet === "tier"
          ? tiers.filter((each) => each === value || chosen.includes(each))
          : [value];
      return html(
        "li",
        {},
        html(
          "a",
          {
            href: archiveAddress(changed(query, { [facet]: next.join() })),
            "aria-current": here ? "true" : undefined,
            "data-key": `${facet} ${value}`,
            title: count > 0 ? `${percent(disputed / count)} disputed` : undefined,
          },
          html(
            "span",
            { class: "value", dir: "auto" },
            facet === "tier" ? tier(value) : valueWords(facet, spelled),
          ),
          html("span", { class: "tally" }, tallyOf(count), html("span", { class: "unseen" }, " markets")),
          bar(count, most),
        ),
      );
    });
    const cut = items.length > few + 2 ? few : items.length;
    fill(list, items.length > 0 ? items.slice(0, cut) : html("li", { class: "quiet" }, "None"));
    fill(more, items.slice(cut));
    const all = other.count > 0 ? `More of ${grouped(distinct)}` : `All ${grouped(distinct)}`;
    fill(summary, facet === "category" ? "More" : all);
    fill(note, other.count > 0 && `${counted(other.count, "market")} of further values`);
    rest.hidden = cut === items.length && other.count === 0;
  }

  /** Takes the counts away; another value can still be typed in. */
  function clear() {
    fill(list);
    fill(more);
    fill(note);
    fill(summary, "Another value");
    rest.hidden = false;
  }
  return { element, use, draw, clear };
}

/** By how much the highest month must exceed a typical one for a logarithmic scale to be offered. */
const flattening = 5;

/**
 * A histogram with a brush, and beside it the same as two fields.
 * @param {Api} api
 * @param {string} facet
 * @param {(query: URLSearchParams) => void} go
 * @param {(query: URLSearchParams) => void} preview is told where the brush would lead to, while it moves
 */
export function histogram(api, facet, go, preview) {
  const [low = "", high = ""] = ownOf(facet);
  const months = facet === "month";
  const direction = dimensions.includes(facet) ? "riskier →" : "safer →";
  const picture = html("div", { class: "plot" });
  const said = html("span", { class: "quiet" });
  // One month may flatten all others.
  const scale = html("button", { type: "button", class: "plain scale", hidden: true }, "Log scale");
  let current = new URLSearchParams();
  let dragging = false;
  let log = false;
  /** What to draw when the drag has ended: drawing would take its columns away.
   * @type {(() => void) | undefined} */
  let waiting;
  const ends = [low, high].map((name) => {
    const problem = html("div", { id: `problem-${name}` });
    const input = html("input", {
      id: name,
      type: "text",
      inputmode: months ? undefined : "numeric",
      autocomplete: "off",
      spellcheck: "false",
      "aria-label": labelOf(name),
      "aria-describedby": problem.id,
      onchange: () => go(changed(current, { [name]: input.value.trim() })),
    });
    return { name, input, problem };
  });
  const [from, to] = ends;
  const along = takeAlong(api, {
    name: `markets-by-${facet}`,
    title: `Resolved markets by ${spoken(facet).toLowerCase()}`,
    frame: () => picture.querySelector(".columns-frame"),
    asked: () => [facetAsked(facet, othersOf(facet, filtersOf(current)))],
  });
  const element = html(
    "section",
    { class: `facet ${months ? "months" : dimensions.includes(facet) ? "risk" : ""}` },
    html("div", { class: "facet-head" }, titleOf(facet), months && scale, said),
    picture,
    html("div", { class: "range" }, from?.input, html("span", { "aria-hidden": "true" }, "–"), to?.input),
    ends.map(({ problem }) => problem),
    along,
  );

  /** @param {URLSearchParams} query */
  function use(query) {
    current = query;
    along.open = false;
    for (const { name, input } of ends) input.value = query.get(name) ?? "";
  }

  /** @param {() => void} drawing */
  function whenFree(drawing) {
    waiting = dragging ? drawing : undefined;
    if (!dragging) drawing();
  }

  /** @param {ScoreFacet | MonthFacet} counts */
  function drawNow(counts) {
    const { buckets } = counts;
    const query = current;
    const spans = buckets.map((bucket) =>
      "value" in bucket
        ? { ...bucket, from: `${bucket.value}-01`, to: lastDayOf(bucket.value), name: bucket.value }
        : { ...bucket, from: bucket.from, to: bucket.to, name: `${bucket.from} to ${bucket.to}` },
    );
    const [first, last] = [query.get(low), query.get(high)];
    const chosen = first !== null || last !== null;
    const within = (/** @type {number} */ index) => {
      const span = spans[index];
      if (!span) return false;
      if (months) return (first ?? "") <= `${span.to}T24` && (last ?? "9999") >= `${span.from}`;
      return Number(first ?? 0) <= Number(span.to) && Number(last ?? 1000) >= Number(span.from);
    };
    const top = Number(spans.at(-1)?.to);
    const placeholders = [spans[0]?.from, spans.at(-1)?.to];
    for (const [index, { input }] of ends.entries())
      input.placeholder = `${placeholders[index] ?? ["from", "to"][index]}`;
    const total = spans.reduce((sum, { count }) => sum + count, 0);
    const [peak, ...less] = spans.toSorted((a, b) => b.count - a.count);
    const some = less.filter(({ count }) => count > 0);
    const typical = some[Math.floor(some.length / 2)];
    scale.hidden = !months || (!log && (peak?.count ?? 0) < flattening * (typical?.count ?? Infinity));
    scale.setAttribute("aria-pressed", `${log}`);
    scale.onclick = () => {
      log = !log;
      drawNow(counts);
    };
    const chart = columnChart(
      spans.map(({ count, name }, index) => [
        {
          value: count,
          title: `${name}: ${counted(count, "market")}`,
          // Of a score, as its scale is divided.
          class: months ? "column" : `column tier-${stepOf(index / spans.length)}`,
        },
      ]),
      {
        label:
          `${months ? "Markets per month" : spoken(facet)}: ${counted(total, "market")}` +
          (peak?.count ? `, most ${months ? "in" : "at"} ${peak.name}` : "") +
          (log ? ". The scale is logarithmic." : ""),
        log,
        axis: months ? axisOf(spans.map(({ name }) => name)) : [`${spans[0]?.from}`, direction, grouped(top)],
        ...(chosen && { hot: within }),
      },
    );
    const count = (/** @type {number} */ start, /** @type {number} */ end) =>
      spans.slice(start, end + 1).reduce((sum, each) => sum + each.count, 0);
    brush(
      chart,
      spans.length,
      (start, end) => {
        dragging = true;
        const [min, max] = [`${spans[start]?.from}`, `${spans[end]?.to}`];
        preview(changed(current, { [low]: min, [high]: max }));
        fill(said, html("span", { class: "tally" }, `${min} to ${max}: ${compact(count(start, end))}`));
      },
      (run) => {
        dragging = false;
        if (!run) waiting ??= () => drawNow(counts);
        waiting?.();
        waiting = undefined;
        if (!run) return preview(current);
        const [min, max] = [`${spans[run[0]]?.from}`, `${spans[run[1]]?.to}`];
        const again = current.get(low) === min && current.get(high) === max;
        go(changed(current, { [low]: again ? null : min, [high]: again ? null : max }));
      },
    );
    const before = picture.querySelector("svg");
    const focused = before === document.activeElement;
    fill(picture, chart);
    if (focused) chart.querySelector("svg")?.focus({ preventScroll: true });
    fill(
      said,
      chosen
        ? html(
            "a",
            {
              href: archiveAddress(changed(query, { [low]: null, [high]: null })),
              "data-key": `${facet} any`,
            },
            "Any",
            html("span", { class: "unseen" }, ` ${months ? "month" : spoken(facet)}`),
          )
        : peak?.count &&
            html(
              "span",
              { class: "tally" },
              `most ${months ? "in" : "at"} ${peak.name}: ${compact(peak.count)}`,
            ),
    );
  }

  /** Takes the picture away; the fields stay. */
  function clearNow() {
    fill(picture);
    fill(said);
    scale.hidden = true;
  }
  return {
    element,
    use,
    draw: (/** @type {ScoreFacet | MonthFacet} */ counts) => whenFree(() => drawNow(counts)),
    clear: () => whenFree(clearNow),
  };
}

/** @param {string} month such as `2026-02` */
function lastDayOf(month) {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return `${month}-${new Date(Date.UTC(year, number, 0)).getUTCDate()}`;
}

/** Three months of many, for an axis.
 * @param {readonly string[]} names */
const axisOf = (names) =>
  names.length < 3 ? names : [names[0] ?? "", names[Math.floor(names.length / 2)] ?? "", names.at(-1) ?? ""];
