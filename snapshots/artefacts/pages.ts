import { meanings } from "../../schemas/meanings.ts";
import { minutes, nameOf, spoken } from "../../schemas/names.ts";
import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import type { ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { forgeTiers, stepOf } from "../../schemas/versions.ts";
import { layout } from "../store/layout.ts";
import { cardSize } from "./card.ts";
import { type Addresses, addressOf, pathOf, renderPageData, siteName } from "./dataset.ts";
import { jsonMarkup, type Markup, markup } from "./markup.ts";

export interface Place {
  /** The number of protocols with a higher BRI, plus 1. */
  rank: number;
  of: number;
  /** The protocol and up to two on either side, from the highest BRI down. */
  around: readonly ScoreListEntry[];
}

/** `list` has all scores, by BRI from the highest down. */
export function placeOf(slug: string, list: readonly ScoreListEntry[]): Place {
  const index = list.findIndex((entry) => entry.slug === slug);
  const rank = 1 + list.findIndex(({ bri }) => bri === list[index]?.bri);
  return { rank, of: list.length, around: list.slice(Math.max(0, index - 2), index + 3) };
}

/** Depends on the record and the place alone, so the page changes only with these. `card` is the key of its card. */
export function renderProtocolPage(
  addresses: Addresses,
  record: ProtocolScore,
  place: Place,
  card: string,
): Markup {
  const { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, evidenceHash } = record;
  const { cascade, findings, metadata, dimensions } = record;
  const title = `${nameOf(slug)}: risk score ${bri} of 1,000, ${forgeScale}`;
  const description = `BRI ${bri} of 1,000, tier ${forgeScale}, confidence ${confidence} of 100. ${meanings.bri.meaning}`;
  const address = addressOf(addresses, layout.protocolPage(slug));
  // The direction of foreign text must not spread to the words around it.
  const foreign = (text: string) => markup`<bdi>${text}</bdi>`;
  const facts: [string, Markup | string | number, string?][] = [
    [
      "BRI",
      markup`<span class="tier-${forgeScaleNum}"><b>${bri}</b> of 1,000${bar(bri, 1000)}</span>`,
      meanings.bri.meaning,
    ],
    ["Tier", markup`<b>${forgeScale}</b>, ${forgeScaleNum} of ${forgeTiers.length}`, meanings.tier.meaning],
    ["Confidence", `${confidence} of 100`, meanings.confidence.meaning],
    ["Change", delta > 0 ? `+${delta}` : delta, meanings.delta.meaning],
    ["Updated", markup`<time datetime="${updatedAt}">${minutes(updatedAt)}</time>`],
    ["Slug", markup`<code>${slug}</code>`],
    ["Category", foreign(metadata.category)],
    ["Chain", foreign(metadata.chain)],
    ["Value locked (TVL)", foreign(metadata.tvl), meanings.tvl.meaning],
    ["Contracts", metadata.contracts, meanings.contracts.meaning],
    ["Z factor", metadata.zFactor, meanings.zFactor.meaning],
    [
      "Cascade",
      `blast radius ${cascade.blastRadius}, upstream dependencies ${cascade.upstreamDeps}`,
      meanings.cascade.meaning,
    ],
    [
      "Findings",
      `${findings.critical} critical, ${findings.high} high, ${findings.medium} medium`,
      meanings.findings.meaning,
    ],
    ["Evidence", markup`<code><bdi>${evidenceHash}</bdi></code>`, "Hash of the content behind this score."],
  ];
  const head = markup`<link rel="alternate" type="application/json" href="../../api/v1/scores/${slug}.json">
<script type="application/ld+json">${jsonMarkup(renderPageData(addresses, record))}</script>
`;
  const fact = ([name, value, meaning]: (typeof facts)[number]) =>
    markup`<tr><th scope="row">${name}${meaning ? markup`<small>${meaning}</small>` : ""}</th><td>${value}</td></tr>\n`;
  const neighbour = ({ slug: other, bri, forgeScale, forgeScaleNum }: ScoreListEntry) => {
    const name =
      other === slug
        ? markup`<b>${nameOf(other)}</b>`
        : markup`<a href="${up}${pathOf(layout.protocolPage(other))}">${nameOf(other)}</a>`;
    return markup`<tr><th scope="row">${name}<small>${forgeScale}</small></th><td class="number">${barred(bri, 1000, forgeScaleNum)}</td></tr>\n`;
  };
  const main = markup`<p class="path"><a href="../index.html">All protocols</a></p>
<h1>${nameOf(slug)}</h1>
<p class="scrolls"><img src="../../badges/${slug}.svg" alt="${title}" height="20"></p>
<p>Place <b>${place.rank}</b> of ${place.of}, by BRI. <a href="../../index.html#/protocols/${slug}">The live page of ${nameOf(slug)}</a> shows more.</p>
${recordTable(`Score of ${nameOf(slug)}`, facts.map(fact))}<h2>Twelve dimensions</h2>
${recordTable(meanings.protocolDimension.meaning, dimensionRows(dimensions))}<h2>Neighbours</h2>
${recordTable("The protocols whose BRI is nearest", place.around.map(neighbour))}`;
  const footer = markup`<a href="../../api/v1/scores/${slug}.json">This score as JSON</a>`;
  return renderPage(addresses, { title, description, address, root: up, head, card, main, footer });
}

const up = "../../";

/** `list` has all scores, by BRI from the highest down. */
export function renderProtocolList(addresses: Addresses, list: readonly ScoreListEntry[]): Markup {
  const row = (entry: ScoreListEntry) => {
    const { slug, bri, forgeScale, forgeScaleNum, confidence, category = "" } = entry;
    const { rank } = placeOf(slug, list);
    return markup`<tr><td class="number">${rank}</td><th scope="row"><a href="../${pathOf(layout.protocolPage(slug))}">${nameOf(slug)}</a></th><td><bdi>${category}</bdi></td><td class="number">${barred(bri, 1000, forgeScaleNum)}</td><td>${forgeScale}</td><td class="number">${confidence}</td></tr>\n`;
  };
  const main = markup`<h1>All protocols</h1>
<p>${list.length} protocols by their risk. <a href="../index.html">The live list</a> sorts and filters them.</p>
<p class="quiet">BRI: ${meanings.bri.meaning} Confidence: ${meanings.confidence.meaning}</p>
<div class="scrolls" tabindex="0" role="region" aria-label="All protocols">
<table class="plain-table">
<caption class="unseen">All protocols, by BRI from the highest down</caption>
<thead><tr><th scope="col" class="number">Place</th><th scope="col">Protocol</th><th scope="col">Category</th><th scope="col" class="number">BRI</th><th scope="col">Tier</th><th scope="col" class="number">Confidence</th></tr></thead>
<tbody>
${list.map(row)}</tbody>
</table>
</div>
`;
  return renderPage(addresses, {
    title: `Risk scores of ${list.length} DeFi protocols`,
    description: `All scored protocols, by BRI from the highest down. ${meanings.bri.meaning}`,
    address: addressOf(addresses, layout.protocolList),
    root: "../",
    head: markup`<link rel="alternate" type="application/json" href="../api/v1/scores.json">\n`,
    main,
    footer: markup`<a href="../api/v1/scores.json">All scores as JSON</a>`,
  });
}

// The pictures of the public scores as pages for frames in other sites. They need no script, and of all addresses of
// the public tree these alone may be framed: the CDN's headers say so.

/** Its address explains the picture. Links to it leave the frame. */
interface Frame extends Omit<DocumentParts, "head" | "body"> {
  main: Markup;
  updatedAt: string;
}

const framed = ({ main, updatedAt, ...page }: Frame) =>
  renderDocument({
    ...page,
    head: markup`<meta name="robots" content="noindex">\n`,
    body: markup`<body class="embed">
<main>
${main}<p class="quiet"><a href="${page.address}" target="_blank" rel="noopener">${siteName}</a>, ${updatedAt.slice(0, 10)}. Higher is safer.</p>
</main>
</body>
`,
  });

export function renderProtocolEmbed(addresses: Addresses, record: ProtocolScore, place: Place): Markup {
  const { slug, bri, forgeScale, forgeScaleNum, dimensions, updatedAt } = record;
  const title = `Risk score of ${nameOf(slug)}`;
  const main = markup`<h1>${title}</h1>
<div class="tier-${forgeScaleNum}">
<p class="bri"><b class="big">${bri}</b><span class="of">of 1,000, ${forgeScale}, place ${place.rank} of ${place.of}</span></p>
${bar(bri, 1000)}
</div>
<table class="record">
<caption class="unseen">${meanings.protocolDimension.meaning}</caption>
<tbody>
${dimensionRows(dimensions)}</tbody>
</table>
`;
  const address = addressOf(addresses, layout.protocolPage(slug));
  return framed({ title, address, root: "../../", main, updatedAt });
}

/** Points of BRI that share a column. */
const step = 25;
const columns = 1000 / step;

/** How many protocols have which BRI. `list` has all scores, by BRI from the highest down. */
export function renderListEmbed(addresses: Addresses, list: readonly ScoreListEntry[]): Markup {
  const title = `The BRI of ${list.length} DeFi protocols`;
  const piles = Array.from({ length: columns }, (_, index) =>
    list.filter(({ bri }) => Math.min(columns - 1, Math.floor(bri / step)) === index).reverse(),
  );
  const highest = Math.max(1, ...piles.map(({ length }) => length));
  const piece = (x: number) => (entry: ScoreListEntry, y: number) =>
    markup`<rect class="column tier-${entry.forgeScaleNum}" x="${x}.08" y="${highest - 1 - y}" width="0.84" height="1"><title>${nameOf(entry.slug)}: ${entry.bri}</title></rect>`;
  const tally = forgeTiers.map((tier) => list.filter(({ forgeScale }) => forgeScale === tier).length);
  const main = markup`<h1>${title}</h1>
<svg class="columns-chart" viewBox="0 0 ${columns} ${highest}" preserveAspectRatio="none" role="img" aria-label="How many protocols have which BRI, from 0 to 1,000">${piles.map((pile, x) => pile.map(piece(x)))}</svg>
<p class="axis" aria-hidden="true"><span>0</span><span>BRI 500</span><span>1,000</span></p>
<ul class="tiers-tally">
${forgeTiers.map((tier, index) => markup`<li><span class="tier tier-${index + 1}"><span class="steps" aria-hidden="true"></span><span class="tier-name">${tier}</span></span> ${tally[index]!}</li>\n`)}</ul>
`;
  const updatedAt = list.reduce((newest, entry) => (entry.updatedAt > newest ? entry.updatedAt : newest), "");
  return framed({ title, address: addressOf(addresses, layout.siteIndex), root: "../", main, updatedAt });
}

/** These pages run no script. The policy also stops a text that slipped through the escaping. */
const pagePolicy =
  "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'";

interface DocumentParts {
  title: string;
  /** The address that search engines should use. */
  address: string;
  /** The root of the public tree, relative to the document. */
  root: string;
  head: Markup;
  body: Markup;
}

const renderDocument = ({ title, address, root, head, body }: DocumentParts) => markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${pagePolicy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="canonical" href="${address}">
<link rel="stylesheet" href="${root}site/style.css">
${head}</head>
${body}</html>
`;

interface PageParts extends Omit<DocumentParts, "body"> {
  description: string;
  /** The key of a card, which link previews show large; without it they show the icon. */
  card?: string;
  main: Markup;
  footer: Markup;
}

/** Adds what search engines and link previews read. */
function renderPage(addresses: Addresses, page: PageParts): Markup {
  const { title, description, address, root, head, card, main, footer } = page;
  // PNG, since most link previews do not show SVG.
  const image = addressOf(addresses, card ?? layout.siteFile("icon.png"));
  const size = markup`<meta property="og:image:width" content="${cardSize.width}">
<meta property="og:image:height" content="${cardSize.height}">
`;
  return renderDocument({
    title,
    address,
    root,
    head: markup`<meta name="description" content="${description}">
<link rel="icon" href="${root}site/icon.svg" type="image/svg+xml">
<link rel="alternate" type="application/atom+xml" title="Changes of tier" href="${root}feed.xml">
<meta property="og:type" content="website">
<meta property="og:site_name" content="${siteName}">
<meta property="og:title" content="${title}">
<meta property="og:description" content="${description}">
<meta property="og:url" content="${address}">
<meta property="og:image" content="${image}">
<meta property="og:image:alt" content="${card ? title : siteName}">
${card ? size : ""}<meta name="twitter:card" content="${card ? "summary_large_image" : "summary"}">
${head}`,
    body: markup`<body>
<header class="top"><div class="wide"><a class="brand" href="${root}index.html"><img src="${root}site/icon.svg" alt="" width="28" height="28">${siteName}</a></div></header>
<main class="wide">
${main}</main>
<footer class="wide"><p>${footer} · <a href="${root}feed.xml">Changes of tier as a feed</a></p></footer>
</body>
`,
  });
}

const recordTable = (caption: string, rows: readonly Markup[]) => markup`<table class="record">
<caption>${caption}</caption>
<tbody>
${rows}</tbody>
</table>
`;

const dimensionRows = (dimensions: ProtocolScore["dimensions"]) =>
  protocolDimensionKeys.map(
    (key) =>
      markup`<tr><th scope="row">${spoken(key)}</th><td class="number">${barred(dimensions[key], 100, stepOf(dimensions[key] / 100))}</td></tr>\n`,
  );

/** A bar of the length `value / max`. Its element needs the class of a step of the scale, which gives the colour. */
export const bar = (value: number, max: number) =>
  markup`<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="1"/><rect class="value" width="${(100 * value) / max}" height="1"/></svg>`;

/** `step` gives the colour: a step of the scale from 1 to 7. */
const barred = (value: number, max: number, step: number) =>
  markup`<span class="score tier-${step}">${bar(value, max)}<b>${value}</b></span>`;
