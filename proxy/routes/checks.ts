import type { IncomingMessage } from "node:http";
import { addressOf, apiRootOf } from "../../schemas/addresses.ts";
import type { Endpoint, RequestBody } from "../../schemas/endpoints.ts";
import { historyDays, maxBatchSlugs } from "../../schemas/envelopes.ts";
import { type ErrorCode, Fault } from "../../schemas/errors.ts";
import { asOfParameter } from "../../schemas/query.ts";
import { parseAsOf, planSince, publishedAt } from "../../snapshots/read/answer.ts";
import { readParameters } from "../../snapshots/read/parameters.ts";
import { headerValues, type Identity, requirePlan, senderOf } from "../access/identity.ts";
import type { Limits } from "../config.ts";
import { isBroken } from "../connection/connections.ts";
import { requireAddress } from "../delta-sharing/answers.ts";
import type { Check } from "../exchange.ts";
import { quotaExceeded } from "../quota/quota.ts";
import type { AppServices } from "../services.ts";

/** Refuses a path that is not, byte for byte, an address of the endpoint table. */
export function noSuchAddress(path: string): Fault<ErrorCode> {
  const near = addressOf(path.endsWith("/") ? path.slice(0, -1) : `${path}/`);
  const hint = near ? " One differs from this in a slash at its end only." : "";
  return new Fault("NOT_FOUND", `There is no such address; paths are matched byte for byte.${hint}`);
}

/**
 * The checks of an endpoint in the documented order (INTERFACE 5.3). Target (404) and method (405) were matched before.
 * What needs the data comes after: slug (404), cursor (400, 410), snapshot (503), then 304 and 200.
 */
export function checksOf(endpoint: Endpoint, services: AppServices): Check[] {
  const { credentials, metered, body, path } = endpoint;
  return [
    ...(credentials === "checked" ? [authenticate(endpoint, services)] : []), // 400, 401
    ...(credentials === "address" ? [requireAddress(services)] : []), // 401, 403
    ...(apiRootOf(path) ? [readQuery(endpoint)] : []), // pages and files ignore their query
    requireLaunched(endpoint), // 501
    ...(credentials === "none" ? [] : [requirePlanOf(endpoint, services)]), // 401, 403
    ...(metered ? [takeUnit(services)] : []), // 429
    ...(endpoint.query.includes(asOfParameter) ? [requirePlanOfSnapshot(services)] : []), // 403
    ...(body ? [readBody(body, services.limits)] : []), // 415, 413, 400
    requireQuery, // 400
  ];
}

/**
 * Refuses requests that two readers could take for requests to different hosts (RFC 9112, 3.2), and versions that
 * Node's parser accepts although they are not HTTP/1.
 */
export const requireOneHost: Check = ({ httpVersion, rawHeaders }) => {
  if (!httpVersion.startsWith("1.")) throw new Fault("BAD_REQUEST", "This service speaks HTTP/1.1.");
  const hosts = headerValues(rawHeaders, "host").length;
  if (hosts === 1 || (hosts === 0 && httpVersion === "1.0")) return;
  throw new Fault("BAD_REQUEST", "A request must have exactly one Host header.");
};

function authenticate({ method }: Endpoint, { keys, trustProxy = { hops: 0 } }: AppServices): Check {
  return (request, exchange) => {
    exchange.identify = senderOf(request, { keys, trust: trustProxy, webSocket: method === "WS" });
    exchange.caller = exchange.identify();
  };
}

function requireLaunched(endpoint: Endpoint): Check {
  return () => {
    if (endpoint.availability === "announced")
      throw new Fault("COMING_SOON", "This address is announced and not available yet.");
  };
}

type PlanServices = Pick<AppServices, "contact" | "now">;

function requirePlanOf(endpoint: Endpoint, services: PlanServices): Check {
  const { contact } = services;
  return (_request, { caller, asOf, queryFault, search }) => {
    requirePlan(caller!, endpoint.plan, { contact });
    // A plan is asked for before a query is refused, so also where the fault hides what asOf would mean.
    const faulty = queryFault !== undefined && endpoint.query.includes(asOfParameter);
    if (asOf || (faulty && search.split("&").some((pair) => pair.startsWith(`${asOfParameter.name}=`))))
      requirePlan(caller!, "developer", { what: asOfParameter.name, contact });
    if (asOf && "time" in asOf) requireSince(services, caller!, asOf.time);
  };
}

/**
 * Looks up when the snapshot of `asOf` was published. This comes after the unit is taken, so that a caller whose day is
 * used up cannot make the service search its log.
 */
function requirePlanOfSnapshot(services: PlanServices & Pick<AppServices, "catalog">): Check {
  return (_request, { caller, asOf }) => {
    if (caller!.plan === "aegis" || !asOf || !("snapshotId" in asOf)) return undefined;
    const published = publishedAt(services.catalog, asOf.snapshotId);
    return published.then((time) => requireSince(services, caller!, time));
  };
}

/** Looking back takes a key, and looking further back than a history takes Aegis (INTERFACE 5.2). */
function requireSince({ now, contact }: PlanServices, caller: Identity, time: number | undefined): void {
  const what = `${asOfParameter.name} of more than ${historyDays} days ago`;
  requirePlan(caller, planSince(time, now()), { what, contact });
}

/** Takes a unit of the caller's day before the request is answered, or refused as malformed. */
function takeUnit({ quota }: Pick<AppServices, "quota">): Check {
  return async (_request, exchange) => {
    exchange.receipt = await quota.take(exchange.caller!, 1);
    if (!exchange.receipt.allowed) throw quotaExceeded(exchange.receipt);
  };
}

/** Reads the query once. Its faults are reported after the unit is taken, but access depends on its `asOf`. */
function readQuery({ query }: Endpoint): Check {
  const names = query.map(({ name }) => name);
  return (_request, exchange) => {
    try {
      const parameters = readParameters(exchange.search, names);
      exchange.asOf = parseAsOf(parameters);
      exchange.parameters = parameters;
    } catch (error) {
      exchange.queryFault = error;
    }
  };
}

/** The endpoint knows every name in the query; each is given once and not empty. */
const requireQuery: Check = (_request, { queryFault }) => {
  if (queryFault !== undefined) throw queryFault;
};

// A refused body is read up to here, because a client that is still writing would not see the answer. Of one that was
// not paid for, no more is read than a socket gives at a time.
const readBeforeRefusal = { paid: 1024 * 1024, unpaid: 64 * 1024 };

/** Reads the JSON body of a request into the exchange. */
export function readBody({ schema, maxBytes }: RequestBody, { requestSeconds }: Limits): Check {
  return async (request, exchange, response) => {
    const fault = faultOfHead(request, maxBytes);
    if (request.httpVersion === "1.1" && /^100-continue$/i.test(request.headers.expect ?? "")) {
      if (fault) throw fault;
      response?.writeContinue();
    }
    const most = readBeforeRefusal[exchange.receipt ? "paid" : "unpaid"];
    const bytes = await received(request, { maxBytes, most, seconds: requestSeconds });
    if (fault) throw fault;
    if (bytes.length > maxBytes) throw tooLarge(maxBytes);
    exchange.bodyBytes = bytes.length;
    exchange.body = parse(bytes, schema);
  };
}

function faultOfHead(request: IncomingMessage, maxBytes: number): Fault<ErrorCode> | undefined {
  const detail = "The body must be sent as Content-Type: application/json.";
  if (!isJson(request)) return new Fault("UNSUPPORTED_MEDIA_TYPE", detail);
  return Number(request.headers["content-length"] ?? 0) > maxBytes ? tooLarge(maxBytes) : undefined;
}

const tooLarge = (max: number) => new Fault("BODY_TOO_LARGE", `The body may have at most ${max} bytes.`);

function isJson({ rawHeaders }: IncomingMessage): boolean {
  const [type, ...others] = headerValues(rawHeaders, "content-type");
  const plain = headerValues(rawHeaders, "content-encoding").every((coding) => /^identity$/i.test(coding));
  const json = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i;
  return plain && others.length === 0 && json.test(type ?? "");
}

/** The bytes of the body, or enough of them to see that it is too large. */
function received(
  request: IncomingMessage,
  { maxBytes, most, seconds }: { maxBytes: number; most: number; seconds: number },
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let length = 0;
  const settle = () => resolve(Buffer.concat(chunks));
  const late = new Fault("REQUEST_TIMEOUT", "The body did not arrive in time.");
  const timer = setTimeout(() => reject(late), seconds * 1000);
  request.on("data", (chunk: Buffer) => {
    if (length <= maxBytes) chunks.push(chunk);
    length += chunk.length;
    if (length > most) settle();
  });
  request.on("end", settle);
  const broken = () => reject(new Fault("BAD_REQUEST", "The body ended early, or is not well-formed."));
  request.on("aborted", broken).on("error", broken);
  if (isBroken(request)) broken();
  return promise.finally(() => clearTimeout(timer));
}

function parse(bytes: Buffer, schema: RequestBody["schema"]): unknown {
  const parsed = schema.safeParse(jsonOf(bytes));
  if (parsed.success) return parsed.data;
  const most = `A batch may have at most ${maxBatchSlugs} slugs; send several.`;
  if (parsed.error.issues.some((issue) => issue.code === "too_big" && issue.origin === "array"))
    throw new Fault("BATCH_TOO_LARGE", most);
  throw new Fault("INVALID_BODY", `The body must be ${schema.description}.`);
}

/** Undefined unless the bytes are JSON in UTF-8. */
function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
