import { layout } from "../store/layout.ts";

export const siteName = "Protocol Risk Scores";
export const siteDescription =
  "Risk scores of DeFi protocols in twelve dimensions, and an archive of resolved prediction markets.";

/** Null where the operator says nothing. */
export interface Terms {
  /** An address. */
  license: string | null;
  citeAs: string | null;
}

export interface Addresses extends Terms {
  /** Ends with a slash. */
  site: string;
  /** https://HOST/api/v1; null where the site has no service. */
  api: string | null;
}

const within = (key: string) => key.slice(layout.publicTree.length);

export const addressOf = ({ site }: Addresses, key: string) => `${site}${within(key)}`;

// Not every CDN shows the index.html of a folder under the folder's own name.
/** Relative to the root of the public tree. */
export const pagePath = (slug: string) => within(layout.protocolPage(slug));
export const pageAddress = (addresses: Addresses, slug: string) =>
  addressOf(addresses, layout.protocolPage(slug));
export const protocolListPath = within(layout.protocolList);
export const protocolListAddress = (addresses: Addresses) => addressOf(addresses, layout.protocolList);
/** PNG, since most link previews do not show SVG. */
export const iconAddress = ({ site }: Addresses) => `${site}site/icon.png`;
export const recordAddress = ({ site }: Addresses, slug: string) => `${site}api/v1/scores/${slug}.json`;
export const listAddress = ({ site }: Addresses) => `${site}api/v1/scores.json`;
export const datasetAddress = ({ site }: Addresses) => `${site}dataset.jsonld`;
export const feedAddress = ({ site }: Addresses) => `${site}feed.xml`;
export const homeAddress = ({ site }: Addresses) => `${site}index.html`;

/** For paths beside the API, such as `openapi.json`. */
export function serviceAddress(api: string, path: string): string {
  return `${api.replace(/api\/v1$/, "")}${path}`;
}
