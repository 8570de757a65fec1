import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type * as express from "express";
import { type Address, addressOf, isCrossSite } from "../schemas/addresses.ts";
import type { ErrorCode } from "../schemas/errors.ts";
import { apiHeaders, securityHeaders } from "../schemas/headers.ts";
import type { NamedObject } from "../schemas/store/stored-objects.ts";
import type { AsOf } from "../snapshots/read/answer.ts";
import type { Catalog } from "../snapshots/read/catalog/catalog.ts";
import type { Parameters } from "../snapshots/read/parameters.ts";
import type { Identity } from "./access/identity.ts";
import type { Receipt } from "./quota/quota.ts";

/**
 * What is known of a request, from the arrival of its head to the end of its answer: `response.locals` in the app.
 * Don't assign function literals to its properties: V8 tenures them with everything they capture, and keeps that until
 * a major collection.
 */
export interface Exchange {
  /** As in X-Request-Id. */
  id: string;
  /** When the head had arrived, by `performance.now()`. */
  began: number;
  /** The path as it was sent, in the client's own spelling. */
  path: string;
  /** The query as it was sent, without its question mark. */
  search: string;
  /** The snapshot that was current when the request arrived. */
  snapshotId: string | undefined;
  /** Headers of every answer at the address; at some, also what lets this request's Origin read it. */
  addressHeaders: Readonly<Record<string, string>>;
  /** Path of the request's row in the endpoint table; undefined where that has no such address. */
  route: string | undefined;
  /** The values of that path's parameters, by name. */
  params: Address["params"];
  /** The caller, once the credentials are checked. */
  caller?: Identity;
  /** Checks the credentials again, because a key may end while an answer is sent. */
  identify?: () => Identity;
  receipt?: Receipt;
  /** Whether something was worked out for the answer. */
  worked?: boolean;
  /** The decoded query. The endpoint knows every name in it. */
  parameters?: Parameters;
  asOf?: AsOf | undefined;
  /** The fault of the query, until it is thrown. */
  queryFault?: unknown;
  body?: unknown;
  /** Length of the body as it was sent. */
  bodyBytes?: number;
  /** The fetch from the origin on behalf of this request. */
  fetching?: PromiseWithResolvers<Buffer> & { object: NamedObject; abort: AbortSignal };
  /** Code of the error that was answered. */
  code?: ErrorCode;
  /** A fault of the service, for the log. */
  error?: Error;
}

export type Request = express.Request;
export type Response = express.Response<unknown, Exchange> & {
  /** What the head begins with after its status line: whole lines, which Node does not check again. */
  headText?: string | undefined;
  /** Cuts off an answer that takes too long to send. */
  deadline?: NodeJS.Timeout;
};
/** Answers a request. What it throws or rejects with is answered as a problem. */
export type Handler = (request: Request, response: Response) => void | Promise<void>;

/**
 * Checks a request before it is answered and notes the results in the exchange. A WebSocket handshake has no response.
 */
export type Check = (
  request: IncomingMessage,
  exchange: Exchange,
  response?: ServerResponse,
) => void | Promise<void>;

/** The exchange of a request with this target. */
export function newExchange(target: string, catalog: Pick<Catalog, "current">): Exchange {
  const path = pathOf(target);
  const { path: route, params = {} } = addressOf(path) ?? {};
  return {
    id: randomUUID(),
    began: performance.now(),
    path,
    search: target.slice(path.length + 1),
    snapshotId: catalog.current()?.commit.snapshotId,
    addressHeaders: isCrossSite(path) ? apiHeaders : securityHeaders,
    route,
    params,
  };
}

export const pathOf = (target: string): string => target.split("?", 1)[0]!;

/** Each call takes one more unit, for long work. These units are not given back. */
export function paymentOf(exchange: Exchange): () => Promise<void> {
  return async () => {
    exchange.worked = true;
    await exchange.receipt!.more();
  };
}
