import { Agent as HttpAgent, IncomingMessage, ServerResponse } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Socket } from "node:net";
import { createProxyMiddleware } from "http-proxy-middleware";
import { ServiceError } from "../../schemas/errors.ts";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { sha256 } from "../../snapshots/store/sealed.ts";
import { guardPeer } from "./breaker.ts";

/** Where public objects are fetched from. */
export interface Origin {
  /**
   * The bytes of a public object, exactly those the manifest names.
   * Throws ServiceError UPSTREAM_ERROR or UPSTREAM_TIMEOUT.
   */
  fetch(object: ObjectRef): Promise<Buffer>;
  close(): void;
}

/** The origin broke its word; `message` is for the log. */
class OriginFault extends Error {
  override readonly name = "OriginFault";
}

/** Public objects under `base`, the CDN or the process's own loopback server. */
export function createOrigin(base: URL, { deadlineSeconds = 10 } = {}): Origin {
  const agent = base.protocol === "https:" ? new HttpsAgent(pool) : new HttpAgent(pool);

  /**
   * One exchange through http-proxy-middleware. The request handed to it is made here and holds nothing a
   * client sent: no header, no body, no path; nor does it end when a client goes away, since others may wait
   * for the same bytes.
   */
  function exchange({ hash, bytes }: ObjectRef, deadline: AbortSignal): Promise<Buffer> {
    const connection = new Socket();
    // An answer cut off in its middle destroys this stand-in with an error, which nobody else would take.
    connection.on("error", () => {});
    const request = new IncomingMessage(connection);
    request.method = "GET";
    request.url = `/${layout.publicObject(hash)}`;
    request.headers = { "accept-encoding": "identity" };
    request.push(null);
    // Else its end, with no body read off a wire, would count as an abort.
    request.complete = true;
    const response = new ServerResponse(request);
    response.assignSocket(connection);
    const over = new AbortController();
    return new Promise<Buffer>((resolve, reject) => {
      const forward = createProxyMiddleware({
        target: base,
        agent,
        changeOrigin: true,
        selfHandleResponse: true,
        on: {
          proxyReq: (asked) =>
            asked.once("upgrade", (_answer, socket) => {
              socket.destroy();
              reject(new OriginFault("the origin answered 101"));
            }),
          proxyRes: (answer) => collect(answer, bytes).then(resolve, reject),
          error: reject,
        },
      });
      // Taken away in the end: until then the deadline keeps all of the exchange in memory.
      const late = { once: true, signal: over.signal };
      deadline.addEventListener("abort", () => reject(deadline.reason), late);
      forward(request, response, reject).catch(reject);
    }).finally(() => {
      over.abort();
      connection.destroy();
    });
  }

  async function attempt(object: ObjectRef): Promise<Buffer> {
    const deadline = AbortSignal.timeout(deadlineSeconds * 1000);
    for (let tries = 1; ; tries += 1) {
      try {
        return await exchange(object, deadline);
      } catch (error) {
        // The origin may close a kept connection at the moment it is used again, or break off a body.
        if (!isReset(error) || tries === originTries || deadline.aborted) throw error;
      }
    }
  }

  // An answer that is wrong speaks of one object; none at all of the origin.
  const guarded = guardPeer((error) => !(error instanceof OriginFault));

  return {
    async fetch(object) {
      try {
        const body = await guarded(() => attempt(object));
        if (body.length !== object.bytes || sha256(body) !== object.hash) {
          throw new OriginFault(`the body of ${layout.publicObject(object.hash)} is not the published one`);
        }
        return body;
      } catch (error) {
        throw translated(error);
      }
    },
    close: () => agent.destroy(),
  };
}

const originTries = 3;
const pool = { keepAlive: true, maxSockets: 64, maxFreeSockets: 16 };

function isReset(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ECONNRESET";
}

function translated(error: unknown): ServiceError {
  const late = error instanceof Error && error.name === "TimeoutError";
  return late
    ? new ServiceError(
        "UPSTREAM_TIMEOUT",
        "The origin did not answer in time; try again.",
        {},
        { cause: error },
      )
    : new ServiceError(
        "UPSTREAM_ERROR",
        "The origin did not deliver the data; try again.",
        {},
        { cause: error },
      );
}

/** The body of an answer of status 200; never more than the length it is to have. */
async function collect(answer: IncomingMessage, bytes: number): Promise<Buffer> {
  if (answer.statusCode !== 200) throw new OriginFault(`the origin answered ${answer.statusCode}`);
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > bytes) throw new OriginFault(`the body is longer than the ${bytes} bytes published`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}
