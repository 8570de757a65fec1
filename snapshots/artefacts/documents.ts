import { meanings } from "../../schemas/meanings.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import {
  type Addresses,
  datasetAddress,
  feedAddress,
  homeAddress,
  listAddress,
  pageAddress,
  protocolListAddress,
  recordAddress,
  serviceAddress,
  siteDescription,
  siteName,
} from "./addresses.ts";
import { type Markup, markup } from "./markup.ts";

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
