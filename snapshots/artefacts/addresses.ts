import { layout } from "../store/layout.ts";

export const siteName = "Protocol Risk Scores";
export const siteDescription =
  "Risk scores of DeFi protocols in twelve dimensions, and an archive of resolved prediction markets.";

/** What the public data says of itself; null where the operator says nothing. */
export interface Addresses {
  /** The address of the public tree. Ends with a slash. */
  site: string;
  /** https://HOST/api/v1; null where the site has no service. */
  api: string | null;
  /** An address. */
  license: string | null;
  citeAs: string | null;
}

/** Relative to the root of the public tree. Not every CDN shows a folder's index.html under the folder's own name. */
export const pathOf = (key: string) => key.slice(layout.publicTree.length);

/** `key` is of an object in the public tree. */
export const addressOf = ({ site }: Addresses, key: string) => `${site}${pathOf(key)}`;

export const protocolListPath = pathOf(layout.protocolList);

/** For paths beside the API, such as `openapi.json`. */
export function serviceAddress(api: string, path: string): string {
  return `${api.replace(/api\/v1$/, "")}${path}`;
}
