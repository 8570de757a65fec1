// The client of the Protocol Risk Score Service: one module without dependencies, for browsers and for Node 20 or later.
/**
 * @import { Filters, HistoricalMarket, MarketPage, ProtocolScore, ScoreBatch, ScoreDimensions, ScoreHistory, ScoreList, Status, Usage } from "./client.d.ts"
 */

/**
 * A request that failed. `code` is the service's error code (`QUOTA_EXCEEDED`, `CURSOR_EXPIRED`, …) or one of the client's
 * own: `UNREACHABLE` (no answer came), `TIMEOUT` (none came in time), `BROKEN_ANSWER` (it broke off or cannot be read),
 * `UNEXPECTED_ANSWER` (an error that the service did not write, such as a gateway's), `MISMATCH` (see IntegrityError).
 */
export class ApiError extends Error {
  /** @override */
  name = "ApiError";

  /**
   * @param {string} code
   * @param {string} detail
   * @param {{ title?: string, status?: number, requestId?: string | undefined, parameter?: string | undefined,
   *   resumeCursor?: string | null | undefined, retryAfter?: number | undefined, cause?: unknown }} [about]
   */
  constructor(code, detail, { title = "The request failed", status = 0, cause, ...about } = {}) {
    super(detail, { cause });
    /** What went wrong, in a few fixed words. The message says more. */
    this.title = title;
    /** @type {string} */
    this.code = code;
    /** HTTP status; 0 when no answer came. */
    this.status = status;
    /** Names the request in the service's log. */
    this.requestId = about.requestId;
    /** The query parameter that was refused. */
    this.parameter = about.parameter;
    /** With `CURSOR_EXPIRED`: the cursor of the same place in the current snapshot; null when nothing follows there. */
    this.resumeCursor = about.resumeCursor;
    /** Seconds after which the service wants to be asked again. */
    this.retryAfter = about.retryAfter;
  }
}

/** An answer that contradicts itself, an earlier answer or its proof. Asking again does not help. */
export class IntegrityError extends ApiError {
  /** @override */
  name = "IntegrityError";

  /** @param {string} detail */
  constructor(detail) {
    super("MISMATCH", detail, { title: "The answer cannot be right" });
  }
}

/** @param {string} detail */
const broken = (detail) => new ApiError("BROKEN_ANSWER", detail, { title: "The answer broke off" });

/**
 * What can be said with any call.
 * @typedef {object} CallOptions
 * @property {AbortSignal | undefined} [signal] Ends the call, its waits and its connection.
 */

/**
 * What can be said with calls that read from a snapshot.
 * @typedef {object} ReadOptions
 * @property {AbortSignal | undefined} [signal] Ends the call, its waits and its connection.
 * @property {string | undefined} [asOf] The snapshot to read from: its id, or a time. The current one if left out.
 */

/**
 * How a client is set up.
 * @typedef {object} ClientOptions
 * @property {string | URL} url Address of the service, with or without `/api/v1`.
 * @property {string | undefined} [key] API key. It is sent to this address only, and redirects are refused.
 * @property {typeof globalThis.fetch} [fetch] Sends the requests; for proxies, logging and tests.
 * @property {number} [timeout] Milliseconds within which the head of an answer must come, then its body; of answers in lines,
 *   every next piece. 30,000 if left out.
 * @property {number} [retries] How often a request is repeated that failed for a reason that may pass: a network error, an answer
 *   that broke off, 502, 503, 504, or 429. 6 if left out. Answers in lines may fail so often without a new line.
 * @property {number} [maxWait] The most milliseconds to wait before such a repetition. When `Retry-After` says more, the error is
 *   thrown. 60,000 if left out.
 */

/** @typedef {Filters | { asOf?: string | undefined }} Query */
/** @typedef {<T>(work: () => Promise<T>) => Promise<T>} Step */

const ndjson = "application/x-ndjson";
const passing = new Set([429, 502, 503, 504]);
const ownPassing = new Set(["UNREACHABLE", "TIMEOUT", "BROKEN_ANSWER"]);
/** The most characters or bytes of a line. The service allows 256 KiB of JSON for a record. */
const maxLine = 2 ** 20;

/** A client of the service. It keeps no connection, timer or state between calls. */
export class Client {
  #base;
  #key;
  #fetch;
  #timeout;
  #retries;
  #maxWait;

  /** @param {ClientOptions} options */
  constructor({
    url,
    key,
    fetch = globalThis.fetch.bind(globalThis),
    timeout = 30_000,
    retries = 6,
    maxWait = 60_000,
  }) {
    const base = String(url).replace(/\/+$/, "");
    this.#base = base.endsWith("/api/v1") ? base : `${base}/api/v1`;
    // fetch refuses other characters in a header, and its message would show the key.
    if (key !== undefined && !/^[!-~]+$/.test(key))
      throw new ApiError("INVALID_API_KEY", "A key is prs_live_ followed by 38 letters and digits.", {
        title: "Invalid API key",
      });
    this.#key = key;
    this.#fetch = fetch;
    this.#timeout = timeout;
    this.#retries = retries;
    this.#maxWait = maxWait;
  }

  /**
   * All scored protocols, the highest BRI first.
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreList>}
   */
  scores(options) {
    return this.#read("/scores", options);
  }

  /**
   * The score of one protocol. Throws ApiError `PROTOCOL_NOT_FOUND`.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ProtocolScore>}
   */
  score(slug, options) {
    return this.#read(`/scores/${encodeURIComponent(slug)}`, options);
  }

  /**
   * The scores of up to 50 protocols, in the order asked.
   * @param {readonly string[]} slugs
   * @param {CallOptions} [options]
   * @returns {Promise<ScoreBatch>}
   */
  batch(slugs, options) {
    return this.#json("/scores/batch", { ...options, body: JSON.stringify({ slugs }) });
  }

  /**
   * Seven days of a protocol's scores, oldest first. Needs the Developer plan.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreHistory>}
   */
  history(slug, options) {
    return this.#read(`/scores/${encodeURIComponent(slug)}/history`, options);
  }

  /**
   * A protocol's dimensions with change and percentile. Needs the Developer plan.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreDimensions>}
   */
  dimensions(slug, options) {
    return this.#read(`/scores/${encodeURIComponent(slug)}/dimensions`, options);
  }

  /**
   * Which snapshot is served and how fresh it is. Needs no key and no quota.
   * @param {CallOptions} [options]
   * @returns {Promise<Status>}
   */
  status(options) {
    return this.#json("/status", { ...options });
  }

  /**
   * The plan of the key and what is left of the day's quota.
   * @param {CallOptions} [options]
   * @returns {Promise<Usage>}
   */
  usage(options) {
    return this.#json("/usage", { ...options });
  }

  /**
   * One page of the archive. Needs the Aegis plan, as all of the archive does.
   * @param {Filters} [filters]
   * @param {CallOptions} [options]
   * @returns {Promise<MarketPage>}
   */
  page(filters = {}, options) {
    return this.#page(filters, options).then(({ page }) => page);
  }

  /**
   * Walks through the archive page by page, from `filters.cursor` on if there is one. All pages are of one snapshot. When the store
   * no longer keeps it, ApiError `CURSOR_EXPIRED` is thrown, and its `resumeCursor` leads on in the current snapshot.
   * @param {Filters} [filters]
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<MarketPage, void, void>}
   */
  async *pages(filters = {}, options) {
    let [query, snapshotId, total] = [filters, "", -1];
    for (;;) {
      const { page, snapshot } = await this.#page(query, options);
      if (total >= 0 && (page.total !== total || snapshot !== snapshotId))
        throw new IntegrityError(`The walk began in snapshot ${snapshotId}, and a page is of ${snapshot}.`);
      // Without a bound on pages, a server could lead the walk in a circle for ever.
      if (page.nextCursor !== null && page.count === 0)
        throw new IntegrityError("A page without markets says that others follow.");
      [snapshotId, total] = [snapshot, page.total];
      yield page;
      if (page.nextCursor === null) return;
      query = { cursor: page.nextCursor };
    }
  }

  /**
   * Every market that matches, as one answer in lines: `for await (const { text, market } of client.rows(filters))`. An answer that
   * breaks off is taken up again. `page` and `pageSize` do not apply. To go on in another process, keep `cursor` and `skip` of the
   * result and pass them as filters. Units are counted as rows are sent, one for every 500.
   * @param {Filters} [filters]
   * @param {CallOptions} [options]
   * @returns {Rows}
   */
  rows(filters = {}, options) {
    const { skip = 0, ...query } = filters;
    return new Rows(query, skip, (/** @type {Place} */ place) =>
      this.#lines("/markets/historical", place, options),
    );
  }

  /**
   * @param {Filters} query
   * @param {CallOptions | undefined} options
   */
  #page(query, options) {
    return this.#ask("/markets/historical", { ...options, query }, async (response, step) => {
      /** @type {MarketPage} */
      const page = await jsonOf(response, step);
      if (page.count !== page.markets.length) throw broken("The page has fewer markets than it says.");
      return { page, snapshot: response.headers.get("X-Snapshot-Id") ?? "" };
    });
  }

  /**
   * @param {string} path
   * @param {ReadOptions} [options]
   */
  #read(path, { signal, asOf } = {}) {
    return this.#json(path, { signal, query: { asOf } });
  }

  /**
   * @param {string} path
   * @param {Asked} how
   */
  #json(path, how) {
    return this.#ask(path, how, jsonOf);
  }

  /**
   * Asks until `read` has an answer or a failure is final.
   * @template T
   * @param {string} path
   * @param {Asked} how
   * @param {(response: Response, step: Step) => Promise<T>} read
   * @returns {Promise<T>}
   */
  async #ask(path, how, read) {
    for (let failures = 0; ; failures += 1) {
      try {
        const { response, step } = await this.#open(path, how);
        return await read(response, step);
      } catch (error) {
        await this.#pause(error, failures, how.signal);
      }
    }
  }

  /**
   * The lines of an answer, taken up again wherever it breaks off.
   * @param {string} path
   * @param {Place} place
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<string, void, void>}
   */
  async *#lines(path, place, { signal } = {}) {
    for (let failures = 0; ; failures += 1) {
      const before = place.received;
      /** @type {(() => void) | undefined} */
      let close;
      try {
        const exchange = await this.#open(path, { query: place.query(), accept: ndjson, signal });
        close = exchange.close;
        const count = Number(exchange.response.headers.get("X-Count") ?? Number.NaN);
        if (!Number.isSafeInteger(count))
          throw new IntegrityError("X-Count does not say how many lines come.");
        const end = place.received + count;
        place.opened(exchange.response.headers, end);
        for await (const texts of linesOf(exchange.response, exchange.step)) {
          for (const text of texts) {
            if (place.received === end)
              throw new IntegrityError(`More lines came than X-Count says: ${count}.`);
            place.received += 1;
            yield text;
          }
        }
        if (place.received === end) return;
        throw broken(`${place.received - end + count} of ${count} lines came.`);
      } catch (error) {
        if (place.received > before) failures = 0;
        await this.#pause(error, failures, signal);
      } finally {
        close?.();
      }
    }
  }

  /**
   * Waits before a request is repeated. Throws the error when it is final.
   * @param {unknown} error
   * @param {number} failures
   * @param {AbortSignal | undefined} signal
   */
  async #pause(error, failures, signal) {
    signal?.throwIfAborted();
    if (!(error instanceof ApiError) || failures >= this.#retries) throw error;
    if (!passing.has(error.status) && !ownPassing.has(error.code)) throw error;
    const asked = (error.retryAfter ?? 0) * 1000;
    if (asked > this.#maxWait) throw error;
    // Random, so that clients that failed together do not come back together.
    const wait = asked + Math.random() * Math.min(500 * 2 ** failures, this.#maxWait);
    await new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", end);
        resolve(undefined);
      }, wait);
      signal?.addEventListener("abort", end, { once: true });
    });
  }

  /**
   * Sends one request and waits for the head of its answer. Throws ApiError unless that is a success.
   * @param {string} path
   * @param {Asked} how
   */
  async #open(path, { query = {}, accept = "application/json", body, signal }) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = String(new URLSearchParams(given.map(([name, value]) => [name, String(value)])));
    const stop = new AbortController();
    /** @type {Step} */
    const step = async (work) => {
      const timer = setTimeout(() => stop.abort(), this.#timeout);
      try {
        return await work();
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof ApiError) throw error;
        if (!stop.signal.aborted) throw broken(error instanceof Error ? error.message : String(error));
        const detail = `Nothing came for ${this.#timeout / 1000} s.`;
        throw new ApiError("TIMEOUT", detail, { title: "The service does not answer in time" });
      } finally {
        clearTimeout(timer);
      }
    };
    const response = await step(async () => {
      try {
        return await this.#fetch(`${this.#base}${path}${search && `?${search}`}`, {
          headers: {
            Accept: accept,
            ...(this.#key !== undefined && { Authorization: `Bearer ${this.#key}` }),
            ...(body !== undefined && { "Content-Type": "application/json" }),
          },
          redirect: "error",
          signal: signal ? AbortSignal.any([stop.signal, signal]) : stop.signal,
          ...(body !== undefined && { method: "POST", body }),
        });
      } catch (cause) {
        if (stop.signal.aborted || signal?.aborted) throw cause;
        throw new ApiError("UNREACHABLE", "Check your connection and try again.", {
          title: "The service cannot be reached",
          cause,
        });
      }
    });
    if (!response.ok) throw await step(() => refusalOf(response));
    return { response, step, close: () => stop.abort() };
  }
}

/**
 * A request.
 * @typedef {object} Asked
 * @property {Query} [query]
 * @property {string} [accept]
 * @property {string} [body]
 * @property {AbortSignal | undefined} [signal]
 */

/**
 * Where an answer in lines has come to.
 * @typedef {object} Place
 * @property {number} received Whole lines received behind the cursor, or of all.
 * @property {() => Query} query What to ask for to go on.
 * @property {(headers: Headers, end: number) => void} opened Takes the headers of an answer and the number of all lines.
 */

/** One market of an answer in lines. */
export class Row {
  /** The market's JSON text, byte for byte as in the archive. */
  text;

  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  /** The market, parsed whenever it is read.
   * @returns {HistoricalMarket} */
  get market() {
    return JSON.parse(this.text);
  }
}

/** An answer in lines. It can be iterated over once. */
class Answer {
  /** Snapshot of the answer. "" until the first line has come. */
  snapshotId = "";
  /** Number of lines of the whole answer, also of those skipped. -1 until the first line has come. */
  count = -1;
  /** Whole lines received, also those skipped. */
  skip;

  /** @param {number} skip */
  constructor(skip) {
    this.skip = skip;
  }

  /**
   * @protected
   * @param {Headers} headers
   * @param {number} end
   */
  opened(headers, end) {
    const snapshotId = headers.get("X-Snapshot-Id") ?? "";
    if (this.count >= 0 && (snapshotId !== this.snapshotId || end !== this.count))
      throw new IntegrityError(
        `The answer began with ${this.count} lines of snapshot ${this.snapshotId}, and goes on with ${end} of ${snapshotId}.`,
      );
    [this.snapshotId, this.count] = [snapshotId, end];
  }
}

/**
 * The rows of Client.rows.
 * @implements {AsyncIterable<Row>}
 */
export class Rows extends Answer {
  #query;
  #open;

  /**
   * @param {Filters} query
   * @param {number} skip
   * @param {(place: Place) => AsyncGenerator<string, void, void>} open
   */
  constructor(query, skip, open) {
    super(skip);
    this.#query = query;
    this.#open = open;
    /** Cursor of the place where the answer begins. With `skip` it leads to where the rows received end. */
    this.cursor = query.cursor;
    /** Number of markets that match. -1 until the first line has come. */
    this.total = -1;
  }

  async *[Symbol.asyncIterator]() {
    const rows = this;
    const lines = this.#open({
      get received() {
        return rows.skip;
      },
      set received(count) {
        rows.skip = count;
      },
      query: () => (rows.cursor === undefined ? rows.#query : { cursor: rows.cursor, skip: rows.skip }),
      opened(headers, end) {
        rows.opened(headers, end);
        rows.total = Number(headers.get("X-Total-Count"));
        // The cursor of a later answer begins behind the rows skipped.
        rows.cursor ??= headers.get("X-Cursor") ?? undefined;
      },
    });
    for await (const text of lines) yield new Row(text);
  }
}

/**
 * @param {Response} response
 * @param {Step} step
 * @returns {AsyncGenerator<string[], void, void>} whole lines without their ends; what follows the last end is left out
 */
async function* linesOf({ body }, step) {
  if (!body) return;
  const reader = body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let rest = "";
  for (;;) {
    const piece = await step(async () => {
      const { done, value } = await reader.read();
      return done ? undefined : decoder.decode(value, { stream: true });
    });
    if (piece === undefined) return;
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > maxLine) throw new IntegrityError(`A line is longer than ${maxLine} characters.`);
    yield lines;
  }
}

/**
 * @param {Response} response
 * @param {Step} step
 */
function jsonOf(response, step) {
  return step(async () => {
    const bytes = await response.arrayBuffer();
    const { headers, type } = response;
    // Of a compressed body the length says nothing, and scripts of other origins do not see whether it was compressed.
    const length =
      type === "cors" || headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
    if (bytes.byteLength < length) throw broken(`${bytes.byteLength} of ${length} bytes came.`);
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  });
}

/**
 * The error of an answer that is none of success.
 * @param {Response} response
 */
async function refusalOf(response) {
  const { status, headers } = response;
  const retryAfter = Number(headers.get("Retry-After") ?? Number.NaN);
  const about = {
    status,
    requestId: headers.get("X-Request-Id") ?? undefined,
    retryAfter: retryAfter >= 0 ? retryAfter : undefined,
  };
  if (headers.get("Content-Type")?.startsWith("application/problem+json")) {
    const { code, detail, title, parameter, resumeCursor } = await response.json();
    return new ApiError(code, detail, { ...about, title, parameter, resumeCursor });
  }
  await response.body?.cancel();
  const missing = status === 404 || status === 403;
  return new ApiError(
    "UNEXPECTED_ANSWER",
    missing ? "There is nothing at this address." : "Try again later.",
    {
      ...about,
      title: missing ? "Not found" : `Error ${status}`,
    },
  );
}

const encoder = new TextEncoder();

/**
 * A hash function. In Node, `(bytes) => crypto.hash("sha256", bytes, "buffer")` of `node:crypto` is several times as fast as the
 * default, Web Crypto, which browsers have in secure contexts only.
 * @callback Sha256
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Uint8Array | Promise<Uint8Array>}
 */

/** @type {Sha256} */
const webSha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @param {readonly (Uint8Array | readonly number[])[]} parts */
function bytesOf(...parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** @param {number} value */
function uint64(value) {
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(bytes.buffer);
}

/** @param {Uint8Array} bytes */
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * The head of a tree of the shape of RFC 6962: neighbours are joined level by level, and one without a neighbour moves up.
 * @param {readonly Uint8Array[]} hashes
 * @param {Sha256} sha256
 */
async function headOf(hashes, sha256) {
  let level = hashes;
  while (level.length > 1) {
    const above = [];
    for (let at = 0; at < level.length; at += 2) {
      const [left, right] = level.slice(at, at + 2);
      above.push(left && right ? sha256(bytesOf([1], left, right)) : left);
    }
    level = /** @type {Uint8Array[]} */ (await Promise.all(above));
  }
  return level[0] ?? sha256(bytesOf());
}

/** @type {Uint32Array | undefined} */
let crcTable;

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
  });
  let crc = -1;
  for (const byte of bytes) crc = (crc >>> 8) ^ /** @type {number} */ (crcTable[(crc ^ byte) & 255]);
  return ~crc >>> 0;
}

/** A tree that is being built: page, segment or archive. */
class Level {
  /** @type {(Uint8Array | Promise<Uint8Array>)[]} */
  children = [];
  total = 0;

  /**
   * Its root. It is empty again afterwards.
   * @param {number} kind
   * @param {Sha256} sha256
   */
  async root(kind, sha256) {
    const children = await Promise.all(this.children);
    const head = await headOf(children, sha256);
    const root = await sha256(bytesOf([kind], uint64(this.total), uint64(children.length), head));
    const { total } = this;
    [this.children, this.total] = [[], 0];
    return { root, total };
  }
}

/**
 * The archive's root over its lines, as `archiveRoot` of a snapshot states it (snapshots/SPEC.md, "Roots" and "Cuts"). Trees count
 * from the oldest market, so the lines must come oldest first: the reverse of the archive's order. For a copy in a file, use
 * `linesFromEnd`. Memory does not grow with the number of lines, but for 32 bytes for every segment of some 20,000 markets.
 * @param {AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>} lines JSON texts of markets, without line ends
 * @param {{ sha256?: Sha256 }} [options]
 * @returns {Promise<{ archiveRoot: string, markets: number }>}
 */
export async function archiveRoot(lines, { sha256 = webSha256 } = {}) {
  const [page, segment, archive] = [new Level(), new Level(), new Level()];
  /** @type {(below: Level, kind: number, above: Level) => Promise<void>} */
  const end = async (below, kind, above) => {
    if (below.total === 0) return;
    const { root, total } = await below.root(kind, sha256);
    above.children.push(root);
    above.total += total;
  };
  for await (const line of lines) {
    const text = typeof line === "string" ? encoder.encode(line) : line;
    page.children.push(sha256(bytesOf([0], text)));
    page.total += 1;
    // The id follows {"id":" and has 36 characters.
    const hash = crc32(text.subarray(7, 43));
    const wanted = page.total >= 32 && hash % 96 === 0;
    if (!wanted && page.total < 512) continue;
    await end(page, 2, segment);
    if ((wanted && Math.floor(hash / 96) % 160 === 0) || segment.total > 65_024)
      await end(segment, 3, archive);
  }
  await end(page, 2, segment);
  await end(segment, 3, archive);
  const { root, total } = await archive.root(4, sha256);
  return { archiveRoot: hexOf(root), markets: total };
}

/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a Blob, such as
 * a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 * @param {{ size: number, slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> } }} file
 * @returns {AsyncGenerator<Uint8Array, void, void>}
 */
export async function* linesFromEnd(file) {
  let rest = new Uint8Array();
  for (let end = file.size; end > 0; ) {
    const start = Math.max(0, end - maxLine);
    const bytes = bytesOf(new Uint8Array(await file.slice(start, end).arrayBuffer()), rest);
    let last = bytes.length - 1;
    if (bytes[last] !== 10) throw new IntegrityError("The last line of the file has no end.");
    while (last > 0) {
      const before = bytes.lastIndexOf(10, last - 1);
      if (before < 0) break;
      yield bytes.subarray(before + 1, last);
      last = before;
    }
    rest = bytes.subarray(0, last + 1);
    if (rest.length > maxLine) throw new IntegrityError(`A line is longer than ${maxLine} bytes.`);
    end = start;
  }
  if (rest.length > 0) yield rest.subarray(0, -1);
}
