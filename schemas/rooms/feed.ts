import { z } from "zod";
import { errors } from "../errors.ts";
import { feedProtocol, keyProtocolPrefix } from "../headers.ts";
import { Count, Digest, ScoreListEntry, Timestamp } from "../records.ts";
import { ChangeCounts } from "../store/stored-objects.ts";

const snapshot = { snapshotId: Digest, publishedAt: Timestamp };
const change = { slug: z.string(), ...snapshot };

/**
 * How one protocol's score differs from the snapshot before. `previous` and `current` are rows of GET /api/v1/scores;
 * one of them is null when the protocol was added or removed.
 */
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

/**
 * A snapshot was published, or a rollback published one again. `changes` counts the markets that differ from the commit
 * before; null where the publisher could not tell.
 */
const SnapshotPublished = z.strictObject({
  type: z.literal("snapshot.published"),
  ...snapshot,
  commit: z.int().min(1),
  counts: z.strictObject({ markets: Count, protocols: Count }),
  changes: z.strictObject(ChangeCounts.shape).nullable(),
});

/** A message from the server on the live feed. */
export const FeedMessage = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("hello"), ...snapshot }),
  ...ScoreChange.options,
  SnapshotPublished,
  z.strictObject({ type: z.literal("error"), code: z.enum(["SNAPSHOT_EXPIRED", "INVALID_MESSAGE"]) }),
]);
export type FeedMessage = z.infer<typeof FeedMessage>;

/**
 * A message from a client. From now on, the feed sends changes of these slugs only, or of all when there is no list,
 * and tells of every snapshot or of none. Slugs need not be scored yet.
 */
export const FeedCommand = z
  .strictObject({
    type: z.literal("subscribe"),
    slugs: z.array(z.string()).optional(),
    snapshots: z.boolean().optional(),
  })
  .refine(({ slugs, snapshots }) => slugs !== undefined || snapshots !== undefined);

/**
 * Bounds of the live feed. A client may send `framesPerSecond`, and `burstFrames` at once after a pause. One unit pays
 * for `scoresPerUnit` scores of the snapshots that are stepped through to resume.
 */
export const feedLimits = {
  messageBytes: 4096,
  framesPerSecond: 10,
  burstFrames: 60,
  connectionsPerOwner: 5,
  scoresPerUnit: 1000,
  pingSeconds: 30,
} as const;

/** Close code and reason of a connection whose key was revoked or has expired. */
export const keyEnded = { code: 4401, title: errors.INVALID_API_KEY.title } as const;

export const feedComponents = { FeedMessage, FeedCommand };

/** What an operation of a WebSocket has in place of answers. */
export const feedMessages = {
  subprotocol: feedProtocol,
  receives: { $ref: "#/components/schemas/FeedMessage" },
  sends: { $ref: "#/components/schemas/FeedCommand" },
};

export function feedText(example: unknown): string {
  const examples = z.array(FeedMessage).safeParse(example).data ?? [];
  const messages = examples.map((message) => JSON.stringify(message)).join("\n");
  return [
    "A WebSocket. Messages are JSON, one to a frame: `FeedMessage` from the service, `FeedCommand` from " +
      "the client. The changes of every publish are sent, commit by commit; `hello` names the snapshot " +
      "from which the feed goes on.",
    `\`\`\`json\n${messages}\n\`\`\``,
    '`{"type":"subscribe","slugs":["…"]}` limits what is sent from then on. `"snapshots":true` in it adds a ' +
      "`snapshot.published` behind the changes of every commit, with the numbers of markets added, changed " +
      "and removed. After a lost connection, resume with `since`; when that snapshot is no longer kept, an " +
      "`error` with `SNAPSHOT_EXPIRED` comes, then `hello`.",
    `Browsers send the key as a subprotocol: \`new WebSocket(url, ["${feedProtocol}", ` +
      `"${keyProtocolPrefix}KEY"])\`. A connection costs one unit, and with \`since\` one for every ` +
      `${feedLimits.scoresPerUnit} scores of the snapshots that are stepped through; an owner may hold ` +
      `${feedLimits.connectionsPerOwner} with each process. A message of the client has at most ` +
      `${feedLimits.messageBytes} bytes, and it may send ${feedLimits.framesPerSecond} frames a second behind a ` +
      `burst of ${feedLimits.burstFrames}, pings and pongs included. Close code ${keyEnded.code}: the key was ` +
      "revoked or has expired; 1001: the process stops, connect again; 1008: too many frames; 1009: too large " +
      "a message.",
  ].join("\n\n");
}
