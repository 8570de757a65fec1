import { z } from "zod";
import { Count, Digest, Timestamp } from "../primitives.ts";
import { FormatVersion, ObjectRef, SegmentRef, SourceFileRef, sealed } from "./stored-objects.ts";

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
