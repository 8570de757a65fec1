import type { IncomingMessage } from "node:http";
import type { RequestBody } from "../../schemas/endpoints.ts";
import { maxBatchSlugs } from "../../schemas/envelopes.ts";
import { type ErrorCode, Fault } from "../../schemas/errors.ts";
import { headerValues } from "../access/identity.ts";
import type { Limits } from "../config.ts";
import { isBroken } from "../connection/connections.ts";
import type { Check } from "../exchange.ts";

// A refused body is read up to here, because a client that is still writing would not see the answer.
const readBeforeRefusal = 1024 * 1024;

/** Reads the JSON body of a request into the exchange, or throws the fault of the body. */
export function readBody({ schema, maxBytes }: RequestBody, { requestSeconds }: Limits): Check {
  return async (request, exchange, response) => {
    const fault = faultOfHead(request, maxBytes);
    if (waitsForContinue(request)) {
      if (fault) throw fault;
      response?.writeContinue();
    }
    const bytes = await received(request, maxBytes, requestSeconds);
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

const waitsForContinue = ({ httpVersion, headers }: IncomingMessage) =>
  httpVersion === "1.1" && /^100-continue$/i.test(headers.expect ?? "");

function isJson({ rawHeaders }: IncomingMessage): boolean {
  const [type, ...others] = headerValues(rawHeaders, "content-type");
  const plain = headerValues(rawHeaders, "content-encoding").every((coding) => /^identity$/i.test(coding));
  const json = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i;
  return plain && others.length === 0 && json.test(type ?? "");
}

/** The bytes of the body, or enough of them to see that it is too large. */
function received(request: IncomingMessage, maxBytes: number, seconds: number): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let length = 0;
  const settle = () => resolve(Buffer.concat(chunks));
  const late = new Fault("REQUEST_TIMEOUT", "The body did not arrive in time.");
  const timer = setTimeout(() => reject(late), seconds * 1000);
  request.on("data", (chunk: Buffer) => {
    if (length <= maxBytes) chunks.push(chunk);
    length += chunk.length;
    if (length > readBeforeRefusal) settle();
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
