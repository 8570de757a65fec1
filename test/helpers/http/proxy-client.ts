import { once } from "node:events";
import { type Agent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { Problem } from "../../../schemas/envelopes.ts";

/** One answer as it came over the wire. */
export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  /** The body as it was sent. */
  body: Buffer;
  /** The body as text, decoded from its coding. */
  text: string;
  json: () => ReturnType<typeof JSON.parse>;
}

/** How a request differs from a plain GET. */
export interface Call {
  method?: string;
  /** An array holds names and values in turn, so that a name can be sent twice. */
  headers?: Record<string, string> | readonly string[];
  /** Sent with its length, unless the headers say that it comes in chunks. */
  body?: string | Buffer;
  /** Keeps connections open; left out, the request has a connection of its own. */
  agent?: Agent;
}

/** Sends one request. */
export async function call(
  port: number,
  path: string,
  { method = "GET", headers = {}, body: sent, agent }: Call = {},
): Promise<Answer> {
  const list = Array.isArray(headers) ? headers : Object.entries(headers).flat();
  const sized = sent !== undefined && !list.includes("transfer-encoding");
  const request = httpRequest({
    port,
    host: "127.0.0.1",
    path,
    method,
    agent: agent ?? false,
    headers: [
      "Host",
      "proxy.test",
      ...list,
      ...(sized ? ["Content-Length", String(Buffer.byteLength(sent))] : []),
    ],
  });
  request.end(sent);
  const [response] = await once(request, "response");
  // A server that answers before it has the whole body may not accept the rest.
  request.on("error", () => {});
  const body = await buffer(response);
  const gzipped = response.headers["content-encoding"] === "gzip" && body.length > 0;
  const text = (gzipped ? gunzipSync(body) : body).toString("utf8");
  return { status: response.statusCode, headers: response.headers, body, text, json: () => JSON.parse(text) };
}

/** Headers that present a key. */
export const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** The problem in an answer, checked to have the documented shape in every respect. */
export function problemOf(answer: Answer): Problem {
  const problem = Problem.parse(answer.json());
  const agree =
    answer.headers["content-type"] === "application/problem+json" &&
    answer.headers["cache-control"] === "no-store" &&
    answer.headers["x-request-id"] === problem.requestId &&
    problem.type === `urn:prs:error:${problem.code}` &&
    problem.status === answer.status;
  if (!agree) throw new Error(`not the one error shape: ${JSON.stringify([answer.headers, problem])}`);
  return problem;
}

/** `200`, or `404 NOT_FOUND`. */
export function outcome(answer: Answer): string {
  return answer.status < 400 || answer.body.length === 0
    ? String(answer.status)
    : `${answer.status} ${problemOf(answer).code}`;
}

/** Units that an answer says are left today. */
export const remaining = ({ headers }: Pick<Answer, "headers">) => Number(headers["x-ratelimit-remaining"]);

/** A connection on which bytes were sent. */
export interface RawConnection {
  socket: Socket;
  /** All that came back so far, a character a byte. */
  received: string;
  /** The same once it is closed. */
  closed: Promise<string>;
}

/** Sends exact bytes on a connection of its own, which stays open. */
export function open(port: number, bytes: string, how: { allowHalfOpen?: boolean } = {}): RawConnection {
  const socket = connect({ port, host: "127.0.0.1", ...how });
  const closed = new Promise<string>((resolve) => socket.on("close", () => resolve(opened.received)));
  const opened = { socket, received: "", closed };
  socket.on("data", (chunk) => (opened.received += chunk.toString("latin1")));
  socket.on("error", () => socket.destroy());
  socket.write(Buffer.from(bytes, "latin1"));
  return opened;
}

/** Sends exact bytes on a connection of its own, and returns all that comes back until the other side closes. */
export const raw = (port: number, bytes: string): Promise<string> => open(port, bytes).closed;

/**
 * How often a wait may look, with 10 ms between two looks: for less than a test's timeout, which would not say what was
 * waited for. Time in which the machine stands still counts as one look.
 */
const patience = 17_000;

/** What happens at once and then ten times a second while a test waits: test proxies look at their stores. */
export const whileWaiting = new Set<() => void>();

/** Waits until something holds. Throws an error that names `what` was waited for when it takes too long. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (let looks = 1; !(await holds()); looks += 1) {
    if (looks === patience) throw new Error(`looked ${patience} times for ${what}`);
    if (looks % 10 === 1) for (const each of whileWaiting) each();
    await pause(10);
  }
}
