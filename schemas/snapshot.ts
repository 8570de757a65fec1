import { z } from "zod";
import { Count, Digest, ProtocolSlug, Timestamp } from "./primitives.ts";

/** Version of the published format, documented in snapshots/SPEC.md. */
export const formatVersion = 1;

const FormatVersion = z.literal(formatVersion);
const CommitNumber = z.int().min(1);

/** A stored object, named by the SHA-256 of its bytes. */
export const ObjectRef = z.strictObject({ hash: Digest, bytes: Count });
export type ObjectRef = z.infer<typeof ObjectRef>;

/** Snapshot counts, as manifests, commits and reports give them. */
export const SnapshotCounts = z.strictObject({
  markets: Count,
  protocols: Count,
  segments: Count,
  pages: Count,
});
export type SnapshotCounts = z.infer<typeof SnapshotCounts>;

/** Objects and their stored bytes. */
export const Size = z.strictObject({ objects: Count, bytes: Count });
export type Size = z.infer<typeof Size>;

/** `rows` refers to the digests of the source rows, by which the next publish run tells what changed. */
export const SegmentRef = ObjectRef.extend({
  markets: z.int().min(1),
  pages: z.int().min(1),
  rows: ObjectRef,
});
export type SegmentRef = z.infer<typeof SegmentRef>;

/** `manifests/<hash>.json`: all that a snapshot consists of; segments from the oldest up. */
export const Manifest = z.strictObject({
  formatVersion: FormatVersion,
  feedVersion: z.string(),
  snapshotId: Digest,
  counts: SnapshotCounts,
  newestResolvedAt: Timestamp,
  newestUpdatedAt: Timestamp,
  /** How the row digests were made; digests of another kind tell nothing. */
  rowDigests: z.string(),
  segments: z.array(SegmentRef),
  scores: z.strictObject({
    list: ObjectRef,
    records: z.record(ProtocolSlug, ObjectRef),
    histories: z.record(ProtocolSlug, ObjectRef),
    dimensions: z.record(ProtocolSlug, ObjectRef),
  }),
});
export type Manifest = z.infer<typeof Manifest>;

/**
 * `commits/<number>.json`: one published state; `previous` is the digest of the commit before, null in the first.
 * A rollback puts publishing on `hold` and adds the commits it leaves to `withdrawn`: [first, last] of each range.
 */
export const Commit = z.strictObject({
  formatVersion: FormatVersion,
  commit: CommitNumber,
  snapshotId: Digest,
  manifest: ObjectRef,
  counts: SnapshotCounts,
  size: Size,
  publishedAt: Timestamp,
  hold: z.boolean(),
  withdrawn: z.array(z.tuple([CommitNumber, CommitNumber])),
  previous: Digest.nullable(),
  digest: Digest,
});
export type Commit = z.infer<typeof Commit>;

/** `head.json`: a hint to the newest commit; readers probe the next number too. */
export const Head = z.strictObject({ commit: CommitNumber, digest: Digest });
export type Head = z.infer<typeof Head>;

/** `checked.json`: the newest publish run that succeeded, also one with nothing new; the public names show `commit`. */
export const Checked = z.strictObject({
  checkedAt: Timestamp,
  commit: CommitNumber,
  outcome: z.enum(["published", "unchanged"]),
  digest: Digest,
});
export type Checked = z.infer<typeof Checked>;

/** `collecting/<id>.json`: the keys that a collection is about to delete. */
export const Collecting = z.strictObject({ keys: z.array(z.string()), digest: Digest });

/** A snapshot stays readable this long after it was superseded, and while it is among the newest commits. */
export const retention = { keepHours: 48, keepCommits: 24 } as const;
