import { meanings } from "../../schemas/meanings.ts";
import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import { type Addresses, iconAddress, pageAddress, siteName } from "./addresses.ts";
import { renderPageData } from "./dataset.ts";
import { jsonMarkup, type Markup, markup } from "./markup.ts";

/** A page that states it runs nothing needs no script, and a text that slipped through could not run either. */
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'";

/**
 * A page about a protocol that needs no script. It depends on the protocol's record alone, so it changes only with
 * that.
 */
export function renderProtocolPage(addresses: Addresses, record: ProtocolScore): Markup {
  const { slug, bri, forgeScale, forgeScaleNum, confidence, delta, updatedAt, evidenceHash } = record;
  const { cascade, findings, metadata, dimensions } = record;
  const title = `${slug}: risk score ${bri} of 1000, ${forgeScale}`;
  const description = `BRI ${bri} of 1000, tier ${forgeScale}, confidence ${confidence} of 100. ${meanings.bri.meaning}`;
  const address = pageAddress(addresses, slug);
  // Directions of foreign text must not spread to the words around it.
  const foreign = (text: string) => markup`<bdi>${text}</bdi>`;
  const facts: [string, Markup | string | number, string?][] = [
    ["BRI", markup`<b>${bri}</b> of 1000`, meanings.bri.meaning],
    ["Tier", markup`<b>${forgeScale}</b>, ${forgeScaleNum} of 7`, meanings.tier.meaning],
    ["Confidence", `${confidence} of 100`, meanings.confidence.meaning],
    ["Delta", delta > 0 ? `+${delta}` : delta, meanings.delta.meaning],
    ["Updated", markup`<time datetime="${updatedAt}">${updatedAt}</time>`],
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
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<meta name="description" content="${description}">
<link rel="canonical" href="${address}">
<link rel="icon" href="../../site/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../../site/style.css">
<link rel="alternate" type="application/json" href="../../api/v1/scores/${slug}.json">
<link rel="alternate" type="application/atom+xml" title="Changes of tier" href="../../feed.xml">
<meta property="og:type" content="website">
<meta property="og:site_name" content="${siteName}">
<meta property="og:title" content="${title}">
<meta property="og:description" content="${description}">
<meta property="og:url" content="${address}">
<meta property="og:image" content="${iconAddress(addresses)}">
<meta property="og:image:alt" content="${siteName}">
<meta name="twitter:card" content="summary">
<script type="application/ld+json">${jsonMarkup(renderPageData(addresses, record))}</script>
</head>
<body>
<header class="top"><div class="wide"><a class="brand" href="../../index.html"><img src="../../site/icon.svg" alt="" width="28" height="28">${siteName}</a></div></header>
<main class="wide">
<h1>${slug}</h1>
<p class="scrolls"><img src="../../badges/${slug}.svg" alt="${title}" height="20"></p>
<p><a href="../../index.html#/protocols/${slug}">The live page of ${slug}</a>, with its place among all protocols</p>
<table class="record">
<caption>Score of ${slug}</caption>
<tbody>
${facts.map(([name, value, meaning]) => markup`<tr><th scope="row">${name}${meaning ? markup`<small>${meaning}</small>` : ""}</th><td>${value}</td></tr>\n`)}</tbody>
</table>
<h2>Twelve dimensions</h2>
<table class="record">
<caption>${meanings.protocolDimension.meaning}</caption>
<tbody>
${protocolDimensionKeys.map((key) => markup`<tr><th scope="row">${key.replaceAll("_", " ")}</th><td class="number">${dimensions[key]}</td></tr>\n`)}</tbody>
</table>
</main>
<footer class="wide"><p><a href="../../api/v1/scores/${slug}.json">This score as JSON</a> · <a href="../../feed.xml">Changes of tier as a feed</a></p></footer>
</body>
</html>
`;
}
