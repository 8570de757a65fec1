import { meanings } from "../../schemas/meanings.ts";
import { nameOf, spoken } from "../../schemas/names.ts";
import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import type { ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/scales.ts";
import { type Addresses, homeAddress, pageAddress, siteName } from "./addresses.ts";
import { type Markup, markup } from "./markup.ts";
import { bar, barred, renderDocument, stepOf } from "./page.ts";
import type { Place } from "./protocol-page.ts";

// The pictures of the public scores as pages for frames in other sites. They need no script, and of all addresses of the
// public tree these alone may be framed: the CDN's headers say so.

interface Frame {
  title: string;
  /** Explains the picture. Links to it leave the frame. */
  address: string;
  /** The root of the public tree, relative to the frame's page. */
  root: string;
  main: Markup;
  updatedAt: string;
}

const framed = ({ title, address, root, main, updatedAt }: Frame) =>
  renderDocument({
    title,
    address,
    root,
    head: markup`<meta name="robots" content="noindex">\n`,
    body: markup`<body class="embed">
<main>
${main}<p class="quiet"><a href="${address}" target="_blank" rel="noopener">${siteName}</a>, ${updatedAt.slice(0, 10)}. Higher is safer.</p>
</main>
</body>
`,
  });

export function renderProtocolEmbed(addresses: Addresses, record: ProtocolScore, place: Place): Markup {
  const { slug, bri, forgeScale, forgeScaleNum, dimensions, updatedAt } = record;
  const title = `Risk score of ${nameOf(slug)}`;
  const row = (key: (typeof protocolDimensionKeys)[number]) =>
    markup`<tr><th scope="row">${spoken(key)}</th><td class="number">${barred(dimensions[key], 100, stepOf(dimensions[key] / 100))}</td></tr>\n`;
  const main = markup`<h1>${title}</h1>
<div class="tier-${forgeScaleNum}">
<p class="bri"><b class="big">${bri}</b><span class="of">of 1,000, ${forgeScale}, place ${place.rank} of ${place.of}</span></p>
${bar(bri, 1000)}
</div>
<table class="record">
<caption class="unseen">${meanings.protocolDimension.meaning}</caption>
<tbody>
${protocolDimensionKeys.map(row)}</tbody>
</table>
`;
  return framed({ title, address: pageAddress(addresses, slug), root: "../../", main, updatedAt });
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
  const updatedAt =
    list
      .map((entry) => entry.updatedAt)
      .sort()
      .at(-1) ?? "";
  return framed({ title, address: homeAddress(addresses), root: "../", main, updatedAt });
}
