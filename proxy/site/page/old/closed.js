import { comparedIn } from "../filters.ts";
import { fill, html } from "./dom.js";
import { filtersOf, inWords, sides } from "./filters.js";
import { planNames } from "./key.js";
import { counted } from "./words.js";

/**
 * @import { Site } from "./dom.js"
 */

/**
 * What a key opens, in words: a picture of it would look like an answer.
 * @param {Site} site
 * @param {string} words
 */
export const promise = ({ api, askForKey }, words) =>
  html(
    "div",
    { class: "promise" },
    html("p", {}, words),
    !api.keyed &&
      api.live &&
      html("button", { type: "button", class: "plain", onclick: () => askForKey() }, "Enter an API key"),
  );

/**
 * What a reader without an Aegis key sees of the archive: what was asked, how large the archive is, and what the key
 * opens.
 * @param {Site} site
 * @param {string} subject
 * @param {URLSearchParams} [query] of the address
 */
export function closedTo(site, subject, query = new URLSearchParams()) {
  const { api } = site;
  if (!api.live)
    return [
      html("p", {}, `This copy of the site has only files. ${subject} needs the service and an Aegis key.`),
    ];
  const size = html("p", { class: "count" });
  const count = async () => {
    try {
      const { counts, newestResolvedAt } = await api.pin();
      const newest = newestResolvedAt.slice(0, 10);
      fill(
        size,
        html("b", {}, counted(counts.markets, "market")),
        ` are in the whole archive. The newest resolved on ${newest}.`,
      );
    } catch {
      // The page works without the count.
    }
  };
  count();
  return [
    query.size > 0 && shared(query),
    size,
    promise(
      site,
      `${subject} needs a key of the Aegis plan` +
        (api.keyed ? `; yours is on the ${planNames[api.plan]} plan` : "") +
        ". It opens search, exact counts beside every choice, the distribution of every score, and every market " +
        "with its evidence and a proof to verify.",
    ),
  ].filter((part) => part instanceof HTMLElement);
}

/** What an address asks of the archive, without an answer.
 * @param {URLSearchParams} query */
function shared(query) {
  const side = Object.entries(sides).find(([value]) => value === (query.get("show") ?? ""))?.[1] ?? sides[""];
  const chosen = [...filtersOf(query)].map(([name, value]) => inWords(name, value));
  const compared = comparedIn(query);
  if (compared.length > 0) {
    const names = compared.flatMap((name, index) => [index > 0 ? " and " : "", html("bdi", {}, name)]);
    chosen.push(["Formula versions compared: ", ...names]);
  }
  return html(
    "section",
    { class: "shared", "aria-labelledby": "shared" },
    html("h2", { id: "shared" }, side),
    html("p", {}, "This address asks for ", chosen.length > 0 ? "markets with:" : "all markets."),
    html(
      "ul",
      { class: "chosen", "aria-label": "Filters in the address" },
      chosen.map((words) => html("li", {}, words)),
    ),
    html("p", { class: "quiet" }, "How many those are, and what they say, takes a key."),
  );
}
