import { addAbortListener } from "node:events";
import { Agent as HttpAgent, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Readable } from "node:stream";
import { handleWhen, retry } from "cockatiel";
import { createProxyMiddleware } from "http-proxy-middleware";
import { type ErrorCode, Fault, isFault } from "../../schemas/errors.ts";
import type { NamedObject } from "../../schemas/store/stored-objects.ts";
import { Memo } from "../../snapshots/read/budgets.ts";
import { within } from "../../snapshots/store/deadline.ts";
import { hasCode, ObjectError } from "../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { readObject } from "../../snapshots/store/objects.ts";
import { readAll, type Storage } from "../../snapshots/store/storage.ts";
import type { Request, Response } from "../exchange.ts";
import { guardPeer } from "../peers/breaker.ts";
import { type Coding, inEachCoding } from "../reply/reply.ts";

export type PublicObjects = ReturnType<typeof publicObjects>;

/**
 * Verified public objects in a memory cache of at most `cacheBytes`. Simultaneous requests for an object share one
 * fetch.
 */
export function publicObjects(cacheBytes: number) {
  const cache = new Memo<Record<Coding, Buffer>>(
    { most: cacheBytes },
    ({ identity, gzip }) => identity.length + gzip.length,
  );

  /** The object by content coding. `fetch` gets its bytes when they are not in memory. */
  async function get(object: NamedObject, fetch: () => Promise<Buffer>): Promise<Record<Coding, Buffer>> {
    let own = false;
    const make = async () => {
      own = true;
      return inEachCoding(await fetch());
    };
    // When the client whose fetch the others wait for goes away, the next of them fetches for itself.
    const shared = await cache.get(object.hash, make).catch((error) => {
      if (own || !(error instanceof ClientGone)) throw error;
    });
    return shared ?? get(object, fetch);
  }

  return { get, has: ({ hash }: NamedObject) => cache.has(hash), counts: () => cache.counts() };
}

/** The source of public objects: the CDN or, without one, the store. */
export interface Origin {
  /** Resolves with bytes of the hash that the snapshot names. Sends nothing to the client. */
  fetch(request: Request, response: Response, object: NamedObject): Promise<Buffer>;
  close(): void;
}

export function storeOrigin(storage: Storage, { deadlineSeconds = 10 } = {}): Origin {
  // A damaged object, like a wrong answer, says nothing about the others.
  const guarded = guardPeer((error) => !(error instanceof ObjectError));
  return {
    fetch: (_request, _response, object) =>
      guarded(() =>
        within(deadlineSeconds, () => readObject(storage, layout.publicObject(object.hash), object)),
      ).catch((error) => {
        throw translated(error);
      }),
    close() {},
  };
}

/** The client of a forwarded request went away, which says nothing about the origin. */
class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/** The origin sent something other than the object. The message is for the log. */
class OriginFault extends Error {
  override readonly name = "OriginFault";
}

const pool = { keepAlive: true, maxSockets: 64, maxFreeSockets: 16 };

/** The CDN under `base` as the origin. Forwards each request as a GET of the object. */
export function cdnOrigin(base: URL, { deadlineSeconds = 10, proxyEnv = {} } = {}): Origin {
  const agent = new (base.protocol === "https:" ? HttpsAgent : HttpAgent)({ ...pool, proxyEnv });
  const failed = (error: Error, _request: Request, response: unknown) =>
    (response as Response).locals.fetching?.reject(error);
  const proxy = createProxyMiddleware<Request, Response>({
    target: base,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    // An empty body instead of the client's: after a head without a length, the origin would read that as another
    // request.
    get buffer() {
      return Readable.from([]);
    },
    on: {
      proxyReq(outgoing, _request, { locals: { fetching } }) {
        // The deadline may pass before the pool has a socket. Nothing else would end the request then.
        if (fetching) addAbortListener(fetching.abort, () => outgoing.destroy(fetching.abort.reason));
        outgoing.once("upgrade", (_answer, socket) => {
          socket.destroy();
          fetching?.reject(new OriginFault("the origin answered 101"));
        });
      },
      proxyRes(answer, _request, { locals: { fetching } }) {
        if (fetching) bodyOf(answer, fetching.object).then(fetching.resolve, fetching.reject);
      },
      error: failed,
      // Called in place of `error` when the client's socket is closed, too.
      econnreset: failed,
    },
  });

  /** Resolves with the bytes of one answer. `abort` ends the wait for it. */
  function attempt(request: Request, response: Response, object: NamedObject, abort: AbortSignal) {
    const fetching = { ...Promise.withResolvers<Buffer>(), object, abort };
    response.locals.fetching = fetching;
    void proxy(request, response, fetching.reject);
    return fetching.promise;
  }

  // The origin may close an idle connection just as it is reused, or break off a body.
  const resets = handleWhen((error) => hasCode(error, "ECONNRESET"));
  const retrying = retry(resets, { maxAttempts: 2 });
  // A wrong answer concerns one object, and a client that went away only itself. Every other error means that the
  // origin is away.
  const guarded = guardPeer((error) => !(error instanceof OriginFault || error instanceof ClientGone));

  return {
    async fetch(request, response, object) {
      const departure = new AbortController();
      const leave = () => departure.abort(new ClientGone("the client went away"));
      response.once("close", leave);
      // Each of up to three attempts leaves a few listeners until the response closes.
      response.setMaxListeners(32);
      const { method, url, headers } = request;
      // Nothing that the client sent is forwarded.
      Object.assign(request, { method: "GET", url: `/${layout.publicObject(object.hash)}` });
      request.headers = { "accept-encoding": "identity" };
      try {
        const attempts = (abort: AbortSignal) =>
          retrying.execute(() => attempt(request, response, object, abort), abort);
        return await guarded(() => within(deadlineSeconds, attempts, departure.signal));
      } catch (error) {
        throw error instanceof ClientGone ? error : translated(error);
      } finally {
        response.off("close", leave);
        Object.assign(request, { method, url, headers });
      }
    },
    close: () => agent.destroy(),
  };
}

function translated(cause: unknown): Fault<ErrorCode> {
  const late = "The origin did not answer in time; try again.";
  if (isFault(cause, "DEADLINE")) return new Fault("UPSTREAM_TIMEOUT", late, { cause });
  return new Fault("UPSTREAM_ERROR", "The origin did not deliver the data; try again.", { cause });
}

/** The body of an answer, which must be exactly the object. Buffers no more than an object may have. */
async function bodyOf(answer: IncomingMessage, { hash }: NamedObject): Promise<Buffer> {
  // http-proxy-middleware destroys the client's connection when the answer breaks off, so no 502 could be sent. It adds
  // the listeners that do so right after this event.
  await new Promise<void>((resolve) => process.nextTick(resolve));
  answer.removeAllListeners("close").removeAllListeners("error");
  if (answer.statusCode !== 200) {
    answer.on("error", () => {}).destroy();
    throw new OriginFault(`the origin answered ${answer.statusCode}`);
  }
  const body = await readAll(answer, layout.publicObject.maxBytes, () => {
    throw new OriginFault("the body is longer than an object may be");
  });
  if (sha256(body) === hash) return body;
  throw new OriginFault(`the body of ${layout.publicObject(hash)} is not the published one`);
}
