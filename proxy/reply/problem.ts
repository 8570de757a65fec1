import { foreignAt } from "../../schemas/addresses.ts";
import { makeProblem, type Problem } from "../../schemas/envelopes.ts";
import { type ErrorCode, errors, Fault, isFault, isPublic } from "../../schemas/errors.ts";
import { ObjectError } from "../../snapshots/store/errors.ts";
import { StorageError } from "../../snapshots/store/storage.ts";
import type { Exchange } from "../exchange.ts";
import { secondsUntil } from "../quota/quota.ts";
import { exchangeHeaders } from "./reply.ts";

const mediaType = "application/problem+json";
/** Retry-After of a 429 or 503. A quota that is used up says when it starts anew instead. */
const retrySeconds = 5;

export interface ProblemReply {
  status: number;
  headers: Record<string, string | number>;
  body: Buffer;
  problem: Problem;
}

/** Notes an error in the exchange, for the log and the metrics. */
export function noteError(thrown: unknown, exchange: Exchange): Fault<ErrorCode> {
  const error = publicError(thrown);
  exchange.code = error.code;
  if (errors[error.code].status >= 500 && error.code !== "COMING_SOON") exchange.error = error;
  return error;
}

/**
 * The answer to an error, with all headers (INTERFACE 7). Notes the error in the exchange. Gives the unit back when the
 * caller is not to blame, or nothing was worked out for it. Never throws.
 */
export async function refusalOf(thrown: unknown, exchange: Exchange, now: number) {
  const error = noteError(thrown, exchange);
  const { receipt } = exchange;
  const { status } = errors[error.code];
  const refused = status === 401 || status === 403 || error.code === "NOT_FOUND";
  const free = refused || status >= 500 || (status === 429 && !exchange.worked);
  if (free && receipt?.allowed) await receipt.giveBack();
  const { headers, ...reply } = problemReply(error, exchange);
  const retryAfter = receipt &&
    error.code === "QUOTA_EXCEEDED" && { "Retry-After": secondsUntil(receipt.resetAt, now) };
  return { ...reply, headers: { ...exchangeHeaders(exchange, now), ...headers, ...retryAfter } };
}

/**
 * An error as application/problem+json (INTERFACE 7, RFC 9457), with the headers that belong to its code. A path with
 * another protocol gets that protocol's form of errors.
 */
export function problemReply(
  error: Fault<ErrorCode>,
  { id: requestId, path }: Pick<Exchange, "id" | "path">,
): ProblemReply {
  const { parameter, size, ...extras } = error.extras;
  const problem = makeProblem(error.code, {
    detail: withoutKeys(error.message),
    requestId,
    ...(parameter !== undefined && { parameter: withoutKeys(parameter) }),
    ...extras,
  });
  const { status } = problem;
  const shaped = foreignAt(path)?.problemOf(problem);
  const body = Buffer.from(JSON.stringify(shaped ?? problem));
  return {
    status,
    problem,
    headers: {
      "Content-Type": shaped ? "application/json" : mediaType,
      "Cache-Control": "no-store",
      "Content-Length": body.length,
      ...(status === 426 && {
        Upgrade: "websocket",
        Connection: "Upgrade, close",
        "Sec-WebSocket-Version": 13,
      }),
      ...((status === 429 || status === 503) && { "Retry-After": retrySeconds }),
      ...(size !== undefined && { "Content-Range": `bytes */${size}` }),
      ...(status === 401 && { "WWW-Authenticate": challenge(problem) }),
    },
    body,
  };
}

/** Removes API keys: details quote what was sent, and a key may be sent in the wrong place. */
const withoutKeys = (text: string): string => text.replace(/prs_live_\w+/gi, "prs_live_…");

/** Says how to present a key, and what is wrong with the one that was presented (RFC 6750, 3). */
function challenge({ code, detail }: Problem): string {
  const realm = 'Bearer realm="Protocol Risk Score Service"';
  return code === "INVALID_API_KEY"
    ? `${realm}, error="invalid_token", error_description="${detail}"`
    : realm;
}

/**
 * Translates anything thrown into what the caller is told. An error with a public code stays as it is. Messages that
 * name objects of the store are logged and not shown. Anything unexpected becomes INTERNAL and tells the caller
 * nothing.
 */
export function publicError(thrown: unknown): Fault<ErrorCode> {
  if (thrown instanceof Fault && isPublic(thrown.code)) return thrown;
  if (isFault(thrown, "DAMAGED_LOG"))
    return new Fault("SNAPSHOT_UNAVAILABLE", thrown.message, { cause: thrown.cause });
  const hidden = (code: ErrorCode, detail: string) => new Fault(code, detail, { cause: thrown });
  if (thrown instanceof ObjectError || thrown instanceof StorageError)
    return hidden(
      "SNAPSHOT_UNAVAILABLE",
      "The archive cannot be read right now; try again in a few seconds.",
    );
  if (isFault(thrown, "DEADLINE"))
    return hidden("UPSTREAM_TIMEOUT", "The answer was not ready in time; try again.");
  return hidden("INTERNAL", "Something went wrong on our side; the request id identifies it.");
}
