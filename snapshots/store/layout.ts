import { cuts } from "../format/cuts.ts";
import { maxWordsBytes } from "../format/maxima.ts";

export { sha256 } from "../format/sha256.ts";

const mebibyte = 2 ** 20;

// These bounds, those of `kinds` and those of format/maxima.ts stand in the table of snapshots/SPEC.md, "Maxima". A
// hash shows only that an object is what somebody named, so each bound is checked before memory is taken.

/** Bytes of a market's JSON text at most (INTERFACE 8.3). */
export const maxMarketBytes = 256 * 1024;
/** Bytes of those sections of a segment that queries need; those that this version knows have 2 MiB at most. */
export const maxResidentBytes = 4 * mebibyte;

/** The raw bytes of a run of so many markets at most; `around` is what stands beside each. */
export function maxRunBytes(markets: number, around: number): number {
  return markets * (maxMarketBytes + around);
}

/** Bytes of a page: 512 markets, in runs that a bad compressor may have made a little longer than they are. */
export const maxPageBytes = cuts.pageMax * maxMarketBytes + mebibyte;

/** The folder of a protocol's page: its slug, except where that is the name of the page beside it. */
const folderOf = (slug: string) => (slug === "index.html" ? `_${slug}` : slug);

/** The keys of a store's objects. No other code spells them (snapshots/SPEC.md, "Layout"). */
export const layout = {
  head: "head.json",
  checked: "checked.json",
  probe: "probe.json",
  commits: "commits/",
  commit: (number: number) => `commits/${String(number).padStart(10, "0")}.json`,
  manifests: "manifests/",
  manifest: (hash: string) => `manifests/${hash}.json`,
  publicTree: "public/",
  publicObjects: "public/objects/",
  publicObject: (hash: string) => `public/objects/${hash}.json`,
  stableScores: "public/api/v1/",
  stableScoreList: "public/api/v1/scores.json",
  stableScore: (slug: string) => `public/api/v1/scores/${slug}.json`,
  siteIndex: "public/index.html",
  siteFiles: "public/site/",
  siteFile: (name: string) => `public/site/${name}`,
  badges: "public/badges/",
  badge: (slug: string) => `public/badges/${slug}.svg`,
  protocolPages: "public/protocols/",
  protocolPage: (slug: string) => `public/protocols/${folderOf(slug)}/index.html`,
  protocolList: "public/protocols/index.html",
  embeds: "public/embed/",
  embed: (slug: string) => `public/embed/${folderOf(slug)}/index.html`,
  listEmbed: "public/embed/index.html",
  cards: "public/cards/",
  card: (name: string) => `public/cards/${name}.png`,
  tiers: "public/tiers.json",
  feed: "public/feed.xml",
  sitemap: "public/sitemap.xml",
  llms: "public/llms.txt",
  dataset: "public/dataset.jsonld",
  apiCatalog: "public/.well-known/api-catalog",
  /** The public log, whose files are served under the same names below /api/v1/log/. */
  log: "public/log/",
  logFile: (name: string) => `public/log/${name}`,
  /**
   * The newest checkpoint of the public log, and that of each size which was signed (snapshots/SPEC.md, "Checkpoints").
   */
  logCheckpoint: "public/log/checkpoint",
  logCheckpoints: "public/log/checkpoints/",
  logCheckpointOf: (size: number) => `public/log/checkpoints/${size}`,
  /** Parts of the public log's tree, and its entries (snapshots/SPEC.md, "Log"). */
  logTiles: "public/log/tile/",
  logTile: (path: string) => `public/log/tile/${path}`,
  segmentLists: "private/lists/",
  segmentList: (hash: string) => `private/lists/${hash}.json`,
  scoreRefs: "private/scores/",
  scoreRefsOf: (hash: string) => `private/scores/${hash}.json`,
  privateObjects: "private/objects/",
  privateObject: (hash: string) => `private/objects/${hash}.json`,
  segments: "private/segments/",
  segment: (hash: string) => `private/segments/${hash}`,
  rows: "private/rows/",
  rowsOf: (hash: string) => `private/rows/${hash}`,
  origins: "private/origins/",
  originsOf: (hash: string) => `private/origins/${hash}`,
  sourceFiles: "private/sources/",
  sourceFilesOf: (hash: string) => `private/sources/${hash}.json`,
  ids: "private/ids/",
  idsOf: (hash: string) => `private/ids/${hash}`,
  words: "private/words/",
  wordsOf: (hash: string) => `private/words/${hash}`,
  pages: "private/pages/",
  page: (hash: string) => `private/pages/${hash}.json.gz`,
  changes: "private/changes/",
  changeRecord: (hash: string) => `private/changes/${hash}.json`,
  changePart: (hash: string) => `private/changes/${hash}`,
  exportRecords: "private/exports/records/",
  exportRecord: (snapshotId: string) => `private/exports/records/${snapshotId}.json`,
  exportedChanges: "private/exports/changes/",
  exportedChangesOf: (hash: string) => `private/exports/changes/${hash}.json`,
  exportFiles: "private/exports/files/",
  exportFile: (hash: string) => `private/exports/files/${hash}.parquet`,
  exportChunks: "private/exports/chunks/",
  exportChunksOf: (hash: string) => `private/exports/chunks/${hash}`,
  collecting: "collecting/",
  collectingRecord: (id: string) => `collecting/${id}.json`,
  runs: "runs/",
  runPlan: (run: string) => `runs/${run}/plan.json`,
  runPart: (run: string, part = 1) => `runs/${run}/part-${part}.json`,
  keys: "keys/",
  key: (id: string) => `keys/${id}.json`,
  /** The first revocation of a key; with `at` in epoch milliseconds, a later revocation that ends the key earlier. */
  keyRevocation: (id: string, at?: number) => `keys/${id}.revoked${at === undefined ? "" : `.${at}`}.json`,
} as const;

/** The prefix of all that only the service reads. */
export const privateTree = "private/";

/** What holds for all objects of one kind: those under `prefix` whose keys end with `end`, where there is one. */
interface Kind {
  prefix: string;
  end?: string;
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
}

/**
 * The kinds of objects that lie under prefixes. gc deletes in this order: manifests and records first, so that none of
 * them outlives the objects that it names.
 */
const kinds: readonly Kind[] = [
  { prefix: layout.commits, durable: true },
  { prefix: layout.keys, durable: true },
  { prefix: layout.collecting },
  { prefix: layout.manifests, collected: true, maxBytes: 4 * mebibyte },
  { prefix: layout.segmentLists, collected: true, inManifest: true, maxBytes: mebibyte },
  { prefix: layout.scoreRefs, collected: true, inManifest: true, maxBytes: 16 * mebibyte },
  { prefix: layout.exportRecords, collected: true, durable: true },
  { prefix: layout.exportedChanges, collected: true, durable: true },
  { prefix: layout.changes, end: ".json", collected: true, maxBytes: 4 * mebibyte },
  { prefix: layout.changes, collected: true, maxBytes: maxPageBytes },
  { prefix: layout.publicObjects, collected: true, inManifest: true, maxBytes: 64 * mebibyte },
  { prefix: layout.logTiles, collected: true },
  { prefix: layout.logCheckpoints, durable: true },
  { prefix: layout.stableScores, collected: true },
  { prefix: layout.badges, collected: true, ofProtocol: true },
  { prefix: layout.protocolPages, collected: true, ofProtocol: true },
  { prefix: layout.cards, collected: true, ofProtocol: true },
  { prefix: layout.embeds, collected: true, ofProtocol: true },
  { prefix: layout.siteFiles, collected: true },
  { prefix: layout.privateObjects, collected: true, inManifest: true, maxBytes: 16 * mebibyte },
  { prefix: layout.segments, collected: true, inManifest: true, maxBytes: 128 * mebibyte },
  { prefix: layout.rows, collected: true, inManifest: true, maxBytes: 8 * cuts.segmentMax },
  { prefix: layout.origins, collected: true, inManifest: true, maxBytes: 4 * mebibyte },
  { prefix: layout.sourceFiles, collected: true, inManifest: true, maxBytes: 64 * mebibyte },
  { prefix: layout.ids, collected: true, inManifest: true, maxBytes: 6 * cuts.segmentMax },
  { prefix: layout.words, collected: true, inManifest: true, maxBytes: maxWordsBytes },
  { prefix: layout.pages, collected: true, maxBytes: maxPageBytes },
  { prefix: layout.exportFiles, collected: true },
  { prefix: layout.exportChunks, collected: true, maxBytes: mebibyte },
  { prefix: layout.runs, collected: true, maxBytes: 128 * mebibyte },
];

/** The kind of an object; undefined for those at the top level, for single public files, and for unknown ones. */
export function kindOf(key: string): Kind | undefined {
  return kinds.find(({ prefix, end = "" }) => key.startsWith(prefix) && key.endsWith(end));
}

/** What gc deletes, in that order. */
export const collectedKinds = kinds.filter(({ collected }) => collected);

/** Prefixes of the objects that a manifest and its parts name. */
export const manifestPrefixes = kinds.filter(({ inManifest }) => inManifest).map(({ prefix }) => prefix);

/** The folders that hold an artefact of each protocol. */
export const artefactFolders = kinds.filter(({ ofProtocol }) => ofProtocol).map(({ prefix }) => prefix);

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

const plainText = "text/plain; charset=utf-8";
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
  if (key.startsWith(layout.logCheckpoints)) return plainText;
  return contentTypes[/\.([a-z]+)$/.exec(key)?.[1] ?? ""] ?? "application/octet-stream";
}

function cacheControlOf(key: string): string {
  if ([layout.publicObjects, layout.logTiles, layout.cards].some((prefix) => key.startsWith(prefix)))
    return immutable;
  if (key.startsWith(layout.log)) return "public, max-age=5";
  return key.startsWith(layout.publicTree) ? shortLived : "private, no-store";
}
