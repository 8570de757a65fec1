import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type * as express from "express";
import type { BatchRequest } from "../schemas/envelopes.ts";
import type { ErrorCode } from "../schemas/errors.ts";
import type { ObjectRef } from "../schemas/snapshot.ts";
import type { Parameters } from "../snapshots/read/query.ts";
import type { Identity } from "./access/identity.ts";
import type { Receipt } from "./quota/quota.ts";

/** What is known of a request from its head to the end of its answer: `response.locals` in the app. */
export interface Exchange {
  /** As in X-Request-Id. */
  id: string;
  /** When its head had arrived, by `performance.now()`. */
  began: number;
  /** Path of its row in the endpoint table, once it is known. */
  route?: string;
  /** Who asks, once the credentials are checked. */
  caller?: Identity;
  /** Asks again who it is: a key may end while an answer is sent. Throws ServiceError then. */
  identify?: () => Identity;
  /** Of a metered request. */
  receipt?: Receipt;
  /** The query, decoded; the endpoint knows every name in it. */
  parameters?: Parameters;
  /** Of endpoints that take one. */
  body?: BatchRequest;
  /** What the origin is asked for on behalf of this request. */
  fetching?: {
    object: ObjectRef;
    abort: AbortSignal;
    resolve: (body: Buffer) => void;
    reject: (error: unknown) => void;
  };
  /** Code of the error that was answered. */
  code?: ErrorCode;
  /** What went wrong on our side. */
  error?: Error;
  /** Gives a long answer the time of a new one. */
  prolong?: () => void;
}

export type Request = express.Request;
export type Response = express.Response<unknown, Exchange>;
/** Middleware over the exchange. What it throws, or rejects with, is answered as a problem. */
export type Step = (request: Request, response: Response, next: express.NextFunction) => void | Promise<void>;

/** The part of a request that its checks look at; a WebSocket handshake has it too. */
export type Asked = Pick<IncomingMessage, "rawHeaders" | "socket" | "httpVersion" | "url">;

/** The exchange of a request that has just arrived. */
export function newExchange(): Exchange {
  return { id: randomUUID(), began: performance.now() };
}
