import { columnChart, drawn, intervalChart } from "./chart.js";
import { fill, html } from "./dom.js";
import { planNames } from "./key.js";
import { wilson } from "./statistics.js";
import { counted, tiers } from "./words.js";

/**
 * @import { Site } from "./app.js"
 */

/**
 * A picture of what a key opens.
 * @param {Site} site
 * @param {string} words
 * @param {...HTMLElement} pictures
 */
export const promise = ({ api, askForKey }, words, ...pictures) =>
  html(
    "figure",
    { class: "promise" },
    html("div", { class: "example", inert: true }, pictures),
    html(
      "figcaption",
      {},
      html(
        "p",
        {},
        words,
        html("span", { class: "quiet" }, " The picture is an example with made-up numbers."),
      ),
      !api.keyed &&
        html("button", { type: "button", class: "plain", onclick: () => askForKey() }, "Enter an API key"),
    ),
  );

const exampleScores = [1, 1, 2, 4, 9, 17, 28, 39, 44, 38, 26, 15, 7, 3];
const exampleShares = [0.061, 0.048, 0.04, 0.027, 0.021, 0.017, 0.012];

/**
 * What a reader without an Aegis key sees of the archive: how large it is, and what the key opens.
 * @param {Site} site
 * @param {string} subject
 * @param {AbortSignal} signal
 */
export function closedTo(site, subject, signal) {
  const { api } = site;
  if (!api.live)
    return [
      html("p", {}, `This copy of the site has only files. ${subject} needs the service and an Aegis key.`),
    ];
  const size = html("p", { class: "count" });
  const count = async () => {
    try {
      const { counts, newestResolvedAt } = await api.service.status({ signal });
      const newest = newestResolvedAt.slice(0, 10);
      fill(
        size,
        html("b", {}, counted(counts.markets, "market")),
        ` are in the archive. The newest resolved on ${newest}.`,
      );
    } catch {
      // The page works without the count.
    }
  };
  count();
  const estimates = exampleShares.map((share) => wilson(Math.round(share * 4000), 4000));
  return [
    size,
    promise(
      site,
      `${subject} needs a key of the Aegis plan${api.keyed ? `; yours is on the ${planNames[api.plan]} plan` : ""}. It opens search, exact counts beside every choice, the distribution of every score, and every market with its evidence and a proof to verify.`,
      columnChart(
        exampleScores.map((value) => [{ value }]),
        {
          label: "An example of a distribution",
          axis: ["300", "composite", "1,000"],
          hot: (place) => place > 7,
        },
      ),
      drawn(
        (width) =>
          intervalChart(
            { names: tiers, first: estimates, mean: 0.026, label: "An example of shares by tier" },
            width,
          ),
        signal,
      ),
    ),
  ];
}
