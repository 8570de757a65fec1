import type { z } from "zod";
import { KeyRecord } from "../../schemas/store/keys.ts";
import { PartRecord, PartsPlan } from "../../schemas/store/parts.ts";
import {
  ChangeFiles,
  ChangeRecord,
  Collecting,
  Commit,
  ExportRecord,
  ScoreRefs,
  SegmentList,
  SourceFiles,
} from "../../schemas/store/snapshot.ts";
import { cuts } from "../format/cuts.ts";
import { maxWordsBytes } from "../format/maxima.ts";

export { sha256 } from "../format/sha256.ts";

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;

// These bounds, those of `kinds` and those of format/maxima.ts stand in the table of snapshots/SPEC.md, "Maxima". A
// hash shows only that an object is what somebody named, so each bound is checked before memory is taken.

/** Bytes of a market's JSON text at most (INTERFACE 8.3). */
export const maxMarketBytes = 256 * kibibyte;
/** Bytes of those sections of a segment that queries need; those that this version knows have 2 MiB at most. */
export const maxResidentBytes = 4 * mebibyte;

/** The raw bytes of a run of so many markets at most; `around` is what stands beside each. */
export function maxRunBytes(markets: number, around: number): number {
  return markets * (maxMarketBytes + around);
}

/** Bytes of a page: 512 markets, in runs that a bad compressor may have made a little longer than they are. */
export const maxPageBytes = cuts.pageMax * maxMarketBytes + mebibyte;

/** What holds for all objects of a kind. */
interface Rules<Content> {
  /** Their schema, where they are JSON. Without one their content is bytes. */
  schema?: z.ZodType<Content>;
  /** Bytes of such an object at most. Without it, no reference tells the size beforehand. */
  maxBytes?: number;
  /** gc deletes such objects once nothing reaches them. */
  collected?: true;
  /** The manifest of a snapshot, or a part of it, names such objects. */
  inManifest?: true;
  /** An artefact of one protocol. */
  ofProtocol?: true;
  /** Such an object must be durable once it is put, as all those at the top level are. */
  durable?: true;
  /** Nothing else is ever stored under such a key, so that readers of public/ may keep it. */
  immutable?: true;
  /** Where the end of the key does not tell it. */
  contentType?: string;
}

/** A kind of objects. Called with what names one of them, it gives the object's key. */
export interface Kind<Name extends unknown[] = never, Content = unknown> extends Rules<Content> {
  (...name: Name): string;
  /** The beginning of all their keys. */
  readonly prefix: string;
  /** Whether the object at a key is of this kind. */
  has(key: string): boolean;
}

/** A kind of objects whose keys are a prefix, what `spell` makes of the name, and an ending. */
function kindNamedBy<Name extends unknown[], Content = Buffer>(
  spell: (...name: Name) => string,
  prefix: string,
  ending: string,
  rules: Rules<Content> = {},
): Kind<Name, Content> {
  const key = (...name: Name) => `${prefix}${spell(...name)}${ending}`;
  const has = (other: string) => other.startsWith(prefix) && other.endsWith(ending);
  return Object.assign(key, { ...rules, prefix, has });
}

/** The same where the name stands as it is, such as a hash. */
function kind<Content = Buffer>(prefix: string, ending: string, rules?: Rules<Content>) {
  return kindNamedBy((name: string) => name, prefix, ending, rules);
}

/** The folder of a protocol's page: its slug, except where that is the name of the page beside it. */
const folderOf = (slug: string) => (slug === "index.html" ? `_${slug}` : slug);
const commitDigits = (number: number) => String(number).padStart(10, "0");
const plainText = "text/plain; charset=utf-8";
const ofManifest = { collected: true, inManifest: true } as const;
const artefact = { collected: true, ofProtocol: true } as const;
const ofRun = { collected: true, maxBytes: 128 * mebibyte } as const;

/**
 * The kinds of objects that lie under prefixes. gc deletes in this order: manifests and records first, so that none of
 * them outlives the objects that it names. Of kinds that share a prefix, the one with the longer ending comes first.
 */
const kinds = {
  commit: kindNamedBy(commitDigits, "commits/", ".json", {
    schema: Commit,
    maxBytes: 64 * kibibyte,
    durable: true,
  }),
  key: kind("keys/", ".json", { schema: KeyRecord, maxBytes: 64 * kibibyte, durable: true }),
  collecting: kind("collecting/", ".json", { schema: Collecting, maxBytes: 4 * mebibyte }),
  manifest: kind("manifests/", ".json", { collected: true, maxBytes: 4 * mebibyte }),
  segmentList: kind("private/lists/", ".json", { ...ofManifest, schema: SegmentList, maxBytes: mebibyte }),
  scoreRefs: kind("private/scores/", ".json", { ...ofManifest, schema: ScoreRefs, maxBytes: 16 * mebibyte }),
  exportRecord: kind("private/exports/records/", ".json", {
    schema: ExportRecord,
    // Room for the files of hundreds of millions of markets.
    maxBytes: 4 * mebibyte,
    collected: true,
    durable: true,
  }),
  exportedChanges: kind("private/exports/changes/", ".json", {
    schema: ChangeFiles,
    // Room for those of the largest change record.
    maxBytes: mebibyte,
    collected: true,
    durable: true,
  }),
  changeRecord: kind("private/changes/", ".json", {
    schema: ChangeRecord,
    maxBytes: 4 * mebibyte,
    collected: true,
  }),
  changePart: kind("private/changes/", "", { collected: true, maxBytes: maxPageBytes }),
  publicObject: kind("public/objects/", ".json", {
    ...ofManifest,
    maxBytes: 64 * mebibyte,
    immutable: true,
  }),
  /** Parts of the public log's tree, and its entries (snapshots/SPEC.md, "Log"). */
  logTile: kind("public/log/tile/", "", { collected: true, immutable: true }),
  /** The checkpoint of each size that was signed (snapshots/SPEC.md, "Checkpoints"). */
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
  privateObject: kind("private/objects/", ".json", { ...ofManifest, maxBytes: 16 * mebibyte }),
  segment: kind("private/segments/", "", { ...ofManifest, maxBytes: 128 * mebibyte }),
  rows: kind("private/rows/", "", { ...ofManifest, maxBytes: 8 * cuts.segmentMax }),
  origins: kind("private/origins/", "", { ...ofManifest, maxBytes: 4 * mebibyte }),
  sourceFiles: kind("private/sources/", ".json", {
    ...ofManifest,
    schema: SourceFiles,
    maxBytes: 64 * mebibyte,
  }),
  ids: kind("private/ids/", "", { ...ofManifest, maxBytes: 6 * cuts.segmentMax }),
  words: kind("private/words/", "", { ...ofManifest, maxBytes: maxWordsBytes }),
  page: kind("private/pages/", ".json.gz", { collected: true, maxBytes: maxPageBytes }),
  exportFile: kind("private/exports/files/", ".parquet", { collected: true }),
  exportChunks: kind("private/exports/chunks/", "", { collected: true, maxBytes: mebibyte }),
  runPlan: kind("runs/", "/plan.json", { ...ofRun, schema: PartsPlan }),
  runPart: kindNamedBy((run: string, part = 1) => `${run}/part-${part}`, "runs/", ".json", {
    ...ofRun,
    schema: PartRecord,
  }),
};

/** The keys of a store's objects. No other code spells them (snapshots/SPEC.md, "Layout"). */
export const layout = {
  ...kinds,
  head: "head.json",
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
  /** The public log, whose files are served under the same names below /api/v1/log/. */
  log: "public/log/",
  logFile: (name: string) => `public/log/${name}`,
  /** The newest checkpoint of the public log. */
  logCheckpoint: "public/log/checkpoint",
  /** The first revocation of a key; with `at` in epoch milliseconds, a later revocation that ends the key earlier. */
  keyRevocation: (id: string, at?: number) => kinds.key(`${id}.revoked${at === undefined ? "" : `.${at}`}`),
} as const;

/** The prefix of all that only the service reads. */
export const privateTree = "private/";

const allKinds: readonly Kind[] = Object.values(kinds);

/**
 * The kind of an object, or of those beside which it lies under a name that none has; undefined for those at the top
 * level and for single public files.
 */
export function kindOf(key: string): Kind | undefined {
  return allKinds.find((one) => one.has(key)) ?? allKinds.find(({ prefix }) => key.startsWith(prefix));
}

/** What gc deletes, in that order. */
export const collectedKinds = allKinds.filter(({ collected }) => collected);

/** Prefixes of the objects that a manifest and its parts name. */
export const manifestPrefixes = allKinds.filter(({ inManifest }) => inManifest).map(({ prefix }) => prefix);

/** The folders that hold an artefact of each protocol. */
export const artefactFolders = allKinds.filter(({ ofProtocol }) => ofProtocol).map(({ prefix }) => prefix);

/** The hash in the key of an object that is named by its content; "" for other keys. */
export function hashIn(key: string): string {
  return /[0-9a-f]{64}/.exec(key)?.[0] ?? "";
}

/** Whether an object under keys/ is a revocation. */
export function isKeyRevocation(key: string): boolean {
  return /\.revoked(\.\d+)?\.json$/.test(key);
}

/** The HTTP headers of an object. S3 stores them with it; whoever serves a directory store has to send them. */
export interface ObjectHeaders {
  contentType: string;
  cacheControl: string;
}

const immutable = "public, max-age=31536000, immutable";
const shortLived = "public, max-age=60, stale-while-revalidate=600";

/** Derives an object's headers from its key. Pages are gzip files, not JSON with `Content-Encoding: gzip`. */
export function headersOf(key: string): ObjectHeaders {
  return { contentType: contentTypeOf(key), cacheControl: cacheControlOf(key) };
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

/** Types that the end of the key does not tell. */
const contentTypesOfKeys: Record<string, string> = {
  [layout.logCheckpoint]: plainText,
  [layout.feed]: "application/atom+xml",
  [layout.apiCatalog]: 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
};

function contentTypeOf(key: string): string {
  if (Object.hasOwn(contentTypesOfKeys, key)) return contentTypesOfKeys[key]!;
  const { contentType } = kindOf(key) ?? {};
  return contentType ?? contentTypes[/\.([a-z]+)$/.exec(key)?.[1] ?? ""] ?? "application/octet-stream";
}

function cacheControlOf(key: string): string {
  if (kindOf(key)?.immutable) return immutable;
  if (key.startsWith(layout.log)) return "public, max-age=5";
  return key.startsWith(layout.publicTree) ? shortLived : "private, no-store";
}
