import { z } from "zod";
import { feedProtocol, keyProtocolPrefix } from "../headers.ts";
import { FeedCommand, FeedMessage, feedLimits, keyEnded } from "../rooms/feed.ts";
import { answerExample } from "./responses.ts";

/** Schemas of the live feed's messages, as components of the document. */
export const feedComponents = { FeedMessage, FeedCommand };

/** What an operation of a WebSocket has in place of answers. */
export const feedMessages = {
  subprotocol: feedProtocol,
  receives: { $ref: "#/components/schemas/FeedMessage" },
  sends: { $ref: "#/components/schemas/FeedCommand" },
};

export function feedText(): string {
  const examples = z.array(FeedMessage).safeParse(answerExample("scoreFeed")).data ?? [];
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
