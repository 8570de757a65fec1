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
  /** The files, by key in the store, for a page that asks this API and, with `site`, offers the artefacts at that address. */
  files(api: ApiPlace, site?: string | null): ReadonlyMap<string, Buffer>;
}

const Elsewhere = z.url({ protocol: /^https?$/, normalize: true });

/** The address of the API of a service at this base address. Throws unless that is an http(s) address of host and path. */
export function apiPlaceAt(base: string): string {
  return `${siteAddressAt(base).replace(/(\/api\/v1)?\/$/, "")}/api/v1`;
}

/** The address of a public tree, with one slash at its end. Throws unless it is an http(s) address of host and path. */
export function siteAddressAt(base: string): string {
  const { username, password, search, hash, origin, pathname } = new URL(Elsewhere.parse(base));
  if (username || password || search || hash) throw new Error("it may only have a host, a port and a path");
  return `${origin}${pathname.replace(/\/+$/, "")}/`;
}

/** The addresses that the store's `site/api.json` names, each null when it names none: of the API and of the public tree. */
export interface Addresses {
  api: ApiPlace;
  site: string | null;
}

const Stored = z.strictObject({
  api: z.string().transform(apiPlaceAt).nullable(),
  site: z.string().transform(siteAddressAt).optional(),
});

/** Reads the addresses that the store names. Throws StorageError. */
export async function publishedAddresses(storage: Storage): Promise<Addresses> {
  try {
    const bytes = await storage.get(layout.siteFile("api.json"), { maxBytes: 4096 });
    const { api, site = null } = Stored.parse(JSON.parse(String(bytes)));
    return { api, site };
  } catch (error) {
    if (error instanceof StorageError) throw error;
    return { api: null, site: null };
  }
}

/** Writes those files of a site that the store lacks or has in another version. Throws StorageError. */
export async function updateSite(storage: Storage, site: Site, addresses: Addresses): Promise<void> {
  const files = site.files(addresses.api, addresses.site);
  await inParallel([...files], ([key, bytes]) => putIfDifferent(storage, key, bytes));
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
