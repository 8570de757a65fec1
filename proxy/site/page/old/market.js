import { meanings } from "../../../../schemas/meanings.ts";
import { verifyProof } from "../../client/client.ts";
import { asItWas } from "./asof.js";
import { bar } from "./chart.js";
import { closedTo } from "./closed.js";
import { copyable, facts, failure, fill, html, outsideLink } from "./dom.js";
import { dimensionLink, term } from "./explain.js";
import { lastArchive } from "./filters.js";
import { counted, grouped, moment, spoken, stepOf, tier, tiers } from "./words.js";

/**
 * @import { HistoricalMarket, MarketDimension } from "../../../../schemas/records.ts"
 * @import { Child } from "./dom.js"
 * @import { Site } from "./dom.js"
 * @import { View } from "./dom.js"
 */

/** The address of a market, in the snapshot that `asOf` selects.
 * @param {string} id
 * @param {string | null} [asOf] */
export const marketAddress = (id, asOf) =>
  `#/markets/${id}${asOf ? `?${new URLSearchParams({ asOf })}` : ""}`;

/**
 * A market's own page: its evidence, how its score came about, and the proof that it stands in the archive.
 * @param {Site} site
 * @param {string} id
 * @param {URLSearchParams} query
 * @returns {View}
 */
export function openMarket(site, id, query) {
  const { api } = site;
  const ending = new AbortController();
  const { signal } = ending;
  const asOf = query.get("asOf") ?? undefined;
  let snapshot = asOf;
  const heading = html("h1", { class: "ask", dir: "auto" }, "Market");
  const panel = html("div");
  const element = html(
    "article",
    {},
    html("p", { class: "path" }, html("a", { href: lastArchive() }, "All markets")),
    heading,
    api.plan === "aegis" &&
      asItWas(
        api,
        asOf ?? null,
        (state) => {
          location.hash = marketAddress(id, state);
        },
        signal,
      ),
    panel,
  );
  if (api.plan === "aegis") load();
  else fill(panel, ...closedTo(site, "A market’s page"));
  return { title: "Market", element, close: () => ending.abort() };

  async function load() {
    fill(panel, html("p", { class: "quiet" }, "Loading the market…"));
    try {
      snapshot = asOf ?? (await api.pin()).snapshotId;
      const market = await api.service.market(id, { signal, asOf: snapshot });
      fill(heading, market.question);
      fill(panel, ...detailsOf(market), proofOf(market));
    } catch (error) {
      if (!signal.aborted) fill(panel, failure(error, load));
    }
  }

  /** @param {HistoricalMarket} market */
  function proofOf(market) {
    const verdict = html("div", { role: "status" });
    const key = html("input", {
      id: "publisher",
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "NAME+ID+BASE64",
    });
    const button = html("button", { type: "submit" }, "Verify in this browser");
    const path = `${api.base}/markets/${id}/proof${asOf ? `?${new URLSearchParams({ asOf })}` : ""}`;
    return html(
      "section",
      { "aria-labelledby": "proof" },
      html("h2", { id: "proof" }, "Proof"),
      html(
        "p",
        { class: "quiet" },
        "The page asks for the proof, which takes a request, and hashes its way from this market’s text to the id of the snapshot. " +
          "With the publisher’s public key it also checks who signed that.",
      ),
      html(
        "form",
        { class: "verify", onsubmit: verify, novalidate: true },
        html("label", { for: "publisher" }, "Publisher’s key, if you have it"),
        html("div", { class: "joined" }, key, button),
      ),
      verdict,
      copyable("Request of the proof", `curl -sS -H "x-api-key: $KEY" "${path}"`),
    );

    /** @param {Event} event */
    async function verify(event) {
      event.preventDefault();
      button.disabled = true;
      try {
        const publisher = key.value.trim();
        const proof = await api.service.proof(id, { signal, asOf: snapshot });
        const proven = await verifyProof(proof, { id, asOf: snapshot, ...(publisher && { key: publisher }) });
        if (JSON.stringify(proven) !== JSON.stringify(market))
          throw new Error("The archive has changed since this page was loaded. Reload it.");
        const { page, segment, archive } = proof.proof;
        fill(
          verdict,
          html(
            "p",
            { class: "proven" },
            html("strong", {}, "✓ Verified."),
            " What you see is what the snapshot holds.",
          ),
          html(
            "ol",
            { class: "chain" },
            html(
              "li",
              {},
              "This market’s text, ",
              counted(new TextEncoder().encode(proof.market).length, "byte"),
            ),
            html("li", {}, `is number ${grouped(page.index + 1)} of ${grouped(page.size)} in its page,`),
            html(
              "li",
              {},
              `which is number ${grouped(segment.index + 1)} of ${grouped(segment.size)} in its segment,`,
            ),
            html(
              "li",
              {},
              `which is number ${grouped(archive.index + 1)} of ${grouped(archive.size)} in the archive of ` +
                `${counted(archive.markets, "market")},`,
            ),
            html("li", {}, "which is part of snapshot ", html("code", {}, proof.snapshotId), ","),
            html(
              "li",
              {},
              publisher
                ? `which the publisher signed as commit ${grouped(proof.commit)}.`
                : proof.checkpoint === null
                  ? `which is commit ${grouped(proof.commit)}. Nobody signed it.`
                  : `which is commit ${grouped(proof.commit)}. ` +
                    "It is signed; enter the publisher’s key to check that.",
            ),
          ),
        );
      } catch (error) {
        if (!signal.aborted)
          fill(
            verdict,
            failure(crypto.subtle ? error : new Error("Browsers verify on secure origins only: use https.")),
          );
      }
      button.disabled = false;
    }
  }
}

/** A list item for a market.
 * @param {HistoricalMarket} market
 * @param {string | null} asOf */
export function marketItem(
  { id, question, category, composite, tier: name, resolvedOutcome, resolvedAt, disputed, topRiskDriver },
  asOf,
) {
  return html(
    "li",
    { class: `market tier-${tiers.indexOf(name) + 1}` },
    html(
      "p",
      { class: "composite", "data-meaning": "composite" },
      html("span", { class: "unseen" }, "Composite "),
      html("b", {}, composite),
    ),
    html(
      "div",
      { class: "gist" },
      html("h3", {}, html("a", { class: "question", dir: "auto", href: marketAddress(id, asOf) }, question)),
      html(
        "p",
        { class: "tags" },
        tier(name),
        html("span", { dir: "auto" }, category),
        html("span", {}, "Resolved ", html("b", {}, html("bdi", {}, resolvedOutcome))),
        disputed && html("span", { class: "disputed" }, "Disputed"),
        topRiskDriver !== "" && html("span", { dir: "auto" }, topRiskDriver),
        moment(resolvedAt),
      ),
    ),
  );
}

/** @param {HistoricalMarket} market */
function detailsOf(market) {
  const number = tiers.indexOf(market.tier) + 1;
  return [
    html(
      "div",
      { class: `summary tier-${number}` },
      html(
        "div",
        { class: "headline" },
        html(
          "p",
          { class: "bri" },
          html("b", { class: "big" }, market.composite),
          html("span", { class: "of" }, term("Composite", "composite"), " of 300 to 1,000"),
        ),
        bar(market.composite - 300, 700),
        html(
          "p",
          { class: "tags" },
          tier(market.tier),
          market.disputed && html("span", { class: "disputed" }, "Disputed"),
        ),
      ),
      facts([
        [
          "Resolved",
          [html("b", {}, html("bdi", {}, market.resolvedOutcome)), ", ", moment(market.resolvedAt)],
        ],
        [term("Disputed", "disputed"), market.disputed ? "Yes" : "No"],
        [term("Main risk driver", "topRiskDriver"), html("bdi", {}, market.topRiskDriver)],
        [term("Flagged items", "flaggedCount"), market.flaggedCount],
        ["Resolution source", outsideLink(market.resolutionSource)],
      ]),
    ),
    html("h2", {}, "Six risk signals"),
    html("p", { class: "quiet" }, meanings.marketDimension.meaning),
    html("ul", { class: "signals" }, market.dimensions.map(dimensionItem)),
    html("h2", {}, "Record"),
    facts([
      ["Category", html("bdi", {}, market.category)],
      ["Formula version", market.formulaVersion],
      ["Weight version", market.weightVersion],
      ["Name in addresses", html("span", { class: "broken" }, market.slug)],
      ["Identifier", html("code", {}, market.id)],
    ]),
  ];
}

/** How many pieces of evidence are shown at once; a market may have hundreds. */
const few = 5;

/** Text whose direction does not spread to the words around it.
 * @param {string} text */
const foreign = (text) => html("bdi", {}, text);

/** @param {MarketDimension["evidence"][number]} piece */
const evidenceItem = ({ type, label, pattern, reference }) =>
  html(
    "li",
    {},
    foreign(label),
    html("span", { class: "quiet" }, " · ", foreign(spoken(type)), " · ", foreign(spoken(pattern)), " · "),
    outsideLink(reference.url, reference.label),
    html("span", { class: "quiet" }, " (", foreign(reference.kind), ")"),
  );

/** @param {MarketDimension} dimension */
function dimensionItem({ key, name, score, weight, description, evidence, references, computation }) {
  const { baseline, raises, lowers } = computation;
  return html(
    "li",
    {},
    html("h3", { dir: "auto" }, dimensionLink(key, name)),
    html(
      "p",
      { class: `score tier-${stepOf(score / 100)}` },
      bar(score, 100),
      html("span", {}, term("Risk", "marketDimension"), " ", html("b", {}, score)),
      html("span", { class: "quiet" }, term("Weight", "weight"), ` ${weight}`),
    ),
    html("p", { dir: "auto" }, description),
    evidence.length > 0 && [
      html("h4", {}, counted(evidence.length, "piece", "pieces"), " of evidence"),
      html("ul", {}, evidence.slice(0, few).map(evidenceItem)),
      evidence.length > few &&
        html(
          "details",
          {},
          html("summary", {}, `${grouped(evidence.length - few)} more`),
          html("ul", {}, evidence.slice(few).map(evidenceItem)),
        ),
    ],
    references.length > 0 && [html("h4", {}, "References"), anyList(references)],
    html("h4", {}, term("Computation", "computation")),
    html(
      "p",
      { class: "quiet" },
      `Baseline ${baseline}`,
      raises.length > 0 && [" · raised by ", ...listed(raises)],
      lowers.length > 0 && [" · lowered by ", ...listed(lowers)],
    ),
  );
}

/** @param {readonly unknown[]} values */
const anyList = (values) =>
  html(
    "ul",
    {},
    values.map((value) => html("li", {}, ...anything(value))),
  );

/** @param {readonly unknown[]} values */
const listed = (values) => values.flatMap((value, index) => [index > 0 ? "; " : "", ...anything(value)]);

/**
 * Shows any JSON value as text, with web addresses as links.
 * @param {unknown} value
 * @returns {Child[]}
 */
function anything(value) {
  if (typeof value === "string")
    return [
      /^https?:\/\//i.test(value)
        ? outsideLink(value)
        : foreign(/^[a-z\d_]+$/.test(value) ? spoken(value) : value),
    ];
  if (Array.isArray(value)) return listed(value);
  if (typeof value !== "object" || value === null) return [`${value}`];
  return Object.entries(value).flatMap(([key, member], index) => [
    index > 0 ? ", " : "",
    foreign(spoken(key)),
    ": ",
    ...anything(member),
  ]);
}
