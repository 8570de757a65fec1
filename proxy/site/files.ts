import { readFileSync } from "node:fs";
import { endpoints } from "../../schemas/endpoints.ts";
import { protocolListPath } from "../../snapshots/artefacts/dataset.ts";
import type { ApiAddress, Named, Site } from "../../snapshots/publish/public/site.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { bundle, pagePolicy, policyHeader, type StaticFile } from "./static-files.ts";

type FileName = (typeof endpoints.siteFile.files)[number];

const readOwn = (name: string) => readFileSync(new URL(name, import.meta.url));

/** Stands in index.html for the policy of the page. */
const policyMark = "CONTENT_SECURITY_POLICY";

/** The policy of the page. An API on another origin must be among the sources it may request. */
function policyFor(api: ApiAddress): string {
  // A relative address lies on the page's own origin.
  const requests = api !== null && URL.canParse(api) ? `'self' ${new URL(api).origin}` : "'self'";
  // Recomputing compiles the loops of snapshots/index/slice-kernel.ts, which are WebAssembly.
  return pagePolicy({ scripts: "'self' 'wasm-unsafe-eval'", images: "'self' data:", requests });
}

/** The text of index.html for readers without scripts, beside the artefacts of a public tree. */
const unscripted = /(?<=<noscript>).*(?=<\/noscript>)/s;
const toPages = `
        <h1>This page needs JavaScript</h1>
        <p><a href="${protocolListPath}">All scores</a> can be read without it, each with a page of its own.</p>
      `;

function pageFor(api: ApiAddress, site: string | null = null): Buffer {
  const page = String(readOwn("index.html")).replace(policyMark, policyFor(api));
  return Buffer.from(site === null ? page : page.replace(unscripted, toPages));
}

async function fileFor(name: FileName, api: ApiAddress, others: Partial<Named> = {}): Promise<Buffer> {
  switch (name) {
    case "api.json":
      return Buffer.from(JSON.stringify({ api, ...withoutNulls(others) }));
    case "icon.png":
    case "icon.svg":
      return readOwn(name);
    default:
      return bundle(name);
  }
}

const withoutNulls = (named: object) =>
  Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null));

/** The site as publishers put it into the store, for a CDN that serves it without the proxy. */
export const publishedSite: Site = {
  keys: [layout.siteIndex, ...endpoints.siteFile.files.map(layout.siteFile)],
  async files(api, others) {
    const files = endpoints.siteFile.files.map(
      async (name) => [layout.siteFile(name), await fileFor(name, api, others)] as const,
    );
    return new Map([[layout.siteIndex, pageFor(api, others?.site)], ...(await Promise.all(files))]);
  },
};

/** The address of the API relative to the page, when the proxy serves both. */
const ownApi = "api/v1";

/**
 * The site as the proxy serves it, which names where a key comes from. It differs from a published one without an API
 * in api.json alone.
 */
export const servedSite = (contact: string | null = null): StaticFile[] => [
  {
    path: endpoints.site.path,
    contentType: headersOf(layout.siteIndex).contentType,
    read: () => pageFor(ownApi),
    headers: policyHeader(policyFor(ownApi)),
  },
  ...endpoints.siteFile.files.map((name) => ({
    path: endpoints.siteFile.path.replace(":file", name),
    contentType: headersOf(layout.siteFile(name)).contentType,
    read: () => fileFor(name, ownApi, { contact }),
  })),
];
