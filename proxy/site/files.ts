import { readFileSync } from "node:fs";
import { endpoints } from "../../schemas/endpoints.ts";
import { meanings } from "../../schemas/meanings.ts";
import type { ApiPlace, Site } from "../../snapshots/publish/site.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import type { StaticFile } from "./static-file.ts";

type FileName = (typeof endpoints.siteFile.files)[number];

const own = (name: string) => readFileSync(new URL(`${name}`, import.meta.url));

const apiFile = (api: ApiPlace) => Buffer.from(JSON.stringify({ api }));

/** The words of schemas/, as a module of the page. */
const meaningsFile = Buffer.from(`export const meanings = ${JSON.stringify(meanings)};\n`);

function bytesOf(name: FileName, api: ApiPlace): Buffer {
  if (name === "api.json") return apiFile(api);
  return name === "meanings.js" ? meaningsFile : own(name);
}

/** The site as a CDN serves it without the proxy. */
export const publishedSite: Site = { files: filesOf };

function filesOf(api: ApiPlace): ReadonlyMap<string, Buffer> {
  const files = endpoints.siteFile.files.map((name) => [layout.siteFile(name), bytesOf(name, api)] as const);
  return new Map([[layout.siteIndex, pageAsking(api)], ...files]);
}

/** The page, whose policy lets it ask that API. */
function pageAsking(api: ApiPlace): Buffer {
  const page = own("index.html");
  if (api === null) return page;
  return Buffer.from(String(page).replace("connect-src 'self'", `connect-src 'self' ${new URL(api).origin}`));
}

/** The policy that index.html states too, for CDNs, and what only a header can say. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** The site as the proxy serves it: the same bytes, but that there is an API. */
export const servedSite: readonly StaticFile[] = [
  {
    path: endpoints.site.path,
    contentType: headersOf(layout.siteIndex).contentType,
    bytes: own("index.html"),
    headers: { "content-security-policy": policy },
  },
  ...endpoints.siteFile.files.map((name) => ({
    path: endpoints.siteFile.path.replace(":file", name),
    contentType: headersOf(layout.siteFile(name)).contentType,
    bytes: bytesOf(name, "api/v1"),
  })),
];
