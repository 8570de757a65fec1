import { z } from "zod";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { type Storage, StorageError } from "../store/storage.ts";

/**
 * Where the page finds the API: below a path relative to it, where a proxy serves both, or at an address elsewhere; null:
 * nowhere, there are only the files beside it.
 */
export type ApiPlace = string | null;

/** A site that publishers put into the public tree, so that a CDN serves it without the proxy. */
export interface Site {
  /** Its files, by key in the store, for pages that are to ask this API. */
  files(api: ApiPlace): ReadonlyMap<string, Buffer>;
}

const Elsewhere = z.url({ protocol: /^https?$/, normalize: true });

/** The place of the API of a service at this base address. Throws when that is no plain web address. */
export function apiPlaceAt(base: string): string {
  const { username, password, search, hash, origin, pathname } = new URL(Elsewhere.parse(base));
  if (username || password || search || hash) throw new Error("it has more than a host and a path");
  return `${origin}${pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "")}/api/v1`;
}

/** The place that a store's `site/api.json` names; null when it names none. Throws StorageError. */
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
 * Puts the files of a site that the store lacks, or has otherwise. The API is the one that the store names already,
 * unless another is given. Throws StorageError.
 */
export async function updateSite(storage: Storage, site: Site, given?: ApiPlace): Promise<void> {
  const api = given === undefined ? await publishedApi(storage) : given;
  await inParallel([...site.files(api)], ([key, bytes]) => putIfOther(storage, key, bytes));
}

/** Puts an object that the store lacks, or has otherwise. Throws StorageError. */
export async function putIfOther(storage: Storage, key: string, bytes: Buffer): Promise<void> {
  if (!(await hasThese(storage, key, bytes))) await storage.put(key, bytes);
}

async function hasThese(storage: Storage, key: string, bytes: Buffer): Promise<boolean> {
  try {
    return (await storage.get(key, { maxBytes: bytes.length }))?.equals(bytes) ?? false;
  } catch (error) {
    if (error instanceof CorruptObjectError) return false;
    throw error;
  }
}
