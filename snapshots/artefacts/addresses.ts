import { layout } from "../store/layout.ts";

/** The name of the site, unless it has another. */
export const siteName = "Protocol Risk Scores";
export const siteDescription =
  "Risk scores of DeFi protocols in twelve dimensions, and an archive of resolved prediction markets.";

/** On what terms the data may be used. An operator says so, or nobody does. */
export interface Terms {
  /** The address of its licence. */
  license: string | null;
  /** How to cite it. */
  citeAs: string | null;
}

/** Where the public tree and the service are found, and the terms of the data. */
export interface Addresses extends Terms {
  /** The address of the public tree, with a slash at its end. */
  site: string;
  /** The address of the API, https://HOST/api/v1, if there is one. */
  api: string | null;
}

const within = (key: string) => key.slice(layout.publicTree.length);

/** The address of an object of the public tree. */
export const addressOf = ({ site }: Addresses, key: string) => `${site}${within(key)}`;

// Not every CDN shows the index.html of a folder under the folder's own name.
/** Where a protocol's page is, from the root of the public tree. */
export const pagePath = (slug: string) => within(layout.protocolPage(slug));
export const pageAddress = (addresses: Addresses, slug: string) =>
  addressOf(addresses, layout.protocolPage(slug));
export const protocolListPath = within(layout.protocolList);
export const protocolListAddress = (addresses: Addresses) => addressOf(addresses, layout.protocolList);
/** The PNG icon: most link previews do not show SVG. */
export const iconAddress = ({ site }: Addresses) => `${site}site/icon.png`;
export const recordAddress = ({ site }: Addresses, slug: string) => `${site}api/v1/scores/${slug}.json`;
export const listAddress = ({ site }: Addresses) => `${site}api/v1/scores.json`;
export const datasetAddress = ({ site }: Addresses) => `${site}dataset.jsonld`;
export const feedAddress = ({ site }: Addresses) => `${site}feed.xml`;
export const homeAddress = ({ site }: Addresses) => `${site}index.html`;

/** A path of the service, beside its API. */
export function serviceAddress(api: string, path: string): string {
  return `${api.replace(/api\/v1$/, "")}${path}`;
}
