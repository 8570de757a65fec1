import { readFileSync } from "node:fs";
import { z } from "zod";
import { endpoints } from "../../schemas/endpoints.ts";
import { meanings } from "../../schemas/meanings.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { type Storage, StorageError } from "../../snapshots/store/storage.ts";
import type { StaticFile } from "./static-file.ts";

type FileName = (typeof endpoints.siteFile.files)[number];

const own = (name: string) => readFileSync(new URL(`${name}`, import.meta.url));

/**
 * Where the page finds the API: below a path relative to it, where a proxy serves both, or at an address elsewhere; null:
 * nowhere, there are only the files beside it.
 */
export type ApiPlace = string | null;

const apiFile = (api: ApiPlace) => Buffer.from(JSON.stringify({ api }));

const Elsewhere = z.url({ protocol: /^https?$/, normalize: true });

/** The place of the API of a service at this base address. Throws when that is no plain web address. */
export function apiPlaceAt(base: string): string {
  const { username, password, search, hash, origin, pathname } = new URL(Elsewhere.parse(base));
  if (username || password || search || hash) throw new Error("it has more than a host and a path");
  return `${origin}${pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "")}/api/v1`;
}

/** The place that a store's `site/api.json` names; null when it names none. */
export async function publishedApi(storage: Storage): Promise<ApiPlace> {
  try {
    const bytes = await storage.get(layout.siteFile("api.json"), { maxBytes: 4096 });
    const { api } = z.strictObject({ api: z.string() }).parse(JSON.parse(String(bytes)));
    return apiPlaceAt(api);
  } catch (error) {
    if (error instanceof StorageError) throw error;
    return null;
  }
}

/** The words of schemas/, as a module of the page. */
const meaningsFile = Buffer.from(`export const meanings = ${JSON.stringify(meanings)};\n`);

function bytesOf(name: FileName, api: ApiPlace): Buffer {
  if (name === "api.json") return apiFile(api);
  return name === "meanings.js" ? meaningsFile : own(name);
}

/** The site as a CDN serves it without the proxy: bytes by key in the store's public tree. */
export function publishedSite(api: ApiPlace = null): ReadonlyMap<string, Buffer> {
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
