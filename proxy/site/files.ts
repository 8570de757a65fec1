import { readFileSync } from "node:fs";
import { endpoints } from "../../schemas/endpoints.ts";
import * as fields from "../../schemas/fields.ts";
import { dimensionMeanings, meanings } from "../../schemas/meanings.ts";
import { protocolListPath } from "../../snapshots/artefacts/addresses.ts";
import type { ApiAddress, Named, Site } from "../../snapshots/publish/public/site.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { link, recomputeModule } from "./link.ts";
import { lean, pagePolicy, policyHeader, type StaticFile } from "./static-file.ts";

type FileName = (typeof endpoints.siteFile.files)[number];

const readOwn = (name: string) => readFileSync(new URL(name, import.meta.url));

const leanOwn = (name: string) => Buffer.from(lean(String(readOwn(name))));

/** A style without spaces, zeros and semicolons that mean nothing. Before a colon a space may mean a descendant. */
const leanStyle = (text: string) =>
  text.replaceAll(/(?<=[{};,:])\s+| (?=\{)|;(?=\s*\})|(?<![\d.])0(?=\.\d)/g, "");

/** Stands in index.html where the page states its policy. */
const policyMark = "CONTENT_SECURITY_POLICY";

/** The policy of the page. An API on another origin must be among the sources it may request. */
function policyFor(api: ApiAddress): string {
  // A relative place lies on the page's own origin.
  const requests = api !== null && URL.canParse(api) ? `'self' ${new URL(api).origin}` : "'self'";
  // Recomputing compiles the loops of snapshots/index/slice-kernel.ts, which are WebAssembly.
  return pagePolicy({ scripts: "'self' 'wasm-unsafe-eval'", images: "'self' data:", requests });
}

/** What index.html says where scripts are off, beside the artefacts of a public tree. */
const unscripted = /(?<=<noscript>).*(?=<\/noscript>)/s;
const toPages = `
        <h1>This page needs JavaScript</h1>
        <p><a href="${protocolListPath}">All scores</a> can be read without it, each with a page of its own.</p>
      `;

function pageFor(api: ApiAddress, site: string | null = null): Buffer {
  const page = String(readOwn("index.html")).replace(policyMark, policyFor(api));
  return Buffer.from(site === null ? page : page.replace(unscripted, toPages));
}

/** The files that do not depend on where the API is, each made when it is first asked for. */
const made = new Map<FileName, Buffer>();

function fileFor(name: FileName, api: ApiAddress, others: Partial<Named> = {}): Buffer {
  if (name === "api.json") return Buffer.from(JSON.stringify({ api, ...told(others) }));
  const bytes = made.get(name) ?? make(name);
  made.set(name, bytes);
  return bytes;
}

function make(name: Exclude<FileName, "api.json">): Buffer {
  if (name === "client.js") return leanOwn("client/client.js");
  if (name === "recompute.mjs") return recomputeModule();
  if (name === "meanings.js") return moduleOf({ dimensionMeanings, meanings: unfielded });
  if (name === "names.js") return Buffer.from(lean(link(new URL("../../schemas/names.ts", import.meta.url))));
  if (name === "fields.js") return moduleOf(fields);
  if (name.endsWith(".css")) return Buffer.from(leanStyle(String(leanOwn(name))));
  return name.endsWith(".png") ? readOwn(name) : leanOwn(name);
}

/** A script that exports these values. */
const moduleOf = (values: object) =>
  Buffer.from(
    Object.entries(values)
      .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};\n`)
      .join(""),
  );

/** The meanings without the names of fields, which the site does not show. */
const unfielded = Object.fromEntries(
  Object.entries(meanings).map(([name, { meaning }]) => [name, { meaning }]),
);

const told = (named: object) =>
  Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null));

/** The site as publishers put it into the store, for a CDN that serves it without the proxy. */
export const publishedSite: Site = {
  files(api, others) {
    const files = endpoints.siteFile.files.map(
      (name) => [layout.siteFile(name), fileFor(name, api, others)] as const,
    );
    return new Map([[layout.siteIndex, pageFor(api, others?.site)], ...files]);
  },
};

/** The API beside the page, as the proxy serves both. */
const ownApi = "api/v1";

/** The site as the proxy serves it. It differs from a published one without an API in api.json alone. */
export const servedSite: readonly StaticFile[] = [
  {
    path: endpoints.site.path,
    contentType: headersOf(layout.siteIndex).contentType,
    bytes: pageFor(ownApi),
    headers: policyHeader(policyFor(ownApi)),
  },
  ...endpoints.siteFile.files.map((name) => ({
    path: endpoints.siteFile.path.replace(":file", name),
    contentType: headersOf(layout.siteFile(name)).contentType,
    get bytes() {
      return fileFor(name, ownApi);
    },
  })),
];
