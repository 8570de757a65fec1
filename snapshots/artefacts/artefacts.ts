import { meanings } from "../../schemas/meanings.ts";
import { inListOrder, listEntryOf, type ProtocolScore, type ScoreListEntry } from "../../schemas/records.ts";
import { type TierChange, Tiers } from "../../schemas/store/stored-objects.ts";
import { layout, sha256 } from "../store/layout.ts";
import { renderBadge } from "./badge.ts";
import { cardKey } from "./card.ts";
import {
  type Addresses,
  addressOf,
  type DatasetFacts,
  renderDataset,
  serviceAddress,
  siteDescription,
  siteName,
} from "./dataset.ts";
import { type Markup, markup } from "./markup.ts";
import {
  placeOf,
  renderListEmbed,
  renderProtocolEmbed,
  renderProtocolList,
  renderProtocolPage,
} from "./pages.ts";

/** Keys of the artefacts that are about all protocols. */
export const artefactFiles = [
  layout.protocolList,
  layout.listEmbed,
  layout.tiers,
  layout.feed,
  layout.sitemap,
  layout.llms,
  layout.dataset,
  layout.apiCatalog,
];

export const artefactsOf = (slug: string) => [
  layout.badge(slug),
  layout.protocolPage(slug),
  layout.embed(slug),
];

/** Undefined for keys that are not artefacts of one protocol. */
export function slugOfArtefact(key: string): string | undefined {
  if (key.startsWith(layout.card.prefix)) return /[^/]+(?=-[0-9a-f]{16}\.png$)/.exec(key)?.[0];
  const [slug] = /(?!_)[^/]+(?=\.svg$|\/index\.html$)/.exec(key) ?? [];
  return slug !== undefined && artefactsOf(slug).includes(key) ? slug : undefined;
}

/** `hash` names the object that holds the record. */
export interface StoredScore {
  record: ProtocolScore;
  hash: string;
}

/** By key, without the card. `list` has all scores, by BRI from the highest down. */
export function renderProtocol(
  addresses: Addresses,
  { record, hash }: StoredScore,
  list: readonly ScoreListEntry[],
): [key: string, bytes: Buffer][] {
  const { slug } = record;
  const place = placeOf(slug, list);
  return [
    [layout.badge(slug), bytesOf(renderBadge(record))],
    [layout.protocolPage(slug), bytesOf(renderProtocolPage(addresses, record, place, cardKey(slug, hash)))],
    [layout.embed(slug), bytesOf(renderProtocolEmbed(addresses, record, place))],
  ];
}

const bytesOf = ({ text }: Markup) => Buffer.from(text);

/**
 * Everything that lets the public scores be found and shown, by key, without the cards. It is made of public data and,
 * of an export, only the numbers, sizes and hashes of its files.
 */
export function renderArtefacts(
  addresses: Addresses,
  scores: readonly StoredScore[],
  tiers: Tiers,
  facts: Omit<DatasetFacts, "since">,
): Map<string, Buffer> {
  const records = scores.map(({ record }) => record);
  const list = inListOrder(records.map(listEntryOf));
  return new Map([
    ...scores.flatMap((score) => renderProtocol(addresses, score, list)),
    [layout.listEmbed, bytesOf(renderListEmbed(addresses, list))],
    [layout.protocolList, bytesOf(renderProtocolList(addresses, list))],
    [layout.tiers, Buffer.from(JSON.stringify(tiers))],
    [layout.feed, bytesOf(renderFeed(addresses, tiers))],
    [layout.sitemap, bytesOf(renderSitemap(addresses, records))],
    [layout.llms, Buffer.from(renderLlms(addresses))],
    [layout.dataset, jsonFile(renderDataset(addresses, { ...facts, since: tiers.since }))],
    [layout.apiCatalog, jsonFile(renderApiCatalog(addresses))],
  ]);
}

const jsonFile = (value: unknown) => Buffer.from(`${JSON.stringify(value, null, 1)}\n`);

/** The most addresses that sitemaps.org allows in a sitemap. */
const maxAddresses = 50_000;

/** For search engines (sitemaps.org). */
function renderSitemap(addresses: Addresses, records: readonly ProtocolScore[]): Markup {
  const pages = records
    .slice(0, maxAddresses - 2)
    .map(
      ({ slug, updatedAt }) =>
        markup`<url><loc>${addressOf(addresses, layout.protocolPage(slug))}</loc><lastmod>${updatedAt}</lastmod></url>\n`,
    );
  return markup`<?xml version="1.0" encoding="utf-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>${addressOf(addresses, layout.siteIndex)}</loc></url>
<url><loc>${addressOf(addresses, layout.protocolList)}</loc></url>
${pages}</urlset>
`;
}

/** For language models (llmstxt.org). */
function renderLlms(addresses: Addresses): string {
  const { api } = addresses;
  const link = (name: string, address: string, does: string) => `- [${name}](${address}): ${does}\n`;
  const file = (name: string, key: string, does: string) => link(name, addressOf(addresses, key), does);
  const { bri, tier, confidence, delta, protocolDimension } = meanings;
  const numbers = [bri, tier, confidence, delta, protocolDimension];
  return `# ${siteName}

> ${siteDescription}

What the numbers mean:

${numbers.map(({ field, meaning }) => `- ${field}: ${meaning}\n`).join("")}
## Data

${[
  file("All scores", layout.stableScoreList, "JSON, by BRI from the highest down"),
  file("One protocol", layout.stableScore("SLUG"), "JSON; put the protocol's slug in place of SLUG"),
  file("Page of all protocols", layout.protocolList, "HTML that needs no script"),
  file("Page of a protocol", layout.protocolPage("SLUG"), "HTML that needs no script"),
  file("Changes of tier", layout.feed, "Atom, 30 days"),
  file("Tiers", layout.tiers, "JSON: the tier of every protocol and the changes of 30 days"),
  file("Description of the data", layout.dataset, "schema.org Dataset with Croissant"),
  file("All pages", layout.sitemap, "sitemap"),
].join("")}${
  api === null
    ? ""
    : `
## API

${[
  link(
    "Description",
    serviceAddress(api, "openapi.json"),
    "OpenAPI 3.1: histories, the archive of markets, plans and quotas",
  ),
  link("Documentation", serviceAddress(api, "docs/"), "the same as a page"),
  link("Client", serviceAddress(api, "client.js"), "JavaScript for browsers and Node"),
  link("Tools for agents", serviceAddress(api, "mcp"), "Model Context Protocol over streamable HTTP"),
].join("")}`
}`;
}

/** A linkset (RFC 9264) of the APIs of this site (RFC 9727). */
function renderApiCatalog(addresses: Addresses) {
  const { api } = addresses;
  const files = {
    anchor: addressOf(addresses, layout.stableScoreList),
    describedby: [{ href: addressOf(addresses, layout.dataset), type: "application/ld+json" }],
    "service-doc": [{ href: addressOf(addresses, layout.llms), type: "text/plain" }],
  };
  const service = api !== null && {
    anchor: api,
    "service-desc": [{ href: serviceAddress(api, "openapi.json"), type: "application/json" }],
    "service-doc": [{ href: serviceAddress(api, "docs/"), type: "text/html" }],
    status: [{ href: `${api}/status`, type: "application/json" }],
  };
  const described = [...(service ? [service] : []), files];
  return {
    linkset: [
      {
        anchor: addressOf(addresses, layout.apiCatalog),
        item: described.map(({ anchor }) => ({ href: anchor })),
      },
      ...described,
    ],
  };
}

/** How far back from the newest commit changes are told. */
const changeMilliseconds = 30 * 86_400_000;
/** The newest changes are told. Without a bound, a formula that moves every protocol would make the feed huge. */
export const maxChanges = 500;

/** Changes are told from this time on, if the newest commit was published at `publishedAt`. Both are ISO 8601. */
export const oldestTold = (publishedAt: string) =>
  new Date(Date.parse(publishedAt) - changeMilliseconds).toISOString();

/**
 * The tiers after a commit with these records, and what changed since `before`, which the public tree shows. Without
 * `before` nothing is known to have changed. The same commit again changes nothing.
 */
export function tiersAfter(
  before: Tiers | undefined,
  records: readonly ProtocolScore[],
  publishedAt: string,
): Tiers {
  const earlier = new Map(Object.entries(before?.tiers ?? {}));
  const fresh = records.flatMap(({ slug, forgeScale, bri }): TierChange[] => {
    const old = earlier.get(slug);
    return old === undefined || old === forgeScale
      ? []
      : [{ slug, from: old, to: forgeScale, bri, at: publishedAt }];
  });
  const oldest = oldestTold(publishedAt);
  const recent = (before?.changes ?? []).filter(({ at }) => at >= oldest);
  return {
    since: before?.since ?? publishedAt,
    tiers: Object.fromEntries(records.map(({ slug, forgeScale }) => [slug, forgeScale])),
    changes: [...fresh, ...recent].slice(0, maxChanges),
  };
}

/** Undefined when they are missing or damaged. */
export function readTiers(bytes: Buffer | undefined): Tiers | undefined {
  try {
    return bytes && Tiers.parse(JSON.parse(String(bytes)));
  } catch {
    return undefined;
  }
}

/** A UUID of version 8 made of what changed, so that it stays when the site moves. */
export function changeId({ slug, from, to, at }: TierChange): string {
  const digits = sha256([slug, from, to, at].join("\n"));
  const variant = "89ab"[Number.parseInt(digits[16]!, 16) % 4];
  const parts = [digits.slice(0, 8), digits.slice(8, 12), `8${digits.slice(13, 16)}`];
  return `urn:uuid:${[...parts, `${variant}${digits.slice(17, 20)}`, digits.slice(20, 32)].join("-")}`;
}

/** An Atom feed (RFC 4287), newest change first. */
function renderFeed(addresses: Addresses, { since, changes }: Tiers): Markup {
  const entries = changes.map((change) => {
    const { slug, from, to, bri, at } = change;
    return markup`  <entry>
    <id>${changeId(change)}</id>
    <title>${slug} moved from ${from} to ${to}</title>
    <published>${at}</published>
    <updated>${at}</updated>
    <link rel="alternate" type="text/html" href="${addressOf(addresses, layout.protocolPage(slug))}"/>
    <category term="${to}"/>
    <summary>BRI ${bri}. ${meanings.tier.meaning}</summary>
  </entry>
`;
  });
  return markup`<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
  <id>${addressOf(addresses, layout.feed)}</id>
  <title>${siteName}: changes of tier</title>
  <subtitle>${meanings.tier.meaning}</subtitle>
  <updated>${changes[0]?.at ?? since}</updated>
  <author><name>${siteName}</name></author>
  <link rel="self" type="application/atom+xml" href="${addressOf(addresses, layout.feed)}"/>
  <link rel="alternate" type="text/html" href="${addressOf(addresses, layout.siteIndex)}"/>
${entries}</feed>
`;
}
