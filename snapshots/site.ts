import { readFileSync } from "node:fs";
import { endpoints } from "../schemas/endpoints.ts";
import { meanings } from "../schemas/meanings.ts";
import type { StaticFile } from "../schemas/static-files.ts";
import { headersOf, layout } from "./layout.ts";

type FileName = (typeof endpoints.siteFile.files)[number];

const own = (name: string) => readFileSync(new URL(`site/${name}`, import.meta.url));

/** Tells the page which API it is to ask, by a path relative to it; null: none, only the files beside it. */
const apiFile = (api: string | null) => Buffer.from(JSON.stringify({ api }));

/** The words of schemas/, as a module of the page. */
const meaningsFile = Buffer.from(`export const meanings = ${JSON.stringify(meanings)};\n`);

function bytesOf(name: FileName, api: string | null): Buffer {
  if (name === "api.json") return apiFile(api);
  return name === "meanings.js" ? meaningsFile : own(name);
}

/** The site as a CDN serves it without the proxy: bytes by key in the store's public tree. */
export function publishedSite(): ReadonlyMap<string, Buffer> {
  const files = endpoints.siteFile.files.map((name) => [layout.siteFile(name), bytesOf(name, null)] as const);
  return new Map([[layout.siteIndex, own("index.html")], ...files]);
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
