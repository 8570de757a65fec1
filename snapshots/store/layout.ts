import type { z } from "zod";
import {
  ChangeFiles,
  ChangeRecord,
  Collecting,
  Commit,
  ExportRecord,
  KeyRecord,
  ManifestRoot,
  PartRecord,
  PartsPlan,
  SegmentList,
  SourceFiles,
} from "../../schemas/store/stored-objects.ts";
import { maxObjectBytes } from "../format/bytes.ts";

export { sha256 } from "../format/tree.ts";

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;

// "Layout" and "Maxima" of snapshots/SPEC.md and PUBLISHING.md have these bounds, and those of format/bytes.ts. A hash
// only shows that an object is the one that somebody named, so each bound is checked before memory is taken.

/** The most bytes of a market's JSON text (INTERFACE 8.3). */
export const maxMarketBytes = 256 * kibibyte;
/** The most bytes of an object whose kind says nothing else. */
export const maxOrdinaryBytes = 16 * mebibyte;
/** The most bytes of a record that is read before anything vouches for it. */
export const maxRecordBytes = 64 * kibibyte;
/** The most bytes of the sections of a segment that queries need. Those that this version knows have at most 2 MiB. */
export const maxResidentBytes = 4 * mebibyte;

/** The most raw bytes of a run of markets; `around` is what stands beside each. */
export function maxRunBytes(markets: number, around: number): number {
  return markets * (maxMarketBytes + around);
}

interface Rules<Content> {
  /** For kinds that are JSON; the others are bytes. */
  schema?: z.ZodType<Content>;
  maxBytes?: number;
  /** gc deletes these objects once nothing reaches them. */
  collected?: true;
  /** The manifest of a snapshot, or a part of it, names these objects. */
  inManifest?: true;
  ofProtocol?: true;
  /** Must survive a power cut once put, as everything at the top level must. */
  durable?: true;
  /** A key never holds other bytes, so readers of public/ may keep them. */
  immutable?: true;
  /** Where the end of the key does not tell the type. */
  contentType?: string;
}

/** A kind of objects. Calling it with what names an object gives the object's key. */
export interface Kind<Name extends unknown[] = never, Content = unknown> extends Rules<Content> {
  (...name: Name): string;
  readonly prefix: string;
  readonly maxBytes: number;
  has(key: string): boolean;
  /** What names an object, as its key spells it. The key must be of this kind. */
  nameIn(key: string): string;
}

function kindNamedBy<Name extends unknown[], Content = Buffer>(
  spell: (...name: Name) => string,
  prefix: string,
  ending: string,
  rules: Rules<Content> = {},
): Kind<Name, Content> {
  const key = (...name: Name) => `${prefix}${spell(...name)}${ending}`;
  const has = (other: string) => other.startsWith(prefix) && other.endsWith(ending);
  const nameIn = (other: string) => other.slice(prefix.length, other.length - ending.length);
  return Object.assign(key, { maxBytes: maxOrdinaryBytes, ...rules, prefix, has, nameIn });
}

/** For names that stand in the key as they are, such as hashes. */
function kind<Content = Buffer>(prefix: string, ending: string, rules?: Rules<Content>) {
  return kindNamedBy((name: string) => name, prefix, ending, rules);
}

/** A protocol's slug, except where that is the name of the page beside the folder. */
const folderOf = (slug: string) => (slug === "index.html" ? `_${slug}` : slug);
const commitDigits = (number: number) => String(number).padStart(10, "0");
const plainText = "text/plain; charset=utf-8";
const ofManifest = { collected: true, inManifest: true } as const;
const artefact = { collected: true, ofProtocol: true } as const;
/** Texts of many markets, files or protocols. */
const large = { maxBytes: maxObjectBytes } as const;

/**
 * Kinds of objects by prefix. gc deletes in this order: manifests and records first, so that none of them outlives the
 * objects that it names. Of kinds that share a prefix, the one with the longer ending comes first.
 */
const kinds = {
  commit: kindNamedBy(commitDigits, "commits/", ".json", {
    schema: Commit,
    maxBytes: maxRecordBytes,
    durable: true,
  }),
  key: kind("keys/", ".json", { schema: KeyRecord, maxBytes: maxRecordBytes, durable: true }),
  collecting: kind("collecting/", ".json", { schema: Collecting }),
  manifest: kind("manifests/", ".json", { schema: ManifestRoot, collected: true }),
  segmentList: kind("private/lists/", ".json", { ...ofManifest, schema: SegmentList }),
  scoreLines: kind("private/scores/", "", { ...ofManifest, contentType: plainText }),
  exportRecord: kind("private/exports/records/", ".json", {
    schema: ExportRecord,
    collected: true,
    durable: true,
  }),
  exportedChanges: kind("private/exports/changes/", ".json", {
    schema: ChangeFiles,
    collected: true,
    durable: true,
  }),
  changeRecord: kind("private/changes/", ".json", { schema: ChangeRecord, collected: true }),
  changePart: kind("private/changes/", ".ndjson.gz", { ...large, collected: true }),
  publicObject: kind("public/objects/", ".json", { ...ofManifest, immutable: true }),
  /** Tiles of the public log's tree, and its entries (snapshots/SPEC.md, "Log"). */
  logTile: kind("public/log/tile/", "", { collected: true, immutable: true }),
  /** One for each size that was signed (snapshots/SPEC.md, "Checkpoints"). */
  logCheckpointOf: kindNamedBy((size: number) => `${size}`, "public/log/checkpoints/", "", {
    durable: true,
    contentType: plainText,
  }),
  stableScore: kindNamedBy((slug: string) => `scores/${slug}`, "public/api/v1/", ".json", {
    collected: true,
  }),
  badge: kind("public/badges/", ".svg", artefact),
  protocolPage: kindNamedBy(folderOf, "public/protocols/", "/index.html", artefact),
  card: kind("public/cards/", ".png", { ...artefact, immutable: true }),
  embed: kindNamedBy(folderOf, "public/embed/", "/index.html", artefact),
  siteFile: kind("public/site/", "", { collected: true }),
  privateObject: kind("private/objects/", ".json", ofManifest),
  segment: kind("private/segments/", "", { ...ofManifest, ...large }),
  rows: kind("private/rows/", "", ofManifest),
  origins: kind("private/origins/", "", ofManifest),
  sourceFiles: kind("private/sources/", ".json", { ...ofManifest, ...large, schema: SourceFiles }),
  ids: kind("private/ids/", "", ofManifest),
  words: kind("private/words/", "", { ...ofManifest, ...large }),
  page: kind("private/pages/", ".json.gz", { ...large, collected: true }),
  /** Nobody reads more than a chunk of it at a time. */
  exportFile: kind("private/exports/files/", ".parquet", {
    collected: true,
    maxBytes: Number.POSITIVE_INFINITY,
  }),
  exportChunks: kind("private/exports/chunks/", "", { collected: true }),
  runPlan: kind("runs/", "/plan.json", { ...large, collected: true, schema: PartsPlan }),
  runPart: kindNamedBy((run: string, part = 1) => `${run}/part-${part}`, "runs/", ".json", {
    ...large,
    collected: true,
    schema: PartRecord,
  }),
};

/** All keys of a store. No other code spells them ("Layout" of snapshots/SPEC.md and PUBLISHING.md). */
export const layout = {
  ...kinds,
  checked: "checked.json",
  probe: "probe.json",
  publicTree: "public/",
  stableScoreList: "public/api/v1/scores.json",
  siteIndex: "public/index.html",
  protocolList: "public/protocols/index.html",
  listEmbed: "public/embed/index.html",
  tiers: "public/tiers.json",
  feed: "public/feed.xml",
  sitemap: "public/sitemap.xml",
  llms: "public/llms.txt",
  dataset: "public/dataset.jsonld",
  apiCatalog: "public/.well-known/api-catalog",
  /** Files of the public log are served under these names below /api/v1/log/. */
  log: "public/log/",
  logFile: (name: string) => `public/log/${name}`,
  logCheckpoint: "public/log/checkpoint",
  /** The first revocation of a key. One with `at` (epoch milliseconds) came later and ends the key earlier. */
  keyRevocation: (id: string, at?: number) => kinds.key(`${id}.revoked${at === undefined ? "" : `.${at}`}`),
} as const;

/** Only the service reads what is below. */
export const privateTree = "private/";

const allKinds: readonly Kind[] = Object.values(kinds);

/**
 * Falls back to a kind whose prefix the key has, even if no object of that kind can have the key. Undefined for keys
 * below no kind's prefix: those at the top level, and most single public files.
 */
export function kindOf(key: string): Kind | undefined {
  return allKinds.find((one) => one.has(key)) ?? allKinds.find(({ prefix }) => key.startsWith(prefix));
}

/** In the order in which gc deletes them. */
export const collectedKinds = allKinds.filter(({ collected }) => collected);

export const manifestPrefixes = allKinds.filter(({ inManifest }) => inManifest).map(({ prefix }) => prefix);

export const artefactFolders = allKinds.filter(({ ofProtocol }) => ofProtocol).map(({ prefix }) => prefix);

/** The hash in the key of an object that is named by its content; "" for other keys. */
export function hashIn(key: string): string {
  return /[0-9a-f]{64}/.exec(key)?.[0] ?? "";
}

/** Undefined where no commit has this key. */
export function commitNumberIn(key: string): number | undefined {
  const name = layout.commit.has(key) ? layout.commit.nameIn(key) : "";
  return /^\d{10}$/.test(name) && Number(name) > 0 ? Number(name) : undefined;
}

export function isKeyRevocation(key: string): boolean {
  return /\.revoked(\.\d+)?\.json$/.test(key);
}

const immutable = "public, max-age=31536000, immutable";
const shortLived = "public, max-age=60, stale-while-revalidate=600";

/**
 * S3 stores them with the object; a server of a directory store has to send them. Pages are gzip files, not JSON with
 * `Content-Encoding: gzip`.
 */
export function headersOf(key: string): { contentType: string; cacheControl: string } {
  const kind = kindOf(key);
  const ofKey = Object.hasOwn(contentTypesOfKeys, key) ? contentTypesOfKeys[key] : kind?.contentType;
  const ofEnding = contentTypes[/\.([a-z]+)$/.exec(key)?.[1] ?? ""];
  const volatile = key.startsWith(layout.log) ? "public, max-age=5" : shortLived;
  const cacheControl = key.startsWith(layout.publicTree) ? volatile : "private, no-store";
  return {
    contentType: ofKey ?? ofEnding ?? "application/octet-stream",
    cacheControl: kind?.immutable ? immutable : cacheControl,
  };
}

const javascript = "text/javascript; charset=utf-8";

const contentTypes: Record<string, string> = {
  css: "text/css; charset=utf-8",
  gz: "application/gzip",
  html: "text/html; charset=utf-8",
  js: javascript,
  json: "application/json",
  jsonld: "application/ld+json",
  mjs: javascript,
  parquet: "application/vnd.apache.parquet",
  png: "image/png",
  svg: "image/svg+xml",
  txt: plainText,
  xml: "application/xml",
};

const contentTypesOfKeys: Record<string, string> = {
  [layout.logCheckpoint]: plainText,
  [layout.feed]: "application/atom+xml",
  [layout.apiCatalog]: 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
};
