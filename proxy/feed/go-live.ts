import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { endpoints } from "../../schemas/endpoints.ts";
import { Fault } from "../../schemas/errors.ts";
import { feedLimits } from "../../schemas/rooms/feed.ts";
import type { ReaderStart } from "../../snapshots/read/feed/score-change-log.ts";
import { snapshotIdOf } from "../../snapshots/read/query/query.ts";
import { within } from "../../snapshots/store/in-parallel.ts";
import { hasBody } from "../connection/pipelining.ts";
import { type Exchange, newExchange } from "../exchange.ts";
import { type Receipt, rateLimitHeaders } from "../quota/quota.ts";
import { refusalOf } from "../reply/problem.ts";
import { commonHeaders } from "../reply/reply.ts";
import { checksOf, pathOf, requireOneHost, searchOf } from "../routes/checks.ts";
import type { AppServices, Companion } from "../services.ts";
import { createLiveFeed, type LiveFeed, type LiveFeedServices } from "./live-feed.ts";

/** The live feed of score changes (INTERFACE 6). */
export function liveFeed(services: LiveFeedServices): Companion {
  const feed = createLiveFeed(services);
  return {
    polled: { snapshot: feed.advance, keys: feed.recheck },
    isHandshake,
    takeOver: (services) => goLive(services, feed),
    close: feed.close,
  };
}

/** Hands the connection of a WebSocket handshake over to the live feed. */
function goLive(services: AppServices, feed: LiveFeed): ReturnType<Companion["takeOver"]> {
  const { catalog, recorder, limits, now } = services;
  const { path } = endpoints.scoreFeed;
  const checks = [requireOneHost, ...checksOf(endpoints.scoreFeed, services)];
  return async (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const opened = newExchange(searchOf(request.url ?? ""), (id) => commonHeaders(catalog, path, id));
    const exchange: Exchange = { ...opened, route: path };
    const end = recorder.begin(request, exchange);
    try {
      for (const check of checks) await check(request, exchange);
      const since = snapshotIdOf(exchange.parameters!, "since");
      const { owner } = exchange.identify!();
      const start = await within(limits.answerSeconds, () => feed.begin(since, owner));
      await payFor(start, exchange.receipt!);
      const headers = { ...exchange.commonHeaders, ...rateLimitHeaders(exchange.receipt!, now()) };
      feed.open({ request, socket, head, headers }, exchange.identify!, start);
      end(socket.destroyed ? undefined : 101);
      return undefined;
    } catch (thrown) {
      const refusal = await refusalOf(thrown, exchange, now(), path);
      end(socket.destroyed ? undefined : refusal.status);
      return refusal;
    }
  };
}

/** Takes the units for the changes that a client gets before its greeting. */
async function payFor({ scores }: ReaderStart, receipt: Receipt): Promise<void> {
  const units = Math.ceil(scores / feedLimits.scoresPerUnit);
  const left = receipt.remaining + receipt.units;
  const detail =
    `To resume from this snapshot takes ${units} units, more than the ${left} left of today; connect without since, ` +
    "and read the scores anew.";
  if (units > left) throw new Fault("QUOTA_EXCEEDED", detail);
  while (receipt.units < units) await receipt.more();
}

/** Whether a request is a WebSocket handshake with the live feed (RFC 6455, 4.1). */
function isHandshake(request: IncomingMessage): boolean {
  const { url = "", method, headers } = request;
  const { "sec-websocket-version": version, "sec-websocket-key": nonce = "" } = headers;
  return (
    method === "GET" &&
    !hasBody(request) &&
    pathOf(url) === endpoints.scoreFeed.path &&
    /^websocket$/i.test(headers.upgrade ?? "") &&
    version === "13" &&
    /^[+/0-9A-Za-z]{22}==$/.test(nonce) &&
    areTokens(headers["sec-websocket-protocol"])
  );
}

function areTokens(offered: string | undefined): boolean {
  const names = offered?.split(",").map((name) => name.trim()) ?? [];
  return (
    new Set(names).size === names.length && names.every((name) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name))
  );
}
