import { Agent as HttpAgent, IncomingMessage, ServerResponse } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Socket } from "node:net";
import { handleWhen, retry } from "cockatiel";
import { createProxyMiddleware } from "http-proxy-middleware";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { DeadlineError, within } from "../../snapshots/store/deadline.ts";
import { hasCode } from "../../snapshots/store/error-code.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { ObjectError } from "../../snapshots/store/object-error.ts";
import { readObject } from "../../snapshots/store/objects.ts";
import { sha256 } from "../../snapshots/store/sha256.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { ServiceError } from "../errors/service-error.ts";
import { guardPeer } from "./breaker.ts";

/** Where public objects come from: the CDN or, without one, the store. */
export interface Origin {
  /**
   * The bytes of an object, which have the length and hash that the manifest names. Throws ServiceError UPSTREAM_ERROR or
   * UPSTREAM_TIMEOUT.
   */
  fetch(object: ObjectRef): Promise<Buffer>;
  close(): void;
}

/** The store as the origin. */
export function storeOrigin(storage: Storage, { deadlineSeconds = 10 } = {}): Origin {
  // A damaged object says nothing of the others, as a wrong answer does not.
  const guarded = guardPeer((error) => !(error instanceof ObjectError));
  return {
    fetch: (object) =>
      guarded(() =>
        within(deadlineSeconds, () => readObject(storage, layout.publicObject(object.hash), object)),
      ).catch(translate),
    close() {},
  };
}

/** The origin sent something other than the object. The message is for the log. */
class OriginFault extends Error {
  override readonly name = "OriginFault";
}

const retries = 2;
const pool = { keepAlive: true, maxSockets: 64, maxFreeSockets: 16 };

/**
 * What http-proxy-middleware is given to forward and to answer: a request of our own without a body, and a response without
 * a connection. Nothing that a client sent can reach the origin, a fetch outlives the client that began it, and whatever the
 * origin does, the client's connection stays and can be sent a problem or an older copy.
 */
class Delivery extends ServerResponse {
  readonly object: ObjectRef;
  readonly body = Promise.withResolvers<Buffer>();

  constructor(object: ObjectRef) {
    const request = new IncomingMessage(new Socket());
    const headers = { "accept-encoding": "identity" };
    Object.assign(request, { method: "GET", url: `/${layout.publicObject(object.hash)}`, headers });
    request.push(null);
    super(request);
    this.object = object;
  }
}

/** The CDN under `base` as the origin. */
export function cdnOrigin(base: URL, { deadlineSeconds = 10 } = {}): Origin {
  const agent = base.protocol === "https:" ? new HttpsAgent(pool) : new HttpAgent(pool);
  const failed = (error: Error, _request: IncomingMessage, delivery: unknown) =>
    (delivery as Delivery).body.reject(error);
  const proxy = createProxyMiddleware<IncomingMessage, Delivery>({
    target: base,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    on: {
      proxyReq(asked, _request, { body }) {
        asked.once("upgrade", (_answer, socket) => {
          socket.destroy();
          body.reject(new OriginFault("the origin answered 101"));
        });
      },
      proxyRes: (answer, _request, { object, body }) =>
        bodyOf(answer, object).then(body.resolve, body.reject),
      error: failed,
      // In place of `error`, because the request has no connection either.
      econnreset: failed,
    },
  });

  async function attempt(object: ObjectRef, late: AbortSignal): Promise<Buffer> {
    const delivery = new Delivery(object);
    // As if a client went away: it ends the request to the origin, also one that waits for a socket of the pool.
    late.addEventListener("abort", () => delivery.emit("close"));
    void proxy(delivery.req, delivery, delivery.body.reject);
    return delivery.body.promise;
  }

  // The origin may close an idle connection just as it is reused, or break off a body.
  const resets = handleWhen((error) => hasCode(error, "ECONNRESET"));
  const retrying = retry(resets, { maxAttempts: retries });
  // A wrong answer concerns one object. Everything else means that the origin is away.
  const guarded = guardPeer((error) => !(error instanceof OriginFault));

  const closed = new AbortController();

  return {
    fetch(object) {
      const attempts = (late: AbortSignal) => retrying.execute(() => attempt(object, late), late);
      return guarded(() => within(deadlineSeconds, attempts, closed.signal)).catch(translate);
    },
    close() {
      closed.abort(new Error("the proxy ended"));
      agent.destroy();
    },
  };
}

function translate(cause: unknown): never {
  const [code, detail] =
    cause instanceof DeadlineError
      ? (["UPSTREAM_TIMEOUT", "The origin did not answer in time; try again."] as const)
      : (["UPSTREAM_ERROR", "The origin did not deliver the data; try again."] as const);
  throw new ServiceError(code, detail, {}, { cause });
}

/** The body of an answer, which must be exactly the object. Buffers no more than its length. Throws OriginFault. */
async function bodyOf(answer: IncomingMessage, { hash, bytes }: ObjectRef): Promise<Buffer> {
  if (answer.statusCode !== 200) {
    answer.destroy();
    throw new OriginFault(`the origin answered ${answer.statusCode}`);
  }
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > bytes) throw new OriginFault(`the body is longer than the ${bytes} bytes published`);
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks, length);
  if (length === bytes && sha256(body) === hash) return body;
  throw new OriginFault(`the body of ${layout.publicObject(hash)} is not the published one`);
}
