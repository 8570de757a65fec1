import { z } from "zod";
import { errors } from "./errors.ts";
import { Digest, Timestamp } from "./primitives.ts";
import { ScoreListEntry } from "./records.ts";

/** The one subprotocol of the live feed; beside it a browser offers `bearer.KEY`. */
export const feedProtocol = "scores.v1";
export const keyProtocolPrefix = "bearer.";

const snapshot = { snapshotId: Digest, publishedAt: Timestamp };
const change = { slug: z.string(), ...snapshot };

/** One difference between a snapshot and the one before: rows of GET /scores, null where there is none. */
export const ScoreChange = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("score.changed"),
    ...change,
    previous: ScoreListEntry,
    current: ScoreListEntry,
  }),
  z.strictObject({ type: z.literal("score.added"), ...change, previous: z.null(), current: ScoreListEntry }),
  z.strictObject({
    type: z.literal("score.removed"),
    ...change,
    previous: ScoreListEntry,
    current: z.null(),
  }),
]);
export type ScoreChange = z.infer<typeof ScoreChange>;

/** What the server sends on the live feed. */
export const FeedMessage = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("hello"), ...snapshot }),
  ...ScoreChange.options,
  z.strictObject({ type: z.literal("error"), code: z.enum(["SNAPSHOT_EXPIRED", "INVALID_MESSAGE"]) }),
]);
export type FeedMessage = z.infer<typeof FeedMessage>;

/** What a client may send: the slugs it wants to hear of from then on, also ones that are not scored yet. */
export const FeedCommand = z.strictObject({ type: z.literal("subscribe"), slugs: z.array(z.string()) });

/** Bounds of the live feed. */
export const feedLimits = { messageBytes: 4096, connectionsPerOwner: 5, pingSeconds: 30 } as const;

/** Close code of a connection whose key was revoked or has expired. */
export const keyEnded = { code: 4401, title: errors.INVALID_API_KEY.title } as const;
