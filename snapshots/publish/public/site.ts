import { hash } from "node:crypto";
import { z } from "zod";
import { contactAt } from "../../../schemas/names.ts";
import type { Addresses } from "../../artefacts/dataset.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { artefactFolders, layout } from "../../store/layout.ts";
import {
  infoOf as infoNow,
  listedOnce,
  type ObjectInfo,
  type Storage,
  StorageError,
} from "../../store/storage.ts";

/** Folders in which a run updates many objects. */
const folders = [
  layout.stableScore.prefix,
  ...artefactFolders,
  layout.siteFile.prefix,
  layout.logTile.prefix,
];

/**
 * The changing objects of the public tree, as they were listed. Most of what a run makes is there already, and tags of
 * S3 show that without reading it.
 */
export type PublicTree = Awaited<ReturnType<typeof listPublicTree>>;

/** `faulty` objects are known to be damaged, whatever their tags say. `listing` may have listed the tree before. */
export async function listPublicTree(
  storage: Storage,
  faulty: ReadonlySet<string> = new Set(),
  listing = listedOnce(storage, layout.publicTree),
) {
  const listed = new Map<string, ObjectInfo>();
  const changed = new Set<string>();
  await inParallel(folders, async (folder) => {
    for await (const info of listing.list(folder)) listed.set(info.key, info);
  });

  /** As it was listed; undefined where there was no such object. One outside of the folders is listed now. */
  async function infoOf(wanted: string): Promise<ObjectInfo | undefined> {
    if (folders.some((folder) => wanted.startsWith(folder))) return listed.get(wanted);
    return infoNow(listing, wanted);
  }

  /** If the tag is the MD5 of the bytes, as on S3, nothing has to be read. */
  async function holds(key: string, bytes: Buffer): Promise<boolean> {
    if (!changed.has(key)) {
      const info = await infoOf(key);
      if (info?.bytes !== bytes.length) return false;
      if (info.tag === hash("md5", bytes) && !faulty.has(key)) return true;
    }
    const read = () => storage.get(key, { maxBytes: bytes.length });
    return (await unless(CorruptObjectError, read))?.equals(bytes) ?? false;
  }

  return {
    storage,
    faulty,
    infoOf,
    holds,
    /** `folder` is one of those that were listed. */
    under: (folder: string) => [...listed.values()].filter(({ key }) => key.startsWith(folder)),
    /** Returns whether the object did not hold these bytes. */
    async putIfDifferent(key: string, bytes: Buffer): Promise<boolean> {
      if (await holds(key, bytes)) return false;
      await storage.put(key, bytes);
      changed.add(key);
      return true;
    },
  };
}

/**
 * Where the site finds the API: a path relative to the page when the proxy serves both, or an absolute address. Null
 * when there is no API, only the published files.
 */
export type ApiAddress = string | null;

/** The site that publishers write into the public tree, so that a CDN can serve it without the proxy. */
export interface Site {
  keys: readonly string[];
  /** The files by key, for a page that asks this API. `others` are told in `site/api.json`, except for null. */
  files(api: ApiAddress, others?: Omit<Named, "api">): Promise<ReadonlyMap<string, Buffer>>;
}

const Elsewhere = z.url({ protocol: /^https?$/, normalize: true });

/** The API of the service at `base`. Throws unless that is an http(s) address of host and path. */
export function apiPlaceAt(base: string): string {
  return `${siteAddressAt(base).replace(/(\/api\/v1)?\/$/, "")}/api/v1`;
}

/** Ends with one slash. Throws unless `base` is an http(s) address of host and path. */
export function siteAddressAt(base: string): string {
  const { username, password, search, hash, origin, pathname } = new URL(Elsewhere.parse(base));
  if (username || password || search || hash) throw new Error("it may only have a host, a port and a path");
  return `${origin}${pathname.replace(/\/+$/, "")}/`;
}

/** The members of the store's `site/api.json`, each null when it is not there. */
export interface Named extends Omit<Addresses, "site"> {
  site: string | null;
  /** An address where one gets a key. */
  contact: string | null;
}

/** Throws unless a licence is an http(s) address. */
export const licenseAt = (address: string): string => Elsewhere.parse(address);

/** Plain words or BibTeX. Throws when it is empty or too long. */
export const citationIn = (text: string): string => z.string().trim().min(1).max(2000).parse(text);

const Stored = z.strictObject({
  api: z.string().transform(apiPlaceAt).nullable(),
  site: z.string().transform(siteAddressAt).nullable().default(null),
  license: z.string().transform(licenseAt).nullable().default(null),
  citeAs: z.string().transform(citationIn).nullable().default(null),
  contact: z.string().transform(contactAt).nullable().default(null),
});

/** What a store without `site/api.json` names. */
export const nothingNamed: Named = Stored.parse({ api: null });

export async function publishedNames(storage: Storage): Promise<Named> {
  try {
    const bytes = await storage.get(layout.siteFile("api.json"), { maxBytes: 16_384 });
    return Stored.parse(JSON.parse(String(bytes)));
  } catch (error) {
    if (error instanceof StorageError) throw error;
    return nothingNamed;
  }
}
