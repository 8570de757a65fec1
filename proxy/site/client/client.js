// The client of the Protocol Risk Score Service: one module without dependencies, for browsers and for Node 20 or
// later. What recomputes answers is in a second one beside it, recompute.mjs, which is loaded when it is first needed.
/**
 * @import { Prover } from "./recompute.mjs"
 * @import { ExportList, Filters, HistoricalMarket, MarketFacets, MarketPage, MarketProof, Problem, ProtocolScore, ScoreBatch, ScoreDimensions, ScoreHistory, ScoreList, ScoreProof, SnapshotList, Status, Tiers, Usage } from "./client.d.ts"
 */

/**
 * A request that failed. `code` is the service's error code (`QUOTA_EXCEEDED`, `CURSOR_EXPIRED`, …) or one of the
 * client's own: `UNREACHABLE` (no answer came), `TIMEOUT` (none came in time), `BROKEN_ANSWER` (it broke off or cannot
 * be read), `UNEXPECTED_ANSWER` (an error that the service did not write, such as a gateway's), `MISMATCH` (see
 * IntegrityError), `FORKED_LOG` (see ForkedLogError), `INVALID_URL` (the client was given no address of a service).
 */
export class ApiError extends Error {
  /** @override */
  name = "ApiError";
  /** What went wrong, in a few fixed words. The message says more. */
  title = "The request failed";
  /** HTTP status; 0 when no answer came. */
  status = 0;
  /**
   * Names the request in the service's log.
   * @type {string | undefined}
   */
  requestId;
  /**
   * The query parameter that was refused.
   * @type {string | undefined}
   */
  parameter;
  /**
   * With `CURSOR_EXPIRED`: the cursor of the same place in the current snapshot; null when nothing follows there.
   * @type {string | null | undefined}
   */
  resumeCursor;
  /**
   * With `SNAPSHOT_EXPIRED`: the snapshots before and after that can still be read.
   * @type {Problem["nearest"]}
   */
  nearest;
  /**
   * Seconds after which the service wants to be asked again.
   * @type {number | undefined}
   */
  retryAfter;

  /**
   * @param {string} code
   * @param {string} detail
   * @param {{ title?: string, status?: number, requestId?: string | undefined, parameter?: string | undefined,
   *   resumeCursor?: string | null | undefined, retryAfter?: number | undefined, nearest?: Problem["nearest"], cause?: unknown }} [about]
   */
  constructor(code, detail, { cause, ...about } = {}) {
    super(detail, { cause });
    this.code = code;
    Object.assign(this, about);
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

/**
 * What is served does not follow from what you trust, or does not belong to it: at least one byte of it is wrong.
 * `what` names the part: `checkpoint`, `entry`, `inclusion` (that the log has the entry), `index root`, `archive root`,
 * `header` (of a segment's index), `section`, `words`, `page` (the leaf hashes of its markets), `page roots`, `total`,
 * `row`, `rows`, `absence` or `answer`. The message says which one.
 */
export class VerificationError extends IntegrityError {
  /** @override */
  name = "VerificationError";

  /**
   * @param {string} what
   * @param {string} detail
   */
  constructor(what, detail) {
    super(detail);
    this.what = what;
  }
}

/**
 * The publisher signed two logs of which neither is the beginning of the other, or what is served is older than what
 * was seen before. Keep both checkpoints: together they show it to everybody.
 */
export class ForkedLogError extends IntegrityError {
  /** @override */
  name = "ForkedLogError";
  /** @override */
  code = "FORKED_LOG";
  /** The one seen before, and the one that came now.
   * @type {readonly [string, string]} */
  checkpoints;

  /**
   * @param {string} before
   * @param {string} after
   */
  constructor(before, after) {
    const [old, now] = [before, after]
      .map(checkpointIn)
      .map(({ size, root }) => `${size} commits with root ${root}`);
    super(`The log does not go on from what was seen of it: ${old}, before; ${now}, now.`);
    this.checkpoints = [before, after];
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
 * @property {number} [timeout] Milliseconds within which the head of an answer must come, then its body; of answers in
 * lines,
 *   every next piece. 30,000 if left out.
 * @property {number} [retries] How often a request is repeated that failed for a reason that may pass: a network error,
 * an answer
 *   that broke off, 502, 503, 504, or 429. 6 if left out. Answers in lines may fail so often without a new line.
 * @property {number} [maxWait] The most milliseconds to wait before such a repetition. When `Retry-After` says more,
 * the error is
 *   thrown. 60,000 if left out.
 * @property {number} [maxBytes] The most bytes of an answer, other than one in lines. 2^28 if left out.
 * @property {number} [keepBytes] The most bytes of the archive's index that are kept for later recomputations, checked.
 *   2^26 if left out. Browsers keep as many more in their Cache API, where they have it.
 */

/**
 * What you trust when you recompute: the publisher's `key`, or a policy with witnesses (c2sp.org/tlog-policy) in its
 * place, as for verifyProof; or, without keys, `entry`: the SHA-256 of the text of the log's entry, in hexadecimal. A
 * `snapshotId` alone shows that markets belong to the snapshot, but not that none is left out. Without all of them an
 * answer is only shown to agree with itself. `since` is a checkpoint that you have, such as `vouched.checkpoint.text` of
 * an earlier call: the log must go on from it, or the call throws ForkedLogError.
 *
 * Unless you say which snapshot you mean, by `entry`, `snapshotId`, `asOf` or a cursor, the entry must be the last one of
 * the checkpoint's log, which no rollback has withdrawn.
 * @typedef {object} Trust
 * @property {string | readonly string[] | undefined} [key]
 * @property {string | undefined} [entry]
 * @property {string | undefined} [snapshotId]
 * @property {string | undefined} [since]
 */

/**
 * What was checked, and against what.
 * @typedef {object} Vouched
 * @property {("key" | "policy" | "entry" | "snapshotId" | "since")[]} by What of yours it was checked against.
 * @property {string} entry SHA-256 of the text of the log's entry, in hexadecimal, to be pinned.
 * @property {string} leaf Hash of this entry as a leaf of the log's tree, in hexadecimal, to be looked up in the log.
 * @property {string} publishedAt When the entry says that its snapshot was published.
 * @property {{ origin: string, size: number, signed: boolean, cosigners: number, text: string } | null} checkpoint Of the
 *   log that has the entry, if there is one: its name, how many commits it has, whether your key or a log's of your policy
 *   signed it, how many witnesses of your policy did, and the whole text, to be kept and given as `trust.since`.
 * @property {boolean} complete Whether it is shown that no market is left out. With a `snapshotId` alone it is not, nor
 *   where something was not judged.
 * @property {string[]} unjudged What nobody can judge on this platform, in sentences: words that another version of
 *   Unicode made. No fault of the service.
 */

/**
 * @typedef {object} Proving
 * @property {Trust | undefined} [trust]
 * @property {AbortSignal | undefined} [signal] Ends the call, its waits and its connection.
 */

/**
 * @typedef {Proving & { verified?: boolean | undefined }} Verifying
 */

/**
 * A total and facets that were recomputed; `bytes` and `requests` are what it took.
 * @typedef {MarketFacets & { commit: number, bytes: number, requests: number, vouched: Vouched }} Recomputed
 */

/**
 * @typedef {Omit<Filters, "asOf" | "skip"> & { asOf?: string | undefined, skip?: number | undefined, by?: string,
 *   limit?: number | undefined, since?: string, until?: string | undefined, of?: string, id?: string }} Query
 */
/**
 * That an id is not among the `markets` of a snapshot; `bytes` and `requests` are what it took to show.
 * @typedef {object} Absence
 * @property {string} snapshotId
 * @property {number} commit
 * @property {number} markets
 * @property {number} bytes
 * @property {number} requests
 * @property {Vouched} vouched
 */

/** @typedef {<T>(work: () => Promise<T>) => Promise<T>} Step */
/**
 * @typedef {<T>(parse: (text: string) => T, decoder?: Decoder) => Promise<T>} ReadText What is parsed of a body that is
 * read whole.
 */
/** @typedef {{ decode: (bytes?: Uint8Array, options?: { stream: boolean }) => string }} Decoder */

const encoded = encodeURIComponent;
const utf8 = () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const passing = new Set([429, 502, 503, 504]);
const ownPassing = new Set(["UNREACHABLE", "TIMEOUT", "BROKEN_ANSWER"]);
/** The most characters or bytes of a line. The service allows 256 KiB of JSON for a record. */
const maxLine = 2 ** 20;

/** A client of the service. Between calls it keeps no connection or timer, and only what was recomputed from. */
export class Client {
  #base;
  #key;
  #fetch;
  #timeout;
  #retries;
  #maxWait;
  #maxBytes;
  #keepBytes;
  /** @type {Promise<Prover> | undefined} */
  #proving;

  /** @param {ClientOptions} options */
  constructor({
    url,
    key,
    fetch = globalThis.fetch.bind(globalThis),
    timeout = 30_000,
    retries = 6,
    maxWait = 60_000,
    maxBytes = 2 ** 28,
    keepBytes = 2 ** 26,
  }) {
    const base = String(url).replace(/\/+$/, "");
    if (!/^https?:\/\/[^/?#@]+(\/[^?#]*)?$/i.test(base) || !URL.canParse(base))
      throw new ApiError(
        "INVALID_URL",
        `url must be an address as https://HOST, and is ${base.replace(/\/\/.*@/, "//")}.`,
        {
          title: "Invalid address",
        },
      );
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
    this.#maxBytes = maxBytes;
    this.#keepBytes = keepBytes;
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
    return this.#read(`/scores/${encoded(slug)}`, options);
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
    return this.#read(`/scores/${encoded(slug)}/history`, options);
  }

  /**
   * A protocol's dimensions with change and percentile. Needs the Developer plan.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreDimensions>}
   */
  dimensions(slug, options) {
    return this.#read(`/scores/${encoded(slug)}/dimensions`, options);
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
   * One page of the archive. Needs the Aegis plan, as all of the archive does. With `verified` it is shown to have
   * exactly the markets that match, as by rows.
   * @param {Filters} [filters]
   * @param {Verifying} [options]
   * @returns {Promise<MarketPage & { vouched?: Vouched }>}
   */
  async page(filters = {}, options) {
    if (!options?.verified) return (await this.#page(filters, options)).page;
    for await (const page of this.pages(filters, options)) return page;
    throw broken("There is no page.");
  }

  /**
   * Walks through the archive page by page, from `filters.cursor` on if there is one. All pages are of one snapshot.
   * When the store no longer keeps it, ApiError `CURSOR_EXPIRED` is thrown, and its `resumeCursor` leads on in the
   * current snapshot. With `verified` each is shown to have exactly the markets that match, as by rows.
   * @param {Filters} [filters]
   * @param {Verifying} [options]
   * @returns {AsyncGenerator<MarketPage & { vouched?: Vouched }, void, void>}
   */
  async *pages(filters = {}, options) {
    if (options?.verified)
      return yield* (await this.#prover()).pages(filters, options, (query, parse) =>
        this.#page(query, options, parse),
      );
    let [query, snapshotId, total, seen] = [filters, "", -1, 0];
    for (;;) {
      const { page, snapshot } = await this.#page(query, options);
      check(
        total < 0 || (page.total === total && snapshot === snapshotId),
        `The walk goes on in snapshot ${snapshot}.`,
      );
      seen += page.count;
      // Otherwise a server could lead the walk in a circle for ever.
      const ends = page.nextCursor === null || (page.count > 0 && seen < page.total);
      check(ends, "The walk does not end.");
      [snapshotId, total] = [snapshot, page.total];
      yield page;
      if (page.nextCursor === null) return;
      query = { cursor: page.nextCursor };
    }
  }

  /**
   * Every market that matches, as one answer in lines: `for await (const { text, market } of client.rows(filters))`. An
   * answer that breaks off is taken up again. `page` and `pageSize` do not apply. To go on in another process, keep
   * `cursor` and `skip` of the result and pass them as filters. Units are counted as rows are sent, one for every 500.
   * With `verified` the rows are shown to be exactly the markets that match, in order and none left out, by what
   * `recompute` takes and the hashes of the markets of their pages. Throws VerificationError.
   * @param {Filters} [filters]
   * @param {Verifying} [options]
   * @returns {Rows}
   */
  rows(filters = {}, options) {
    return new Rows(filters, (answer) =>
      options?.verified
        ? this.#verified(filters, answer, options)
        : this.#lines("/markets/historical", answer, options),
    );
  }

  /**
   * @param {Filters} filters
   * @param {Shown} rows
   * @param {Verifying} options
   */
  async *#verified(filters, rows, options) {
    yield* (await this.#prover()).lines(filters, rows, options);
  }

  /**
   * Counts the markets that match by one or several of their fields:
   * `client.facets(["tier", "month"], { disputed: true })`.
   * @param {readonly string[]} by
   * @param {Filters & { limit?: number }} [filters] `limit`: the most values listed of each
   * @param {CallOptions} [options]
   * @returns {Promise<MarketFacets>}
   */
  facets(by, filters, options) {
    return this.#json("/markets/facets", { ...options, query: { by: by.join(), ...filters } });
  }

  /**
   * How many markets match, and their facets, evaluated here on those sections of the archive's index that it takes.
   * Each is checked against the index root that the log's entry names, so nothing of it is the service's word:
   * `client.recompute({ filters: { disputed: true }, by: ["tier"], trust: { key } })`. Sections are kept for later
   * calls. Throws VerificationError.
   * @param {Proving & { filters?: Omit<Filters, "page" | "pageSize" | "cursor" | "skip" | "asOf">, by?: readonly string[],
   *   limit?: number | undefined, asOf?: string | undefined }} [options] `limit`: the most values listed of each facet
   * @returns {Promise<Recomputed>}
   */
  async recompute(options = {}) {
    return (await this.#prover()).recompute(options);
  }

  /**
   * Shows that an id is not in the archive, by what the archive's index has in its place. Throws VerificationError, and
   * ApiError `NOT_FOUND` when the service says that the id is there.
   * @param {string} id
   * @param {Proving & { asOf?: string | undefined }} [options]
   * @returns {Promise<Absence>}
   */
  async absent(id, options = {}) {
    return (await this.#prover()).absent(id, options);
  }

  /** @returns {Promise<Prover>} */
  #prover() {
    this.#proving ??= import("./recompute.mjs").then(
      ({ Prover }) =>
        new Prover(
          {
            ...shared,
            ask: (path, how, read) => this.#ask(path, how, read),
            requireSameLog: (before, after, options) => this.requireSameLog(before, after, options),
            rows: (query, options) => {
              const answer = new Rows(query, async function* () {});
              return { answer, lines: this.#lines("/markets/historical", answer, options) };
            },
          },
          { url: this.#base, keepBytes: this.#keepBytes },
        ),
      (cause) => {
        this.#proving = undefined;
        const detail = "Save recompute.mjs of the service beside the client.";
        throw new ApiError("NO_RECOMPUTE", detail, { title: "A module is missing", cause });
      },
    );
    return this.#proving;
  }

  /**
   * The tier of each protocol, and which tiers changed in the last 30 days, newest first.
   * @param {CallOptions} [options]
   * @returns {Promise<Tiers>}
   */
  tiers(options) {
    return this.#json("/tiers", { ...options });
  }

  /**
   * The snapshots that can be read, newest first, each with its archive's root.
   * @param {CallOptions} [options]
   * @returns {Promise<SnapshotList>}
   */
  snapshots(options) {
    return this.#json("/snapshots", { ...options });
  }

  /**
   * The exports of the archive as Parquet files, newest first. Files are fetched by their `url`, with the key, and may
   * be in ranges.
   * @param {CallOptions} [options]
   * @returns {Promise<ExportList>}
   */
  exports(options) {
    return this.#json("/markets/exports", { ...options });
  }

  /**
   * One market. Throws ApiError `MARKET_NOT_FOUND`.
   * @param {string} id
   * @param {ReadOptions} [options]
   * @returns {Promise<HistoricalMarket>}
   */
  market(id, options) {
    return this.#read(`/markets/${encoded(id)}`, options);
  }

  /**
   * One market with the proof that it belongs to its snapshot. `verifyProof` checks it.
   * @param {string} id
   * @param {ReadOptions} [options]
   * @returns {Promise<MarketProof>}
   */
  proof(id, options) {
    return this.#read(`/markets/${encoded(id)}/proof`, options);
  }

  /**
   * The score of one protocol with the proof that it belongs to its snapshot. `verifyScoreProof` checks it.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreProof>}
   */
  scoreProof(slug, options) {
    return this.#read(`/scores/${encoded(slug)}/proof`, options);
  }

  /**
   * The newest signed checkpoint of the log, as text. `verifyCheckpoint` checks it. Needs no key and no quota. Keep it,
   * and pass it the next time as `since`: then it is also checked that the log only grew. Throws ForkedLogError when it
   * did not.
   * @param {CallOptions & { since?: string | undefined }} [options]
   * @returns {Promise<string>}
   */
  async checkpoint({ since, ...options } = {}) {
    const found = await this.#ask("/checkpoint", { ...options, accept: "text/plain" }, ({ text }) =>
      text(String),
    );
    if (since !== undefined) await this.requireSameLog(since, found, options);
    return found;
  }

  /**
   * Checks that the log of one checkpoint is the beginning of that of another, by tiles of the service's log
   * (c2sp.org/tlog-tiles). Their signatures are checked by `verifyCheckpoint`. Throws ForkedLogError.
   * @param {string} before
   * @param {string} after
   * @param {CallOptions} [options]
   * @returns {Promise<void>}
   */
  async requireSameLog(before, after, options) {
    const [old, now] = [checkpointIn(before), checkpointIn(after)];
    const same = now.size === old.size ? now.root === old.root : now.size > old.size;
    if (!same || now.origin !== old.origin) throw new ForkedLogError(before, after);
    if (now.size > old.size) await (await this.#prover()).requireSameLog(before, after, options);
  }

  /**
   * What differs between two snapshots: `{ op: "delete", id }` by id, then `{ op: "put", text, market }` in the
   * archive's order, each id once. Applied to an exact copy of `since` it gives an exact copy of `until`. An answer
   * that breaks off is taken up again; to go on in another process, pass the result's `snapshotId` as `until` and its
   * `skip`. Throws ApiError `SNAPSHOT_EXPIRED` when the difference is no longer known.
   * @param {string} since
   * @param {CallOptions & { until?: string | undefined, skip?: number }} [options] `until`: the current snapshot if
   * left out
   * @returns {Changes}
   */
  changes(since, { until, skip = 0, ...options } = {}) {
    return new Changes({ since, until, skip }, (answer) => this.#lines("/markets/changes", answer, options));
  }

  /**
   * @template {{ count: number, markets: unknown[] }} [P=MarketPage]
   * @param {Filters} query
   * @param {CallOptions | undefined} options
   * @param {(text: string) => P} [parse]
   */
  #page(query, options, parse = JSON.parse) {
    return this.#ask("/markets/historical", { ...options, query }, async ({ response, text }) => {
      const page = await text(parse);
      if (page.count !== page.markets.length) throw broken("The page lacks markets.");
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
    return this.#ask(path, how, ({ text }) => text(JSON.parse));
  }

  /**
   * Asks until `read` has an answer or a failure is final.
   * @template T
   * @param {string} path
   * @param {Asked} how
   * @param {(answer: { response: Response, text: ReadText, step: Step }) => Promise<T>} read
   * @returns {Promise<T>}
   */
  async #ask(path, how, read) {
    for (let failures = 0; ; failures += 1) {
      try {
        return await read(await this.#open(path, how));
      } catch (error) {
        await this.#pause(error, failures, how.signal);
      }
    }
  }

  /**
   * The lines of an answer, taken up again wherever it breaks off.
   * @param {string} path
   * @param {Answer} answer
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<string, void, void>}
   */
  async *#lines(path, answer, { signal } = {}) {
    for (let failures = 0; ; failures += 1) {
      const before = answer.skip;
      /** @type {(() => void) | undefined} */
      let close;
      try {
        const query = { ...answer.query, skip: before || undefined };
        const { response, step, ...exchange } = await this.#open(path, {
          query,
          accept: "application/x-ndjson",
          signal,
        });
        close = exchange.close;
        const count = Number(response.headers.get("X-Count") || "none");
        check(Number.isSafeInteger(count), "There is no X-Count.");
        const end = before + count;
        answer.opened(response.headers, end);
        for await (const texts of linesOf(response, step)) {
          for (const text of texts) {
            check(answer.skip < end, `More lines came than X-Count says: ${count}.`);
            answer.skip += 1;
            yield text;
          }
        }
        if (answer.skip === end) return;
        // One that breaks off is no clean end without a line.
        check(answer.skip > before, `None of ${count} lines came.`);
        throw broken(`${answer.skip - before} of ${count} lines came.`);
      } catch (error) {
        if (answer.skip > before) failures = 0;
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
    /** @type {() => void} */
    let end = () => {};
    const timer = setTimeout(() => end(), wait);
    await new Promise((resolve) => {
      end = () => resolve(undefined);
      signal?.addEventListener("abort", end);
    });
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
    signal?.throwIfAborted();
  }

  /**
   * Sends one request and waits for the head of its answer. Throws ApiError unless that is a success.
   * @param {string} path
   * @param {Asked} how
   */
  async #open(path, { query = {}, accept = "application/json", body, signal }) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(/** @type {[string, string][]} */ (given));
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
        return await this.#fetch(`${this.#base}${path}${search.size ? `?${search}` : ""}`, {
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
    /** @type {ReadText} */
    const text = (parse, decoder) => step(async () => parse(await textIn(response, this.#maxBytes, decoder)));
    if (!response.ok) throw await refusalOf(response, text);
    return { response, text, step, close: () => stop.abort() };
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

/** One market of an answer in lines. */
export class Row {
  /** The market's JSON text, byte for byte as in the archive. */
  text;

  #csvOf;

  /**
   * @param {string} text
   * @param {((text: string) => Promise<string>) | undefined} [csvOf]
   */
  constructor(text, csvOf) {
    this.text = text;
    this.#csvOf = csvOf;
  }

  /** The market as the service writes it in CSV, with the line's end, below `csvHead` of the rows. Of verified rows only.
   * @returns {Promise<string> | undefined} */
  get csv() {
    return this.#csvOf?.(this.text);
  }

  /** The market, parsed whenever it is read.
   * @returns {HistoricalMarket} */
  get market() {
    return JSON.parse(this.text);
  }
}

/**
 * @template {Answer} A
 * @callback Open Reads the lines of an answer.
 * @param {A} answer
 * @returns {AsyncGenerator<string, void, void>}
 */

/** An answer in lines. Its members are known when the first line has come. It can be iterated over once. */
class Answer {
  /** Snapshot of the answer. */
  snapshotId = "";
  /** Number of lines of the whole answer, also of those skipped. */
  count = -1;
  /** Whole lines received, also those skipped. */
  skip;
  /** @internal @type {Query} */
  query;

  /**
   * @param {Query} query
   * @param {number} skip
   */
  constructor(query, skip) {
    this.query = query;
    this.skip = skip;
  }

  /**
   * @internal
   * @param {Headers} headers
   * @param {number} end
   */
  opened(headers, end) {
    const snapshotId = headers.get("X-Snapshot-Id") ?? "";
    check(
      this.count < 0 || (snapshotId === this.snapshotId && end === this.count),
      `The answer goes on as ${end} lines of ${snapshotId}.`,
    );
    [this.snapshotId, this.count] = [snapshotId, end];
  }
}

/**
 * What the caller sees of rows.
 * @typedef {Pick<Rows, "snapshotId" | "count" | "total" | "skip" | "cursor" | "vouched" | "csvHead" | "csvOf">} Shown
 */

/**
 * The rows of Client.rows.
 * @implements {AsyncIterable<Row>}
 */
export class Rows extends Answer {
  #asOf;
  #open;
  /** Cursor of the place where the answer begins. With `skip` it leads to where the rows received end. */
  cursor;
  /** Number of markets that match. */
  total = -1;
  /** Of verified rows: what they were checked against.
   * @type {Vouched | undefined} */
  vouched;
  /** Of verified rows: the first line of the service's CSV, with its end.
   * @type {string | undefined} */
  csvHead;
  /** @internal @type {((text: string) => Promise<string>) | undefined} */
  csvOf;

  /**
   * @param {Filters} query
   * @param {Open<Rows>} open
   */
  constructor({ skip = 0, ...query }, open) {
    super(query, skip);
    this.#asOf = query.asOf;
    this.cursor = query.cursor;
    this.#open = open;
  }

  /**
   * @internal @override
   * @param {Headers} headers
   * @param {number} end
   */
  opened(headers, end) {
    super.opened(headers, end);
    const asOf = this.#asOf;
    const meant = asOf === undefined || !Number.isNaN(timeIn(asOf)) || this.snapshotId === asOf;
    check(meant, `The rows are of snapshot ${this.snapshotId}, not of ${asOf}.`);
    this.total = Number(headers.get("X-Total-Count"));
    // The cursor of a later answer begins behind the rows skipped.
    this.cursor ??= headers.get("X-Cursor") ?? undefined;
    this.query = { ...(this.cursor !== undefined && { cursor: this.cursor }) };
  }

  async *[Symbol.asyncIterator]() {
    for await (const text of this.#open(this)) yield new Row(text, this.csvOf);
  }
}

/** One line of the difference between two snapshots. */
export class Change extends Row {
  /** @type {"delete" | "put"} */
  op;
  /** Id of the market. */
  id;
  /** The line as it came. */
  line;

  /** @param {string} line */
  constructor(line) {
    // The market is not parsed and written again: its text must stay what it is, byte for byte.
    const put = /^\{"op":"put","market":(\{"id":"([0-9a-f-]{36})".*\})\}$/s.exec(line);
    const id = put?.[2] ?? /^\{"op":"delete","id":"([0-9a-f-]{36})"\}$/.exec(line)?.[1];
    check(id !== undefined, "A line is no change.");
    super(put?.[1] ?? "");
    this.line = line;
    this.op = put ? "put" : "delete";
    this.id = id;
  }
}

/**
 * The lines of Client.changes.
 * @implements {AsyncIterable<Change>}
 */
export class Changes extends Answer {
  #open;
  /** Snapshot from which the difference leads to `snapshotId`. */
  since;
  /** The archive's root of `snapshotId`. */
  archiveRoot = "";
  #until;

  /**
   * @param {{ since: string, until: string | undefined, skip: number }} query
   * @param {Open<Changes>} open
   */
  constructor({ since, until, skip }, open) {
    super({ since, until }, skip);
    this.since = since;
    this.#until = until;
    this.#open = open;
  }

  /**
   * @internal @override
   * @param {Headers} headers
   * @param {number} end
   */
  opened(headers, end) {
    super.opened(headers, end);
    const { since, snapshotId: until } = this;
    check((this.#until ?? until) === until, `The changes lead to another snapshot, ${until}.`);
    this.query = { since, until };
    this.archiveRoot = headers.get("X-Archive-Root") ?? "";
  }

  async *[Symbol.asyncIterator]() {
    for await (const line of this.#open(this)) yield new Change(line);
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
  const decoder = utf8();
  let rest = "";
  for (;;) {
    const piece = await step(async () => {
      const { done, value } = await reader.read();
      return done ? undefined : decoder.decode(value, { stream: true });
    });
    if (piece === undefined) {
      if (rest) throw broken("The last line has no end.");
      return;
    }
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    check(rest.length <= maxLine, `A line is longer than ${maxLine} characters.`);
    yield lines;
  }
}

/**
 * @param {Response} response
 * @param {number} most The most bytes that are taken.
 * @param {Decoder} [decoder]
 */
async function textIn({ body, headers, type }, most, decoder = utf8()) {
  const reader = body?.getReader();
  let [text, came] = ["", 0];
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    came += value.length;
    if (came > most) {
      await reader.cancel();
      throw new ApiError("UNEXPECTED_ANSWER", `More than ${most} bytes came.`);
    }
    text += decoder.decode(value, { stream: true });
  }
  // Of a compressed body the length says nothing, and scripts of other origins do not see whether it was compressed.
  const length =
    type === "cors" || headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
  if (came < length) throw broken(`${came} of ${length} bytes came.`);
  return text + decoder.decode();
}

/**
 * The error of an answer that is none of success.
 * @param {Response} response
 * @param {ReadText} text
 */
async function refusalOf(response, text) {
  const { status, headers } = response;
  const retryAfter = Number(headers.get("Retry-After") || "none");
  const about = {
    status,
    requestId: headers.get("X-Request-Id") ?? undefined,
    retryAfter: retryAfter >= 0 ? retryAfter : undefined,
  };
  if (headers.get("Content-Type")?.startsWith("application/problem+json")) {
    const { code, detail, title, parameter, resumeCursor, nearest } = await text(JSON.parse);
    return new ApiError(code, detail, { ...about, title, parameter, resumeCursor, nearest });
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
 * A hash function. In Node, `(bytes) => crypto.hash("sha256", bytes, "buffer")` of `node:crypto` is several times as
 * fast as the default, Web Crypto, which browsers have in secure contexts only. It must have read the bytes when it
 * returns.
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
  check(Number.isSafeInteger(value) && value >= 0);
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(bytes.buffer);
}

/** @param {Uint8Array} bytes */
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * The head of a tree of the shape of RFC 6962: neighbours are joined level by level, and one without a neighbour moves
 * up.
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

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/**
 * A tree that is being built: its children so far, and how many markets there are below them.
 * @typedef {{ hashes: (Uint8Array | Promise<Uint8Array>)[], markets: number }} Tree
 * @returns {Tree}
 */
const emptyTree = () => ({ hashes: [], markets: 0 });

/**
 * The archive's root over its lines, as `archiveRoot` of a snapshot states it (snapshots/SPEC.md, "Roots" and "Cuts").
 * Trees count from the oldest market, so the lines must come oldest first: the reverse of the archive's order. For a
 * copy in a file, use `linesFromEnd`. Memory does not grow with the number of lines, except for 32 bytes for every
 * segment of some 20,000 markets.
 * @param {AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>} lines JSON texts of markets, without line
 * ends
 * @param {{ sha256?: Sha256 }} [options]
 * @returns {Promise<{ archiveRoot: string, markets: number }>}
 */
export async function archiveRoot(lines, { sha256 = webSha256 } = {}) {
  const [page, segment, archive] = [emptyTree(), emptyTree(), emptyTree()];
  /** @type {(tree: Tree, kind: number, above?: Tree) => Promise<Uint8Array>} */
  const seal = async (tree, kind, above) => {
    const { markets } = tree;
    const hashes = await Promise.all(tree.hashes);
    const head = await headOf(hashes, sha256);
    const root = await sha256(bytesOf([kind], uint64(markets), uint64(hashes.length), head));
    if (above && markets > 0) {
      above.hashes.push(root);
      above.markets += markets;
    }
    [tree.hashes, tree.markets] = [[], 0];
    return root;
  };
  // One for all lines, since the garbage collector may be long in freeing one for each.
  let leaf = bytesOf([0]);
  for await (const line of lines) {
    const text = typeof line === "string" ? encoder.encode(line) : line;
    if (text.length >= leaf.length) leaf = bytesOf(leaf, text);
    leaf.set(text, 1);
    page.hashes.push(sha256(leaf.subarray(0, text.length + 1)));
    page.markets += 1;
    // The id follows {"id":" and has 36 characters.
    const hash = crc32(text.subarray(7, 43));
    const wanted = page.markets >= 32 && hash % 96 === 0;
    if (!wanted && page.markets < 512) continue;
    await seal(page, 2, segment);
    if ((wanted && Math.floor(hash / 96) % 160 === 0) || segment.markets > 65_024)
      await seal(segment, 3, archive);
  }
  await seal(page, 2, segment);
  await seal(segment, 3, archive);
  const { markets } = archive;
  return { archiveRoot: hexOf(await seal(archive, 4)), markets };
}

/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a
 * Blob, such as a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 * @param {{ size: number, slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> } }} file
 * @returns {AsyncGenerator<Uint8Array, void, void>}
 */
export async function* linesFromEnd(file) {
  for (let end = file.size; end > 0; ) {
    // A line with its end, and the end of the one before.
    const start = Math.max(0, end - maxLine - 2);
    const bytes = new Uint8Array(await file.slice(start, end).arrayBuffer());
    let last = bytes.length - 1;
    check(bytes[last] === 10, "The last line of the file has no end.");
    while (last >= 0) {
      const before = bytes.subarray(0, last).lastIndexOf(10);
      if (before < 0 && start > 0) break;
      yield bytes.subarray(before + 1, last);
      last = before;
    }
    // What is before the first end found is read once more, with what belongs to it.
    last += start + 1;
    check(last < end, `A line is longer than ${maxLine} bytes.`);
    end = last;
  }
}

/**
 * @param {unknown} holds
 * @param {string} [detail]
 * @returns {asserts holds}
 */
function check(holds, detail = "The proof or checkpoint is malformed.") {
  if (!holds) throw new IntegrityError(detail);
}

/** @param {string} text */
function objectIn(text) {
  let found = null;
  try {
    found = JSON.parse(text);
  } catch {}
  check(typeof found === "object" && found !== null);
  return found;
}

/** @param {unknown} hex */
function hashOf(hex) {
  check(typeof hex === "string" && /^[0-9a-f]{64}$/.test(hex));
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

/** @type {(left: Uint8Array, right: Uint8Array) => Promise<Uint8Array>} */
const nodeOf = async (left, right) => webSha256(bytesOf([1], left, right));

/** @param {string} text */
const leafOf = async (text) => webSha256(bytesOf([0], encoder.encode(text)));

/** The root of the tree in which `hash` is the child of this index.
 * @param {number} kind
 * @param {Uint8Array} hash
 * @param {MarketProof["proof"]["page"]} level */
async function rootFrom(kind, hash, { markets, ...place }) {
  const sizes = [uint64(markets), uint64(place.size)];
  return webSha256(bytesOf([kind], ...sizes, await headFrom(hash, place)));
}

/** The head of the tree in which `hash` is the child of this index.
 * @param {Uint8Array} hash
 * @param {{ index: number, size: number, path: readonly string[] | null }} place */
async function headFrom(hash, { index, size, path }) {
  uint64(size);
  uint64(index);
  check(index < size && size < 2 ** 32 && Array.isArray(path));
  let [head, at, last] = [hash, index, size - 1];
  for (const step of path) {
    check(last > 0);
    const other = hashOf(step);
    const onRight = at % 2 === 1 || at === last;
    head = await (onRight ? nodeOf(other, head) : nodeOf(head, other));
    // One that has no neighbour moved up to a level where it has one.
    for (; onRight && at > 0 && at % 2 === 0; last >>>= 1) at >>>= 1;
    at >>>= 1;
    last >>>= 1;
  }
  check(last === 0);
  return head;
}

/**
 * What the log says of a commit.
 * @typedef {object} Entry
 * @property {number} commit
 * @property {string} feedVersion
 * @property {string} snapshotId
 * @property {string} archiveRoot
 * @property {string} scoresRoot
 * @property {string} indexRoot
 * @property {{ markets: number, protocols: number }} counts
 * @property {string} publishedAt
 * @property {[first: number, last: number][]} withdrawn Commits that were taken back.
 * @property {string} record SHA-256 of the commit record.
 */

/**
 * The id of the snapshot that an entry of the log is about (snapshots/SPEC.md, "Identity").
 * @param {Pick<Entry, "feedVersion" | "counts" | "archiveRoot" | "scoresRoot">} entry
 * @returns {Promise<string>}
 */
async function snapshotIdOf({ feedVersion, counts, archiveRoot, scoresRoot }) {
  const { markets, protocols } = counts ?? {};
  for (const count of [markets, protocols]) uint64(count);
  for (const root of [archiveRoot, scoresRoot]) hashOf(root);
  check(/^[!-~]+$/.test(feedVersion));
  const lines = `prs-snapshot 1 ${feedVersion}\nmarkets ${markets}\nprotocols ${protocols}\n`;
  return hexOf(await webSha256(encoder.encode(`${lines}archive ${archiveRoot}\nscores ${scoresRoot}\n`)));
}

/**
 * What a text of base64 has; undefined when it is none, or has another spelling.
 * @param {string} text
 */
function decoded(text) {
  let raw = "";
  try {
    raw = atob(text);
  } catch {}
  return btoa(raw) === text ? Uint8Array.from(raw, (char) => char.charCodeAt(0)) : undefined;
}

/**
 * Decodes base64 that has one spelling only.
 * @param {string} text
 */
function base64(text) {
  const bytes = decoded(text);
  check(bytes);
  return bytes;
}

/**
 * What a checkpoint says (c2sp.org/tlog-checkpoint): the log's origin, how many commits it has, and the root of its
 * tree. Checks no signature. Throws IntegrityError.
 * @param {string | null} checkpoint
 * @returns {{ origin: string, size: number, root: string }}
 */
export function checkpointIn(checkpoint) {
  check(typeof checkpoint === "string", "There is no checkpoint: nobody signed the log.");
  // Signatures follow the last empty line, so a signed text with another one is refused as a whole.
  const [, origin = "", size = "", root = ""] =
    /^(\P{Cc}+)\n([1-9][0-9]{0,9})\n(\P{Cc}+)\n\n(?:[\P{Cc}\x7f-\x9f]+\n)+$/u.exec(checkpoint) ?? [];
  check(size !== "" && Number(size) < 2 ** 31);
  const head = base64(root);
  check(head.length === 32);
  return { origin, size: Number(size), root: hexOf(head) };
}

/**
 * A public key of a log or a witness, as c2sp.org/signed-note and tlog-cosignature have them. `kind` is 1 for Ed25519,
 * 4 for cosignatures with it, and 6 for those with ML-DSA-44.
 * @typedef {{ name: string, id: string, kind: number, raw: Uint8Array<ArrayBuffer> }} NoteKey
 */

/**
 * Refuses a key or a policy of the caller, for which no answer is to blame.
 * @param {unknown} holds
 * @param {string} detail
 * @returns {asserts holds}
 */
function usable(holds, detail) {
  const title = "The key or policy cannot be used";
  if (!holds) throw new ApiError("INVALID_PARAMETER", detail, { title, parameter: "key" });
}

/** @param {string} text `NAME+ID+BASE64` @returns {Promise<NoteKey>} */
async function noteKey(text) {
  const [, name = "", id = "", encoded = ""] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text) ?? [];
  const bytes = decoded(encoded);
  const named = hexOf(await webSha256(bytesOf(encoder.encode(`${name}\n`), bytes ?? new Uint8Array()))).slice(
    0,
    8,
  );
  const [kind = 0] = bytes ?? [];
  const sound = bytes && named === id && bytes.length === { 1: 33, 4: 33, 6: 1313 }[kind];
  usable(
    sound,
    `This is no key as it was given out, NAME+ID+BASE64; copy it again, whole: ${text.slice(0, 80)}`,
  );
  return { name, id, kind, raw: bytes.slice(1) };
}

/**
 * Who must have cosigned a checkpoint: a witness, or so many of these.
 * @typedef {{ key: NoteKey } | { least: number, members: Quorum[] }} Quorum
 */

/**
 * Reads a policy (c2sp.org/tlog-policy). Throws ApiError that names the line.
 * @param {string} text
 */
async function policyIn(text) {
  /** @type {NoteKey[]} */
  const logs = [];
  /** @type {Map<string, Quorum>} */
  const named = new Map();
  // What may stand in one place alone: the keys of witnesses, and the names of members.
  const members = new Set();
  /** @type {Quorum | null | undefined} */
  let quorum;
  for (const [index, line] of text.split("\n").entries()) {
    /** @type {(holds: unknown) => void} */
    const need = (holds) => usable(holds, `Line ${index + 1} of the policy is wrong: ${line.slice(0, 80)}`);
    // Control characters, in comments too.
    need(/^[\t\x20-\x7e\x80-\uffff]*$/.test(line));
    const [keyword = "", ...items] = line.split(/[ \t]+/).filter((item) => item);
    if (!keyword || keyword.startsWith("#")) continue;
    const [name = "", second = "", ...others] = items;
    if (keyword === "log") {
      need(name && items.length < 3);
      logs.push(await noteKey(name));
    } else if (keyword === "witness") {
      need(second && items.length < 4 && name !== "none" && !named.has(name));
      const key = await noteKey(second);
      need(key.kind !== 1 && !members.has(hexOf(key.raw)));
      members.add(hexOf(key.raw));
      named.set(name, { key });
    } else if (keyword === "group") {
      const found = others.flatMap((member) => named.get(member) ?? []);
      const least = second === "all" ? found.length : second === "any" ? 1 : Number(second);
      need(/^(all|any|[1-9]\d*)$/.test(second));
      need(found.length === others.length && new Set(others).size === others.length && name !== "none");
      need(
        least >= 1 && least <= found.length && !named.has(name) && !others.some((each) => members.has(each)),
      );
      for (const member of others) members.add(member);
      named.set(name, { least, members: found });
    } else {
      need(keyword === "quorum" && items.length === 1 && quorum === undefined);
      quorum = name === "none" ? null : named.get(name);
      need(quorum !== undefined);
    }
  }
  usable(quorum !== undefined && logs.length > 0, "The policy has no quorum line, or no log.");
  return { logs, quorum };
}

/**
 * What a key signs of a checkpoint (c2sp.org/tlog-cosignature).
 * @param {NoteKey} key
 * @param {string} text
 * @param {{ origin: string, size: number, root: string }} said
 * @param {Uint8Array<ArrayBuffer>} time
 */
function signedBytes({ kind, name }, text, { origin, size, root }, time) {
  if (kind === 1) return encoder.encode(text);
  check(time.length === 8);
  const seconds = new DataView(time.buffer).getBigInt64(0);
  check(seconds >= 0);
  if (kind === 4) return encoder.encode(`cosignature/v1\ntime ${seconds}\n${text}`);
  const [signer, log] = [name, origin].map((each) => encoder.encode(each));
  check(signer && log && signer.length < 256 && log.length < 256);
  const [signerLength, logLength] = [Uint8Array.of(signer.length), Uint8Array.of(log.length)];
  const label = encoder.encode("subtree/v1\n\0");
  return bytesOf(
    label,
    signerLength,
    signer,
    time,
    logLength,
    log,
    uint64(0),
    uint64(size).reverse(),
    hashOf(root),
  );
}

/**
 * Checks that a checkpoint satisfies a policy (the text of c2sp.org/tlog-policy), or that one of these keys, each
 * `NAME+ID+BASE64`, signed it, and returns what it says and how many of the policy's witnesses did. Cosignatures that
 * the platform cannot check do not count: those with ML-DSA-44 outside Node 24.7 and later. Throws IntegrityError; ApiError
 * INVALID_PARAMETER when a key or the policy is not one; a DOMException in browsers without Ed25519.
 * @param {string | null} checkpoint
 * @param {string | readonly string[]} keys
 * @returns {Promise<{ origin: string, size: number, root: string, cosigners: number }>}
 */
export async function verifyCheckpoint(checkpoint, keys) {
  const said = checkpointIn(checkpoint);
  const note = String(checkpoint);
  const cut = note.lastIndexOf("\n\n") + 1;
  const text = note.slice(0, cut);
  const lines = note.slice(cut + 1).split("\n");
  check(lines.pop() === "" && lines.length <= 64);
  const signatures = lines.map((line) => {
    const [, signer = "", signature = ""] = /^— ([^\s\u0085+]+) ([^ ]+)$/u.exec(line) ?? [];
    const bytes = base64(signature);
    check(bytes.length > 4);
    return { signer, bytes };
  });
  /** @type {(key: NoteKey) => Promise<boolean>} */
  const signed = async (key) => {
    const { name, id, kind, raw } = key;
    const own = signatures.find(({ signer, bytes }) => signer === name && hexOf(bytes.slice(0, 4)) === id);
    if (!own) return false;
    const start = kind === 1 ? 4 : 12;
    const bytes = signedBytes(key, text, said, own.bytes.slice(4, start));
    const algorithm = kind === 6 ? "ML-DSA-44" : "Ed25519";
    const format = /** @type {"raw"} */ (kind === 6 ? "raw-public" : "raw");
    const imported = crypto.subtle.importKey(format, raw, algorithm, false, ["verify"]);
    const usable = await (kind === 6 ? imported.catch(() => undefined) : imported);
    if (!usable) return false;
    const good = await crypto.subtle.verify(algorithm, usable, own.bytes.slice(start), bytes);
    check(good, "The signature of the checkpoint is wrong.");
    return true;
  };
  const isPolicy = typeof keys === "string" && /\s/.test(keys.trim());
  const { logs, quorum } = isPolicy
    ? await policyIn(keys)
    : { logs: await Promise.all([keys].flat().map(noteKey)), quorum: null };
  usable(
    logs.every(({ kind }) => kind !== 4),
    "A key of a witness stands in the place of a log's key.",
  );
  let counts = false;
  for (const key of logs) counts ||= key.name === said.origin && (await signed(key));
  check(counts, "None of the keys signed the checkpoint.");
  let cosigners = 0;
  /** @type {(member: Quorum) => Promise<boolean>} */
  const reached = async (member) => {
    if ("key" in member) {
      const did = await signed(member.key);
      cosigners += Number(did);
      return did;
    }
    const found = await Promise.all(member.members.map(reached));
    return found.filter((each) => each).length >= member.least;
  };
  check(!quorum || (await reached(quorum)), "Too few witnesses cosigned the checkpoint.");
  return { ...said, cosigners };
}

/**
 * What you know when you check a proof: the `snapshotId` if you hold one that you trust; the publisher's `key`, or a
 * policy with witnesses (c2sp.org/tlog-policy) in its place, to have the checkpoint's signatures checked too. Without
 * them, a proof only shows that the answer agrees with itself. `asOf` is what you asked with. Without it and a
 * `snapshotId`, the entry must be the last one of the checkpoint's log.
 * @typedef {{ snapshotId?: string | undefined, key?: string | readonly string[] | undefined, asOf?: string | undefined
 * }} Known
 */

/**
 * The latest time that `asOf` means; NaN where it is a snapshot's id.
 * @param {string} asOf
 */
const timeIn = (asOf) =>
  /^[0-9a-f]{64}$/.test(asOf) ? Number.NaN : Date.parse(asOf.length > 10 ? asOf : `${asOf}T23:59:59.999Z`);

/**
 * Checks that the log has the entry of an answer, and that it is about the answer's snapshot.
 * @param {Pick<MarketProof, "entry" | "snapshotId" | "commit" | "checkpoint"> & { proof: { inclusion: readonly string[]
 * | null } }} answer
 * @param {Known} known
 * @returns {Promise<Entry>}
 */
async function verifyEntry({ entry, snapshotId, commit, checkpoint, proof }, known) {
  check(typeof entry === "string" && proof);
  /** @type {Entry} */
  const said = objectIn(entry);
  const found = await snapshotIdOf(said);
  check(
    said.commit === commit && said.snapshotId === snapshotId && found === snapshotId,
    "The entry is of another snapshot.",
  );
  const { key, asOf } = known;
  check((known.snapshotId ?? found) === found, "The proof is about another snapshot.");
  const time = asOf === undefined ? undefined : timeIn(asOf);
  if (time !== undefined) {
    const meant = Number.isNaN(time) ? found === asOf : Date.parse(said.publishedAt) <= time;
    check(meant, `The entry is of snapshot ${found}, published ${said.publishedAt}, not of ${asOf}.`);
  }
  const tree =
    key !== undefined ? await verifyCheckpoint(checkpoint, key) : checkpoint && checkpointIn(checkpoint);
  if (!tree) return said;
  const head = await headFrom(await leafOf(entry), {
    index: commit - 1,
    size: tree.size,
    path: proof.inclusion,
  });
  check(hexOf(head) === tree.root, "The log does not have this entry.");
  // Its last entry is never withdrawn: a rollback is an entry of its own.
  check(
    commit === tree.size || asOf !== undefined || known.snapshotId !== undefined,
    `The answer is of commit ${commit}, and the log goes on to commit ${tree.size}. For an older one, say which.`,
  );
  return said;
}

/**
 * Checks that a market belongs to its snapshot, and that snapshot to the publisher's log, and returns its record. `id`
 * is the one you asked for. Throws as verifyCheckpoint does.
 * @param {MarketProof} answer
 * @param {Known & { id?: string }} [known]
 * @returns {Promise<HistoricalMarket>}
 */
export async function verifyProof(answer, { id, ...known } = {}) {
  const { page, segment, archive } = answer.proof ?? {};
  check(typeof answer.market === "string" && page && segment && archive);
  let root = await leafOf(answer.market);
  root = await rootFrom(2, root, page);
  root = await rootFrom(3, root, segment);
  root = await rootFrom(4, root, archive);
  const { archiveRoot, counts } = await verifyEntry(answer, known);
  const belongs = hexOf(root) === archiveRoot && archive.markets === counts.markets;
  check(belongs, "The market does not belong to the snapshot.");
  const record = objectIn(answer.market);
  check(id === undefined || record.id === id, "The proof is about another market.");
  return record;
}

/**
 * The same for the score of a protocol. `slug` is the one you asked for.
 * @param {ScoreProof} answer
 * @param {Known & { slug?: string }} [known]
 * @returns {Promise<ProtocolScore>}
 */
export async function verifyScoreProof(answer, { slug, ...known } = {}) {
  const { score } = answer.proof ?? {};
  check(typeof answer.score === "string" && score);
  const record = objectIn(answer.score);
  const line = `score ${record.slug} ${hexOf(await webSha256(bytesOf(encoder.encode(answer.score))))}`;
  const root = await rootFrom(5, await leafOf(line), { ...score, markets: score.size });
  const { scoresRoot } = await verifyEntry(answer, known);
  check(hexOf(root) === scoresRoot, "The score does not belong to the snapshot.");
  check(slug === undefined || record.slug === slug, "The proof is about another protocol.");
  return record;
}

/**
 * Checks that a copy's root and number of markets are those of the snapshot of a proof, and that the publisher's log
 * has that. Throws as verifyCheckpoint does.
 * @param {MarketProof} answer
 * @param {{ archiveRoot: string, markets: number }} copy
 * @param {Known} [known]
 * @returns {Promise<Entry>}
 */
export async function verifyCopy(answer, { archiveRoot, markets }, known = {}) {
  const entry = await verifyEntry(answer, known);
  const same = entry.archiveRoot === archiveRoot && entry.counts.markets === markets;
  check(
    same,
    `The copy is not the archive of snapshot ${entry.snapshotId}: it has ${markets} markets and the root ` +
      `${archiveRoot}.`,
  );
  return entry;
}

/** What recompute.mjs has from here: with a copy of its own, errors would be of another class. */
const shared = {
  ApiError,
  ForkedLogError,
  IntegrityError,
  VerificationError,
  broken,
  base64,
  bytesOf,
  checkpointIn,
  hashOf,
  headFrom,
  headOf,
  hexOf,
  leafOf,
  rootFrom,
  timeIn,
  uint64,
  verifyCheckpoint,
  verifyEntry,
};

/**
 * @typedef {typeof shared & {
 *   ask: <T>(path: string, how: Asked, read: (answer: { response: Response, text: ReadText, step: Step }) => Promise<T>)
 *     => Promise<T>,
 *   requireSameLog: Client["requireSameLog"],
 *   rows: (query: Filters, options: CallOptions) => { answer: Shown, lines: AsyncGenerator<string, void, void> } }} Tools
 */
