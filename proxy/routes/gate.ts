import type { IncomingMessage } from "node:http";
import { type BulkheadPolicy, bulkhead } from "cockatiel";
import type { Request, Response } from "express";
import { LRUCache } from "lru-cache";
import { type Endpoint, endpoints, type HttpEndpointId } from "../../schemas/endpoints.ts";
import { ServiceError } from "../../schemas/errors.ts";
import type { Plan } from "../../schemas/plans.ts";
import { readParameters, readSince } from "../../schemas/query.ts";
import type { KeyRing } from "../../snapshots/keys/ring.ts";
import { storeFaultsAs503 } from "../../snapshots/read/paging.ts";
import { DeadlineError, within } from "../../snapshots/store/deadline.ts";
import type { Trust } from "../access/client-address.ts";
import { headerValues } from "../access/credentials.ts";
import { type Identity, identify, requirePlan, type Sender } from "../access/identity.ts";
import type { LiveFeed, Upgrade } from "../feed/live-feed.ts";
import { type Quota, quotaExceeded, type Receipt, rateLimitHeaders, secondsUntil } from "../quota/quota.ts";
import { preflightHeaders } from "../reply/headers.ts";
import { createRowsSender, prefersRows, requireUnits, type SendRows } from "../reply/ndjson.ts";
import { type ProblemReply, problemReply, serviceErrorOf } from "../reply/problem.ts";
import { prepare, send } from "../reply/reply.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { readBatch } from "./batch-body.ts";
import type { Handler } from "./handlers.ts";
import { allowedMethods, type Route, routeFor, type Target } from "./target.ts";

/** What is known of a request while it is answered; what the log tells of it. */
export interface Exchange {
  id: string;
  /** Undefined when the raw target is no address of the service. */
  target: Target | undefined;
  /** Whether the raw target lies under /api/v1. */
  api: boolean;
  plan?: Plan;
  code?: string;
  /** What went wrong on our side. */
  error?: Error;
  receipt?: Receipt;
  /** Headers of the answer, whatever it will be. */
  headers: Record<string, string | number>;
  /** Gives the answer its time to be taken anew, when it goes on. */
  prolong?: () => void;
}

/** What the gate decides by. */
export interface GateParts {
  handlers: Record<HttpEndpointId, Handler>;
  feed: LiveFeed;
  keys: KeyRing;
  quota: Quota;
  trust: Trust;
  now: () => number;
  /** What heavy endpoints go through, by the owner who asks. */
  lane: <T>(owner: string, work: () => Promise<T>) => Promise<T>;
  sendRows: SendRows;
  /** The longest a body may take to arrive. */
  requestSeconds: number;
  /** The longest an answer may take to be ready. */
  answerSeconds: number;
}

// A page of a rare match may hold hundreds of stored pages until it is put together. Those that wait are bounded
// by the connections, of which each waits for one answer.
const heavyAtOnce = 16;
// Else those of one owner could keep all others waiting.
const heavyOfOwner = 4;
const busyOwners = 1000;

/** Answers requests: the checks in their documented order, the handler, and the one way out for errors. */
export interface Gate {
  respond(request: Request, response: Response, exchange: Exchange): Promise<void>;
  /** Hands the connection of a handshake over to the live feed, or tells what is to be answered instead. */
  goLive(handshake: Omit<Upgrade, "headers">, exchange: Exchange): Promise<ProblemReply | undefined>;
}

/** The gate over its parts. */
export function createGate(
  gateParts: Omit<GateParts, "lane" | "sendRows"> & { metrics: Pick<Metrics, "brokeOff"> },
): Gate {
  const parts = {
    ...gateParts,
    lane: createLane(),
    sendRows: createRowsSender(gateParts.quota, gateParts.metrics),
  };
  return {
    async respond(request, response, exchange) {
      try {
        await answer(parts, request, response, exchange);
      } catch (thrown) {
        await refuse(parts, response, exchange, request.method === "HEAD", serviceErrorOf(thrown));
      }
    },
    async goLive(handshake, exchange) {
      try {
        await goLive(parts, handshake, exchange);
        return undefined;
      } catch (thrown) {
        return refusal(parts, exchange, serviceErrorOf(thrown));
      }
    },
  };
}

function createLane(): GateParts["lane"] {
  const all = bulkhead(heavyAtOnce, Number.POSITIVE_INFINITY);
  const owners = new LRUCache<string, BulkheadPolicy>({
    max: busyOwners,
    memoMethod: () => bulkhead(heavyOfOwner, Number.POSITIVE_INFINITY),
  });
  return (owner, work) => owners.memo(owner).execute(() => all.execute(work));
}

async function answer(
  parts: GateParts,
  request: Request,
  response: Response,
  exchange: Exchange,
): Promise<void> {
  const { target } = exchange;
  requireOneHost(request);
  if (!target)
    throw new ServiceError("NOT_FOUND", "There is no such address; paths are matched byte for byte.");
  if (request.method === "OPTIONS") return preflight(response, target, exchange);
  const { id, endpoint } = requireMethod(exchange, target, request.method);

  const sender = senderOf(request, endpoint);
  const caller = await admit(parts, exchange, endpoint, sender);
  const body = endpoint.body && (await readBatch(request, response, parts.requestSeconds));
  if (exchange.api) readParameters(target.search, endpoint.query);
  if (id === "scoreFeed") {
    readSince(target.search);
    throw new ServiceError("UPGRADE_REQUIRED", "Connect with a WebSocket client, protocol version 13.");
  }

  const { address, slug, search } = target;
  const call = { address, slug, search, caller, body, prefersRows: () => prefersRows(request) };
  const work = async () => prepare(request, await parts.handlers[id](call));
  const prepared = await withDeadline(parts, (late) =>
    endpoint.heavy ? parts.lane(caller.owner, () => begin(work, late)) : work(),
  );
  if (prepared.known) await exchange.receipt?.giveBack();
  const { rows } = prepared;
  if (rows && exchange.receipt) requireUnits(rows, exchange.receipt);
  setRateLimitHeaders(parts, exchange);
  const complete = { ...prepared, headers: { ...exchange.headers, ...prepared.headers } };
  if (!rows || request.method === "HEAD") return send(request, response, complete);
  const identity = () => identify(sender, parts.keys, parts.trust);
  const inTime = <T>(work: () => Promise<T>) => withDeadline(parts, work);
  await parts.sendRows({ ...complete, rows }, { response, exchange, identity, inTime });
}

/** Credentials, availability, plan and quota, in this order. */
async function admit(
  parts: GateParts,
  exchange: Exchange,
  { credentials, availability, plan, metered }: Endpoint,
  sender: Sender,
): Promise<Identity> {
  const caller = credentials === "checked" ? identify(sender, parts.keys, parts.trust) : anonymous;
  exchange.plan = caller.plan;
  if (availability === "announced") {
    throw new ServiceError("COMING_SOON", "This address is announced and not available yet.");
  }
  requirePlan(caller, plan);
  if (metered) await takeUnit(parts, exchange, caller);
  return caller;
}

// RFC 9112, 3.2: several Host fields could mean different things to different readers. Node's parser also takes
// versions that are none of HTTP/1.
function requireOneHost({ httpVersion, rawHeaders }: IncomingMessage): void {
  if (!httpVersion.startsWith("1.")) throw new ServiceError("BAD_REQUEST", "This service speaks HTTP/1.1.");
  const hosts = headerValues(rawHeaders, "host").length;
  if (hosts === 1 || (hosts === 0 && httpVersion === "1.0")) return;
  throw new ServiceError("BAD_REQUEST", "A request must have exactly one Host header.");
}

const anonymous = { plan: "free", account: "", owner: "", limit: 0, keyed: false } as const;

function preflight(response: Response, target: Target, { api, headers }: Exchange): void {
  const methods = allowedMethods(target);
  response.writeHead(204, { ...headers, Allow: methods, ...(api && preflightHeaders(methods)) });
  response.end();
}

function requireMethod({ headers }: Exchange, target: Target, method: string): Route {
  const route = routeFor(target, method);
  if (route) return route;
  const methods = allowedMethods(target);
  headers.Allow = methods;
  throw new ServiceError("METHOD_NOT_ALLOWED", `This address answers ${methods}.`);
}

function senderOf({ rawHeaders, socket }: IncomingMessage, { method }: Endpoint): Sender {
  return { rawHeaders, peer: socket.remoteAddress, webSocket: method === "WS" };
}

/** Opens a live connection. Throws ServiceError, and has not touched the connection then. */
async function goLive(
  parts: GateParts,
  handshake: Omit<Upgrade, "headers">,
  exchange: Exchange,
): Promise<void> {
  const { request } = handshake;
  const endpoint = endpoints.scoreFeed;
  const search = exchange.target?.search ?? "";
  requireOneHost(request);
  const sender = senderOf(request, endpoint);
  await admit(parts, exchange, endpoint, sender);
  readParameters(search, endpoint.query);
  const since = readSince(search);
  const start = await withDeadline(parts, () => storeFaultsAs503(() => parts.feed.begin(since)));
  setRateLimitHeaders(parts, exchange);
  const identity = () => identify(sender, parts.keys, parts.trust);
  parts.feed.open({ ...handshake, headers: exchange.headers }, identity, start);
}

async function takeUnit(
  parts: GateParts,
  exchange: Exchange,
  caller: Parameters<Quota["take"]>[0],
): Promise<void> {
  const receipt = await parts.quota.take(caller, 1);
  exchange.receipt = receipt;
  if (!receipt.allowed) throw quotaExceeded(receipt);
}

function setRateLimitHeaders({ now }: GateParts, { receipt, headers }: Exchange): void {
  if (receipt) Object.assign(headers, rateLimitHeaders(receipt, now()));
}

async function refuse(
  parts: GateParts,
  response: Response,
  exchange: Exchange,
  headOnly: boolean,
  error: ServiceError,
): Promise<void> {
  exchange.code = error.code;
  // Half an answer cannot be taken back; cutting it off at least cannot look complete.
  if (response.headersSent) return void response.destroy();
  const { status, headers, body } = await refusal(parts, exchange, error);
  response.writeHead(status, headers);
  response.end(headOnly ? undefined : body);
}

/** What an error is answered with. Gives the unit back when the caller is not to blame, or has got nothing. */
async function refusal(parts: GateParts, exchange: Exchange, error: ServiceError): Promise<ProblemReply> {
  exchange.code = error.code;
  const { receipt } = exchange;
  const { status, headers, body } = problemReply(error, exchange.id);
  if (status >= 500 && error.code !== "COMING_SOON") exchange.error = error;
  if ((status >= 500 || status === 429) && receipt?.allowed) await receipt.giveBack();
  setRateLimitHeaders(parts, exchange);
  if (error.code === "QUOTA_EXCEEDED" && receipt) {
    exchange.headers["Retry-After"] = secondsUntil(receipt.resetAt, parts.now());
  }
  return { status, headers: { ...exchange.headers, ...headers }, body };
}

/** `late` tells work whose turn comes when nobody waits for it any more that it need not begin. */
async function withDeadline<T>(
  { answerSeconds }: GateParts,
  work: (late: () => boolean) => Promise<T>,
): Promise<T> {
  try {
    return await within(answerSeconds, (signal) => work(() => signal.aborted));
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error;
    throw new ServiceError("UPSTREAM_TIMEOUT", "The answer was not ready in time; try again.");
  }
}

async function begin<T>(work: () => Promise<T>, late: () => boolean): Promise<T> {
  if (late()) throw new Error("nobody waits for this answer any more");
  return work();
}
