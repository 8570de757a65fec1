import { z } from "zod";
import { KeyPlan } from "../plans.ts";
import { Count, Digest, ForgeTier, ProtocolSlug, Timestamp } from "../records.ts";
import { formatVersion } from "../versions.ts";

export const FormatVersion = z.literal(formatVersion);
const CommitNumber = z.int().min(1);

/** How a sealed record ends: with its digest and, where its author has a key, a signed note about that. */
export const sealed = { digest: Digest, note: z.string().optional() };

/**
 * The most segments and protocols of a snapshot. So many segments hold 250 million markets on average
 * (snapshots/SPEC.md, "Maxima").
 */
export const [maxSegments, maxProtocols] = [16_384, 10_000];

/** The most segments of one list of a manifest. */
export const maxListed = 128;

/** A reference to a stored object: the SHA-256 and the number of its bytes. */
export const ObjectRef = z.object({ hash: Digest, bytes: Count });
export type ObjectRef = z.infer<typeof ObjectRef>;

/** Names a stored object by its hash alone, so that only the maximum of its kind bounds it, or by a reference. */
export type NamedObject = Pick<ObjectRef, "hash"> & Partial<ObjectRef>;

/** A number of objects, and of their stored bytes. */
export const Size = z.object({ objects: Count, bytes: Count });
export type Size = z.infer<typeof Size>;

/**
 * A segment of a manifest. `root` is that of the tree over its pages (snapshots/SPEC.md, "Roots"). `rows` refers to the
 * digests of its source rows, by which the next publish run finds changes. `ids` finds a market by its id, and has the
 * root of its tree; `words` finds markets by the words of their questions. `index` refers to its index header ("Index
 * root"), which is a section of the segment. `origins` tells which source files its rows come from, so that the next
 * publish run does not read files that did not change.
 */
export const SegmentRef = ObjectRef.extend({
  markets: z.int().min(1).max(65_536),
  root: Digest,
  index: ObjectRef,
  rows: ObjectRef,
  ids: ObjectRef.extend({ root: Digest }),
  words: ObjectRef,
  origins: ObjectRef.optional(),
});
export type SegmentRef = z.infer<typeof SegmentRef>;

/**
 * A file of markets that a snapshot was made from: the SHA-256 and the length of its content, its number of rows, and
 * the columns and members in it that the contract does not name. `listed` is the digest of its address, ETag and size,
 * where it came from S3.
 */
export const SourceFileRef = ObjectRef.extend({
  rows: Count,
  extra: z.array(z.string()),
  listed: Digest.optional(),
});
export type SourceFileRef = z.infer<typeof SourceFileRef>;

/** `private/sources/<hash>.json`: the files that a snapshot's markets were made from, by hash. */
export const SourceFiles = z.object({ formatVersion: FormatVersion, files: z.array(SourceFileRef) });
export type SourceFiles = z.infer<typeof SourceFiles>;

/** `private/lists/<hash>.json`: adjacent segments of a manifest, from the oldest up. */
export const SegmentList = z.object({
  formatVersion: FormatVersion,
  segments: z.array(SegmentRef).min(1).max(maxListed),
});

type ByProtocol = Record<string, NamedObject>;

/** What the lines of `private/scores/<hash>` name: the score objects of a snapshot, by protocol. */
export interface ScoreRefs {
  list: NamedObject;
  records: ByProtocol;
  histories: ByProtocol;
  dimensions: ByProtocol;
}

/**
 * `manifests/<hash>.json`: what a snapshot consists of. Its parts name the objects. The lists of segments run from the
 * oldest up. The entry of its commit says what it amounts to.
 */
export const ManifestRoot = z.object({
  formatVersion: FormatVersion,
  newestResolvedAt: Timestamp,
  newestUpdatedAt: Timestamp,
  /** The method by which row digests were made. Digests of different methods cannot be compared. */
  rowDigests: z.string(),
  sources: ObjectRef.optional(),
  parts: z.object({ lists: z.array(ObjectRef).max(maxSegments), scores: ObjectRef }),
});
export type ManifestRoot = z.infer<typeof ManifestRoot>;

/** A manifest with what its parts say. */
export interface Manifest extends ManifestRoot {
  lists: (readonly SegmentRef[])[];
  /** Those of all lists. */
  segments: SegmentRef[];
  scores: ScoreRefs;
}

/** How many markets, or protocols, differ between two snapshots. */
export const ChangeCounts = z.object({ added: Count, changed: Count, removed: Count });
export type ChangeCounts = z.infer<typeof ChangeCounts>;

/** A part of a change record, with its number of markets. */
export const ChangePartRef = ObjectRef.extend({ lines: z.int().min(1) });
export type ChangePartRef = z.infer<typeof ChangePartRef>;

/**
 * `private/changes/<hash>.json`: what the archive lost from the snapshot `since` to the snapshot `until`, `before`, and
 * what it gained, `after` (snapshots/SPEC.md, "Change records"). Parts are listed from the oldest up.
 */
export const ChangeRecord = z.object({
  formatVersion: FormatVersion,
  since: Digest,
  until: Digest,
  counts: ChangeCounts,
  before: z.array(ChangePartRef),
  after: z.array(ChangePartRef),
});
export type ChangeRecord = z.infer<typeof ChangeRecord>;

/**
 * What the public log says of a commit, but for the digest of its record (snapshots/SPEC.md, "Log"). The id commits to
 * `archiveRoot` and `scoresRoot`, and not to `indexRoot`: a later version may index more. `publishedAt` is never before
 * the predecessor's. A rollback adds the commits that it takes back to `withdrawn`, as [first, last].
 */
export const CommitEntry = z.strictObject({
  commit: CommitNumber,
  feedVersion: z.string(),
  snapshotId: Digest,
  archiveRoot: Digest,
  scoresRoot: Digest,
  indexRoot: Digest,
  counts: z.strictObject({ markets: Count, protocols: Count }),
  publishedAt: Timestamp,
  withdrawn: z.array(z.tuple([CommitNumber, CommitNumber])),
});
export type CommitEntry = z.infer<typeof CommitEntry>;

/**
 * `commits/<number>.json`: one published state. `changes` refers to the record of what the archive gained and lost
 * since the commit before; null where there is none. `changeCounts` counts these markets; null where the snapshot
 * before was gone or damaged. `previous` is the digest of the commit before, null in the first one. A rollback sets
 * `hold`, which stops publishing. `tree` is the head of the public log over the entries of all commits before. `note`
 * is a signed note about the commit's own entry, where the publisher has a key.
 */
export const Commit = z.object({
  formatVersion: FormatVersion,
  entry: CommitEntry,
  manifest: ObjectRef,
  changes: ObjectRef.nullable(),
  changeCounts: ChangeCounts.nullable(),
  size: Size,
  hold: z.boolean(),
  previous: Digest.nullable(),
  tree: Digest,
  ...sealed,
});
export type Commit = z.infer<typeof Commit>;

/**
 * `checked.json`: the newest successful publish run, even one with nothing new. The public names show `commit`, from
 * which readers start to look for the newest.
 */
export const Checked = z.object({
  checkedAt: Timestamp,
  commit: CommitNumber,
  outcome: z.enum(["published", "unchanged"]),
  ...sealed,
});
export type Checked = z.infer<typeof Checked>;

const byColumn = <S extends z.ZodType>(value: S) => z.record(z.string(), value);

/**
 * The statistics of a Parquet file's columns: least and greatest value, where they are told, and the number of nulls
 * (snapshots/PUBLISHING.md, "Exports").
 */
export const ColumnStats = z.object({
  minValues: byColumn(z.union([z.string(), z.number()])),
  maxValues: byColumn(z.union([z.string(), z.number()])),
  nullCount: byColumn(Count),
});
export type ColumnStats = z.infer<typeof ColumnStats>;

/** A Parquet file with its rows and the SHA-256 of each of its chunks. */
const ParquetFile = ObjectRef.extend({ rows: z.int().min(1), chunks: ObjectRef });
export type ParquetFile = z.infer<typeof ParquetFile>;

/**
 * `private/exports/changes/<hash>.json`: a change record, by its hash `changes`, as Parquet files
 * (snapshots/PUBLISHING.md, "Exports").
 */
export const ChangeFiles = z.object({
  formatVersion: FormatVersion,
  changes: Digest,
  files: z.array(ParquetFile),
  ...sealed,
});
export type ChangeFiles = z.infer<typeof ChangeFiles>;

/**
 * A Parquet file of an export. `root` is that of a tree over the pages that it was made from, as in a segment; `chunks`
 * refers to the SHA-256 of each of its chunks (snapshots/PUBLISHING.md, "Exports").
 */
export const ExportFile = ParquetFile.extend({
  root: Digest,
  /** Files made before there were statistics have none, and lack the columns that came with them. */
  stats: ColumnStats.optional(),
});
export type ExportFile = z.infer<typeof ExportFile>;

/**
 * `private/exports/records/<snapshotId>.json`: the files of a snapshot's export, from the newest markets to the oldest.
 */
export const ExportRecord = z.object({
  formatVersion: FormatVersion,
  commit: CommitNumber,
  snapshotId: Digest,
  archiveRoot: Digest,
  publishedAt: Timestamp,
  files: z.array(ExportFile),
  ...sealed,
});
export type ExportRecord = z.infer<typeof ExportRecord>;

/** A protocol's change of tier: its BRI then, and the `publishedAt` of the commit. */
export const TierChange = z.strictObject({
  slug: ProtocolSlug,
  from: ForgeTier,
  to: ForgeTier,
  bri: Count,
  at: Timestamp,
});
export type TierChange = z.infer<typeof TierChange>;

/**
 * `public/tiers.json`: the tier of each protocol, and the changes of 30 days, newest first. `since` is the
 * `publishedAt` of the commit with which this record began.
 */
export const Tiers = z.strictObject({
  since: Timestamp,
  tiers: z.record(ProtocolSlug, ForgeTier),
  changes: z.array(TierChange),
});
export type Tiers = z.infer<typeof Tiers>;

/** `collecting/<id>.json`: the keys that a collection is about to delete. */
export const Collecting = z.object({ keys: z.array(z.string()), digest: Digest });

/**
 * What `gc` keeps by default: superseded snapshots by hours, by newest commits, and as the last one of a UTC day or
 * month for so many days and months; change records by days. Whatever one of these rules keeps stays.
 */
export const retention = {
  keepHours: 48,
  keepCommits: 24,
  keepDaily: 35,
  keepMonthly: 24,
  keepChangesDays: 90,
} as const;

/** The form of an API key (INTERFACE 5.1): `prs_live_`, 32 random base62 digits and 6 base62 digits of checksum. */
export const keyPattern = /^prs_live_[0-9A-Za-z]{38}$/;
export const KeyId = z.string().regex(/^[0-9a-f]{16}$/);

/** `keys/<id>.json`: all that the store keeps about a key. `secretHash` is the SHA-256 of the whole key. */
export const KeyRecord = z.strictObject({
  id: KeyId,
  owner: z.string().min(1).max(200),
  plan: KeyPlan,
  secretHash: Digest,
  quota: z.int().min(1).optional(),
  issuedAt: Timestamp,
  expiresAt: Timestamp.optional(),
  digest: Digest,
});
export type KeyRecord = z.infer<typeof KeyRecord>;

/**
 * `keys/<id>.revoked.json`, or `keys/<id>.revoked.<ms>.json` beside it: the key ends at `revokedAt`, which may be in
 * the future. When a key has several revocations, the earliest counts.
 */
export const KeyRevocation = z.strictObject({
  id: KeyId,
  revokedAt: Timestamp,
  digest: Digest,
});
export type KeyRevocation = z.infer<typeof KeyRevocation>;

export const maxParts = 1000;

const Time = z.int();

/** A position in the archive: epoch milliseconds and id of its first market. */
const Key = z.object({ resolvedAt: Time, id: z.string() });

const NamedFile = ObjectRef.extend({ name: z.string() });

/**
 * `runs/<run>/plan.json`: how a publish run is divided, and what all its parts must have in common: versions, the
 * commit that it builds on, and the files of the sources. `oldest` and `newest` are the times of a file's markets; null
 * where it has none. The first of a part's `keys` is the key of its first market, and is left out for the first part;
 * the others divide the part for its sort. A part without markets has no keys.
 */
export const PartsPlan = z.object({
  formatVersion: FormatVersion,
  feedVersion: z.string(),
  rowDigests: z.string(),
  unicode: z.string(),
  commit: z.object({ commit: z.int().min(1), digest: Digest }).nullable(),
  startedAt: Timestamp,
  files: z.array(
    SourceFileRef.extend({ name: z.string(), oldest: Time.nullable(), newest: Time.nullable() }),
  ),
  scoreFiles: z.array(NamedFile),
  parts: z
    .array(z.object({ markets: Count, keys: z.array(Key) }))
    .min(1)
    .max(maxParts),
  ...sealed,
});
export type PartsPlan = z.infer<typeof PartsPlan>;

/**
 * `runs/<run>/part-<n>.json`: the result of a part, its segments from the oldest up. `plan` is the digest of the plan.
 * `objects` are the keys and sizes of all objects of its segments. `refused` says what is wrong with the sources; then
 * the part has made nothing.
 */
export const PartRecord = z.object({
  formatVersion: FormatVersion,
  plan: Digest,
  part: z.int().min(1).max(maxParts),
  refused: z
    .array(
      z.object({
        file: z.string(),
        row: z.string().optional(),
        column: z.string().optional(),
        value: z.string().optional(),
        rule: z.string(),
        total: Count,
      }),
    )
    .optional(),
  segments: z.array(SegmentRef),
  pages: Count,
  markets: Count,
  newestResolvedAt: Time,
  objects: z.array(z.tuple([z.string(), Count])),
  seconds: z.object({ elapsed: z.number(), processor: z.number() }),
  ...sealed,
});
export type PartRecord = z.infer<typeof PartRecord>;
