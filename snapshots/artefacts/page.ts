import { meanings } from "../../schemas/meanings.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import {
  type Addresses,
  datasetAddress,
  feedAddress,
  homeAddress,
  iconAddress,
  listAddress,
  pageAddress,
  protocolListAddress,
  recordAddress,
  serviceAddress,
  siteDescription,
  siteName,
} from "./addresses.ts";
import { type Markup, markup } from "./markup.ts";

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

export const renderDocument = ({ title, address, root, head, body }: DocumentParts) => markup`<!doctype html>
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
  /** Link previews show it large; without it they show the icon. */
  picture?: { address: string; says: string; width: number; height: number };
  main: Markup;
  footer: Markup;
}

/** Adds what search engines and link previews read. */
export function renderPage(addresses: Addresses, page: PageParts): Markup {
  const { title, description, address, root, head, picture, main, footer } = page;
  const size =
    picture &&
    markup`<meta property="og:image:width" content="${picture.width}">
<meta property="og:image:height" content="${picture.height}">
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
<meta property="og:image" content="${picture?.address ?? iconAddress(addresses)}">
<meta property="og:image:alt" content="${picture?.says ?? siteName}">
${size ?? ""}<meta name="twitter:card" content="${picture ? "summary_large_image" : "summary"}">
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

/** A bar of the length `value / max`. Its element needs the class of a step of the scale, which gives the colour. */
export const bar = (value: number, max: number) =>
  markup`<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="1"/><rect class="value" width="${(100 * value) / max}" height="1"/></svg>`;

/** `step` gives the colour: a step of the scale from 1 to 7. */
export const barred = (value: number, max: number, step: number) =>
  markup`<span class="score tier-${step}">${bar(value, max)}<b>${value}</b></span>`;

/** A step of the scale from 1 to 7, for a share of the highest score. */
export const stepOf = (share: number) => Math.min(7, 1 + Math.floor(share * 7));

/** The most addresses that sitemaps.org allows in a sitemap. */
const maxAddresses = 50_000;

/** For search engines (sitemaps.org). */
export function renderSitemap(addresses: Addresses, records: readonly ProtocolScore[]): Markup {
  const pages = records
    .slice(0, maxAddresses - 2)
    .map(
      ({ slug, updatedAt }) =>
        markup`<url><loc>${pageAddress(addresses, slug)}</loc><lastmod>${updatedAt}</lastmod></url>\n`,
    );
  return markup`<?xml version="1.0" encoding="utf-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc>${homeAddress(addresses)}</loc></url>
<url><loc>${protocolListAddress(addresses)}</loc></url>
${pages}</urlset>
`;
}

/** For language models (llmstxt.org). */
export function renderLlms(addresses: Addresses): string {
  const { api, site } = addresses;
  const link = (name: string, address: string, does: string) => `- [${name}](${address}): ${does}\n`;
  const { bri, tier, confidence, delta, protocolDimension } = meanings;
  const numbers = [bri, tier, confidence, delta, protocolDimension];
  return `# ${siteName}

> ${siteDescription}

What the numbers mean:

${numbers.map(({ field, meaning }) => `- ${field}: ${meaning}\n`).join("")}
## Data

${[
  link("All scores", listAddress(addresses), "JSON, by BRI from the highest down"),
  link("One protocol", recordAddress(addresses, "SLUG"), "JSON; put the protocol's slug in place of SLUG"),
  link("Page of all protocols", protocolListAddress(addresses), "HTML that needs no script"),
  link("Page of a protocol", pageAddress(addresses, "SLUG"), "HTML that needs no script"),
  link("Changes of tier", feedAddress(addresses), "Atom, 30 days"),
  link("Tiers", `${site}tiers.json`, "JSON: the tier of every protocol and the changes of 30 days"),
  link("Description of the data", datasetAddress(addresses), "schema.org Dataset with Croissant"),
  link("All pages", `${site}sitemap.xml`, "sitemap"),
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
export function renderApiCatalog(addresses: Addresses) {
  const { api, site } = addresses;
  const files = {
    anchor: listAddress(addresses),
    describedby: [{ href: datasetAddress(addresses), type: "application/ld+json" }],
    "service-doc": [{ href: `${site}llms.txt`, type: "text/plain" }],
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
        anchor: `${site}.well-known/api-catalog`,
        item: described.map(({ anchor }) => ({ href: anchor })),
      },
      ...described,
    ],
  };
}
