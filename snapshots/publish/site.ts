import { z } from "zod";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { type Storage, StorageError } from "../store/storage.ts";

/**
 * Where the site finds the API: a path relative to the page when the proxy serves both, or an absolute address. Null means
 * that there is no API, only the published files.
 */
export type ApiPlace = string | null;

/** The site that publishers write into the public tree, so that a CDN can serve it without the proxy. */
export interface Site {
  /** The files, by key in the store, for a page that asks this API. */
  files(api: ApiPlace): ReadonlyMap<string, Buffer>;
}

const Elsewhere = z.url({ protocol: /^https?$/, normalize: true });

/** The address of the API of a service at this base address. Throws unless that is an http(s) address of host and path. */
export function apiPlaceAt(base: string): string {
  const { username, password, search, hash, origin, pathname } = new URL(Elsewhere.parse(base));
  if (username || password || search || hash) throw new Error("it may only have a host, a port and a path");
  return `${origin}${pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "")}/api/v1`;
}

/** The address that the store's `site/api.json` names; null when it names none. Throws StorageError. */
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

/**
 * Writes those files of a site that the store lacks or has in another version. Unless an API is given, it stays the one
 * that the store names. Throws StorageError.
 */
export async function updateSite(storage: Storage, site: Site, given?: ApiPlace): Promise<void> {
  const api = given === undefined ? await publishedApi(storage) : given;
  await inParallel([...site.files(api)], ([key, bytes]) => putIfDifferent(storage, key, bytes));
}

/** Writes an object unless the store has it with these bytes. Throws StorageError. */
export async function putIfDifferent(storage: Storage, key: string, bytes: Buffer): Promise<void> {
  if (!(await hasBytes(storage, key, bytes))) await storage.put(key, bytes);
}

async function hasBytes(storage: Storage, key: string, bytes: Buffer): Promise<boolean> {
  try {
    return (await storage.get(key, { maxBytes: bytes.length }))?.equals(bytes) ?? false;
  } catch (error) {
    if (error instanceof CorruptObjectError) return false;
    throw error;
  }
}
