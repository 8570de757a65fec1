import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { endpoints } from "../../schemas/endpoints.ts";
import { sinceOf } from "../../snapshots/read/query.ts";
import { type Exchange, newExchange } from "../exchange.ts";
import { rateLimitHeaders } from "../quota/quota.ts";
import { serviceErrorOf } from "../reply/errors-of.ts";
import type { CommonHeaders } from "../reply/headers.ts";
import { type ProblemReply, refusalOf } from "../reply/problem.ts";
import { type CheckParts, checksOf, parseQuery, requireOneHost } from "../routes/checks.ts";
import type { InTime } from "../routes/deadline.ts";
import type { Recorder } from "../telemetry/recorder.ts";
import type { LiveFeed } from "./live-feed.ts";

/** What handshakes are answered with. */
export interface HandshakeParts extends CheckParts {
  feed: LiveFeed;
  commonHeaders: CommonHeaders;
  recorder: Recorder;
  inTime: InTime;
  /** Epoch milliseconds. */
  now: () => number;
}

/** Hands the connection of a handshake over to the live feed, or tells what it is to be answered instead. */
export type GoLive = (
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
) => Promise<ProblemReply | undefined>;

/**
 * Handshakes never reach the app, since node has no response for them; they pass the same checks in the same order.
 * Until all have passed the connection is untouched.
 */
export function createGoLive(parts: HandshakeParts): GoLive {
  const { feed, commonHeaders, recorder, inTime, now } = parts;
  const { path } = endpoints.scoreFeed;
  const checks = [requireOneHost, ...checksOf(endpoints.scoreFeed, parts), parseQuery(endpoints.scoreFeed)];
  return async (request, socket, head) => {
    const exchange: Exchange = { ...newExchange(), route: path };
    const { end } = recorder.begin(request, exchange);
    const common = Object.fromEntries(commonHeaders(path, exchange.id));
    try {
      for (const check of checks) await check(request, exchange);
      const since = sinceOf(exchange.parameters!);
      const start = await inTime(() => feed.begin(since));
      const headers = { ...common, ...rateLimitHeaders(exchange.receipt!, now()) };
      feed.open({ request, socket, head, headers }, exchange.identify!, start);
      end(socket.destroyed ? undefined : 101);
      return undefined;
    } catch (thrown) {
      const refusal = await refusalOf(serviceErrorOf(thrown), exchange, now());
      end(socket.destroyed ? undefined : refusal.status);
      return { ...refusal, headers: { ...common, ...refusal.headers } };
    }
  };
}
