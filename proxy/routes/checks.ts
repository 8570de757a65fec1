import type { Endpoint } from "../../schemas/endpoints.ts";
import type { KeyRing } from "../../snapshots/keys/ring.ts";
import { readParameters } from "../../snapshots/read/query.ts";
import type { Trust } from "../access/client-address.ts";
import { headerValues } from "../access/credentials.ts";
import { identify, requirePlan } from "../access/identity.ts";
import type { Asked, Exchange, Step } from "../exchange.ts";
import { type Quota, quotaExceeded } from "../quota/quota.ts";
import { isApiPath } from "../reply/headers.ts";
import { ServiceError } from "../reply/service-error.ts";
import { searchOf } from "./target.ts";

/** What requests are checked against. */
export interface CheckParts {
  keys: KeyRing;
  quota: Quota;
  trust: Trust;
}

/** Looks at a request before it is answered, and notes what it finds in the exchange. Throws ServiceError. */
export type Check = (request: Asked, exchange: Exchange) => void | Promise<void>;

/** The checks of an endpoint in their documented order (INTERFACE 5.3), but for the body's and the answer's own. */
export function checksOf(endpoint: Endpoint, parts: CheckParts): Check[] {
  return [authenticate(endpoint, parts), requireAccess(endpoint), takeUnit(endpoint, parts)];
}

/** A check as a step of the app. */
export function stepOf(check: Check): Step {
  return (request, { locals }, next) => {
    const checked = check(request, locals);
    return checked ? checked.then(() => next()) : next();
  };
}

/**
 * Refuses what two readers could take for requests to different hosts (RFC 9112, 3.2), and versions of HTTP that node's
 * parser takes although they are none of HTTP/1.
 */
export const requireOneHost: Check = ({ httpVersion, rawHeaders }) => {
  if (!httpVersion.startsWith("1.")) throw new ServiceError("BAD_REQUEST", "This service speaks HTTP/1.1.");
  const hosts = headerValues(rawHeaders, "host").length;
  if (hosts === 1 || (hosts === 0 && httpVersion === "1.0")) return;
  throw new ServiceError("BAD_REQUEST", "A request must have exactly one Host header.");
};

/** Who asks: by key, or by address. */
function authenticate({ method, credentials }: Endpoint, { keys, trust }: CheckParts): Check {
  if (credentials === "none") return () => {};
  return ({ rawHeaders, socket }, exchange) => {
    const sender = { rawHeaders, peer: socket.remoteAddress, webSocket: method === "WS" };
    exchange.identify = () => identify(sender, keys, trust);
    exchange.caller = exchange.identify();
  };
}

/** Whether the endpoint is launched, and open to the caller's plan. */
function requireAccess(endpoint: Endpoint): Check {
  return (_request, { caller }) => {
    if (endpoint.availability === "announced")
      throw new ServiceError("COMING_SOON", "This address is announced and not available yet.");
    if (caller) requirePlan(caller, endpoint.plan);
  };
}

/** A unit of the caller's day, taken before anything of the request is parsed. */
function takeUnit({ metered }: Endpoint, { quota }: CheckParts): Check {
  if (!metered) return () => {};
  return async (_request, exchange) => {
    exchange.receipt = await quota.take(exchange.caller!, 1);
    if (!exchange.receipt.allowed) throw quotaExceeded(exchange.receipt);
  };
}

/** The query, decoded: every name known to the endpoint, each once and not empty. Pages and files ignore theirs. */
export function parseQuery({ path, query }: Endpoint): Check {
  if (!isApiPath(path)) return () => {};
  return ({ url = "" }, exchange) => {
    exchange.parameters = readParameters(searchOf(url), query);
  };
}
