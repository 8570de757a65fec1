// The client of the Protocol Risk Score Service: one module without dependencies, for browsers and for Node 20 or
// later. What recomputes answers is in a second one beside it, recompute.mjs, which is loaded when it is first needed.
import {
  type Answer,
  Changes,
  linesOf,
  type Query,
  type ReadText,
  Rows,
  refusalOf,
  type Shown,
  type Step,
  textIn,
  type Vouched,
} from "./answers.ts";
import { checkpointIn, ForkedLogError, verifyCheckpoint } from "./checkpoint.ts";
import type {
  ExportList,
  Filters,
  HistoricalMarket,
  MarketFacets,
  MarketPage,
  MarketProof,
  ProtocolScore,
  ScoreBatch,
  ScoreDimensions,
  ScoreHistory,
  ScoreList,
  ScoreProof,
  SnapshotList,
  Status,
  Tiers,
  Usage,
} from "./declarations.d.ts";
import { ApiError, broken, check, IntegrityError, VerificationError } from "./errors.ts";
import { timeIn, verifyCopy, verifyEntry, verifyProof, verifyScoreProof } from "./proofs.ts";
import type { Prover } from "./recompute.ts";
import {
  archiveRoot,
  base64,
  bytesOf,
  hashOf,
  headFrom,
  headOf,
  hexOf,
  leafOf,
  linesFromEnd,
  rootFrom,
  uint64,
} from "./trees.ts";

export { Change, Changes, Row, Rows, type Vouched } from "./answers.ts";
export type * from "./declarations.d.ts";
export type { Entry, Known } from "./proofs.ts";
export type { Sha256 } from "./trees.ts";
export {
  ApiError,
  archiveRoot,
  checkpointIn,
  ForkedLogError,
  IntegrityError,
  linesFromEnd,
  VerificationError,
  verifyCheckpoint,
  verifyCopy,
  verifyProof,
  verifyScoreProof,
};

/** What can be said with any call. */
export interface CallOptions {
  /** Ends the call, its waits and its connection. */
  signal?: AbortSignal | undefined;
}

/** What can be said with calls that read from a snapshot. */
export interface ReadOptions extends CallOptions {
  /** The snapshot to read from: its id, or a time. The current one if left out. */
  asOf?: string | undefined;
}

/** How a client is set up. */
export interface ClientOptions {
  /** Address of the service, with or without `/api/v1`. */
  url: string | URL;
  /** API key. It is sent to this address only, and redirects are refused. */
  key?: string | undefined;
  /** Sends the requests; for proxies, logging and tests. */
  fetch?: typeof globalThis.fetch;
  /**
   * Milliseconds within which the head of an answer must come, then its body; of answers in lines, every next piece.
   * 30,000 if left out.
   */
  timeout?: number;
  /**
   * How often a request is repeated that failed for a reason that may pass: a network error, an answer that broke off,
   * 502, 503, 504, or 429. 6 if left out. Answers in lines may fail so often without a new line.
   */
  retries?: number;
  /**
   * The most milliseconds to wait before such a repetition. When `Retry-After` says more, the error is thrown. 60,000
   * if left out.
   */
  maxWait?: number;
  /** The most bytes of an answer, other than one in lines. 2^28 if left out. */
  maxBytes?: number;
  /**
   * The most bytes of the archive's index that are kept for later recomputations, checked. 2^26 if left out. Browsers
   * keep as many more in their Cache API, where they have it.
   */
  keepBytes?: number;
}

/**
 * What you trust when you recompute: the publisher's `key`, or a policy with witnesses (c2sp.org/tlog-policy) in its
 * place, as for verifyProof; or, without keys, `entry`: the SHA-256 of the text of the log's entry, in hexadecimal. A
 * `snapshotId` alone shows that markets belong to the snapshot, but not that none is left out. Without all of them an
 * answer is only shown to agree with itself. `since` is a checkpoint that you have, such as `vouched.checkpoint.text` of
 * an earlier call: the log must go on from it, or the call throws ForkedLogError.
 *
 * Unless you say which snapshot you mean, by `entry`, `snapshotId`, `asOf` or a cursor, the entry must be the last one of
 * the checkpoint's log, which no rollback has withdrawn.
 */
export interface Trust {
  key?: string | readonly string[] | undefined;
  entry?: string | undefined;
  snapshotId?: string | undefined;
  since?: string | undefined;
}

export interface Proving extends CallOptions {
  trust?: Trust | undefined;
}

export interface Verifying extends Proving {
  verified?: boolean | undefined;
}

/** A total and facets that were recomputed; `bytes` and `requests` are what it took. */
export interface Recomputed extends MarketFacets {
  commit: number;
  bytes: number;
  requests: number;
  vouched: Vouched;
}

/** That an id is not among the `markets` of a snapshot; `bytes` and `requests` are what it took to show. */
export interface Absence {
  snapshotId: string;
  commit: number;
  markets: number;
  bytes: number;
  requests: number;
  vouched: Vouched;
}

/** @internal A request. */
interface Asked extends CallOptions {
  query?: Query;
  accept?: string;
  body?: string;
}

/** @internal What is read of an answer, whose `step` keeps to the time that it may take. */
type Read<T> = (answer: { response: Response; text: ReadText; step: Step }) => Promise<T>;

const encoded = encodeURIComponent;
const passing = new Set([429, 502, 503, 504]);
const ownPassing = new Set(["UNREACHABLE", "TIMEOUT", "BROKEN_ANSWER"]);

/** A client of the service. Between calls it keeps no connection or timer, and only what was recomputed from. */
export class Client {
  #base: string;
  #key: string | undefined;
  #fetch: typeof globalThis.fetch;
  #timeout: number;
  #retries: number;
  #maxWait: number;
  #maxBytes: number;
  #keepBytes: number;
  #proving: Promise<Prover> | undefined;

  constructor({
    url,
    key,
    fetch = globalThis.fetch.bind(globalThis),
    timeout = 30_000,
    retries = 6,
    maxWait = 60_000,
    maxBytes = 2 ** 28,
    keepBytes = 2 ** 26,
  }: ClientOptions) {
    const base = String(url).replace(/\/+$/, "");
    if (!/^https?:\/\/[^/?#@]+(\/[^?#]*)?$/i.test(base) || !URL.canParse(base))
      throw new ApiError(
        "INVALID_URL",
        `url must be an address as https://HOST, and is ${base.replace(/\/\/.*@/, "//")}.`,
        { title: "Invalid address" },
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

  /** All scored protocols, the highest BRI first. */
  scores(options?: ReadOptions): Promise<ScoreList> {
    return this.#read("/scores", options);
  }

  /** The score of one protocol. Throws ApiError `PROTOCOL_NOT_FOUND`. */
  score(slug: string, options?: ReadOptions): Promise<ProtocolScore> {
    return this.#read(`/scores/${encoded(slug)}`, options);
  }

  /** The scores of up to 50 protocols, in the order asked. */
  batch(slugs: readonly string[], options?: CallOptions): Promise<ScoreBatch> {
    return this.#json("/scores/batch", { ...options, body: JSON.stringify({ slugs }) });
  }

  /** Seven days of a protocol's scores, oldest first. Needs the Developer plan. */
  history(slug: string, options?: ReadOptions): Promise<ScoreHistory> {
    return this.#read(`/scores/${encoded(slug)}/history`, options);
  }

  /** A protocol's dimensions with change and percentile. Needs the Developer plan. */
  dimensions(slug: string, options?: ReadOptions): Promise<ScoreDimensions> {
    return this.#read(`/scores/${encoded(slug)}/dimensions`, options);
  }

  /** Which snapshot is served and how fresh it is. Needs no key and no quota. */
  status(options?: CallOptions): Promise<Status> {
    return this.#json("/status", { ...options });
  }

  /** The plan of the key and what is left of the day's quota. */
  usage(options?: CallOptions): Promise<Usage> {
    return this.#json("/usage", { ...options });
  }

  /**
   * One page of the archive. Needs the Aegis plan, as all of the archive does. With `verified` it is shown to have
   * exactly the markets that match, as by rows.
   */
  async page(filters: Filters = {}, options?: Verifying): Promise<MarketPage & { vouched?: Vouched }> {
    if (!options?.verified) return (await this.#page(filters, options)).page;
    for await (const page of this.pages(filters, options)) return page;
    throw broken("There is no page.");
  }

  /**
   * Walks through the archive page by page, from `filters.cursor` on if there is one. All pages are of one snapshot.
   * When the store no longer keeps it, ApiError `CURSOR_EXPIRED` is thrown, and its `resumeCursor` leads on in the
   * current snapshot. With `verified` each is shown to have exactly the markets that match, as by rows.
   */
  async *pages(
    filters: Filters = {},
    options?: Verifying,
  ): AsyncGenerator<MarketPage & { vouched?: Vouched }, void, void> {
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
   */
  rows(filters: Filters = {}, options?: Verifying): Rows {
    return new Rows(filters, (answer) =>
      options?.verified
        ? this.#verified(filters, answer, options)
        : this.#lines("/markets/historical", answer, options),
    );
  }

  async *#verified(filters: Filters, rows: Shown, options: Verifying) {
    yield* (await this.#prover()).lines(filters, rows, options);
  }

  /**
   * Counts the markets that match by one or several of their fields:
   * `client.facets(["tier", "month"], { disputed: true })`.
   * @param filters `limit`: the most values listed of each
   */
  facets(
    by: readonly string[],
    filters?: Filters & { limit?: number },
    options?: CallOptions,
  ): Promise<MarketFacets> {
    return this.#json("/markets/facets", { ...options, query: { by: by.join(), ...filters } });
  }

  /**
   * How many markets match, and their facets, evaluated here on those sections of the archive's index that it takes.
   * Each is checked against the index root that the log's entry names, so nothing of it is the service's word:
   * `client.recompute({ filters: { disputed: true }, by: ["tier"], trust: { key } })`. Sections are kept for later
   * calls. Throws VerificationError.
   * @param options `limit`: the most values listed of each facet
   */
  async recompute(
    options: Proving & {
      filters?: Omit<Filters, "page" | "pageSize" | "cursor" | "skip" | "asOf">;
      by?: readonly string[];
      limit?: number | undefined;
      asOf?: string | undefined;
    } = {},
  ): Promise<Recomputed> {
    return (await this.#prover()).recompute(options);
  }

  /**
   * Shows that an id is not in the archive, by what the archive's index has in its place. Throws VerificationError, and
   * ApiError `NOT_FOUND` when the service says that the id is there.
   */
  async absent(id: string, options: Proving & { asOf?: string | undefined } = {}): Promise<Absence> {
    return (await this.#prover()).absent(id, options);
  }

  #prover(): Promise<Prover> {
    this.#proving ??= import("./recompute.ts").then(
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

  /** The tier of each protocol, and which tiers changed in the last 30 days, newest first. */
  tiers(options?: CallOptions): Promise<Tiers> {
    return this.#json("/tiers", { ...options });
  }

  /** The snapshots that can be read, newest first, each with its archive's root. */
  snapshots(options?: CallOptions): Promise<SnapshotList> {
    return this.#json("/snapshots", { ...options });
  }

  /**
   * The exports of the archive as Parquet files, newest first. Files are fetched by their `url`, with the key, and may
   * be in ranges.
   */
  exports(options?: CallOptions): Promise<ExportList> {
    return this.#json("/markets/exports", { ...options });
  }

  /** One market. Throws ApiError `MARKET_NOT_FOUND`. */
  market(id: string, options?: ReadOptions): Promise<HistoricalMarket> {
    return this.#read(`/markets/${encoded(id)}`, options);
  }

  /** One market with the proof that it belongs to its snapshot. `verifyProof` checks it. */
  proof(id: string, options?: ReadOptions): Promise<MarketProof> {
    return this.#read(`/markets/${encoded(id)}/proof`, options);
  }

  /**
   * The score of one protocol with the proof that it belongs to its snapshot. `verifyScoreProof` checks it.
   */
  scoreProof(slug: string, options?: ReadOptions): Promise<ScoreProof> {
    return this.#read(`/scores/${encoded(slug)}/proof`, options);
  }

  /**
   * The newest signed checkpoint of the log, as text. `verifyCheckpoint` checks it. Needs no key and no quota. Keep it,
   * and pass it the next time as `since`: then it is also checked that the log only grew. Throws ForkedLogError when it
   * did not.
   */
  async checkpoint({
    since,
    ...options
  }: CallOptions & { since?: string | undefined } = {}): Promise<string> {
    const found = await this.#ask("/checkpoint", { ...options, accept: "text/plain" }, ({ text }) =>
      text(String),
    );
    if (since !== undefined) await this.requireSameLog(since, found, options);
    return found;
  }

  /**
   * Checks that the log of one checkpoint is the beginning of that of another, by tiles of the service's log
   * (c2sp.org/tlog-tiles). Their signatures are checked by `verifyCheckpoint`. Throws ForkedLogError.
   */
  async requireSameLog(before: string, after: string, options?: CallOptions): Promise<void> {
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
   * @param options `until`: the current snapshot if left out
   */
  changes(
    since: string,
    { until, skip = 0, ...options }: CallOptions & { until?: string | undefined; skip?: number } = {},
  ): Changes {
    return new Changes({ since, until, skip }, (answer) => this.#lines("/markets/changes", answer, options));
  }

  #page<P extends { count: number; markets: unknown[] } = MarketPage>(
    query: Filters,
    options: CallOptions | undefined,
    parse: (text: string) => P = JSON.parse,
  ) {
    return this.#ask("/markets/historical", { ...options, query }, async ({ response, text }) => {
      const page = await text(parse);
      if (page.count !== page.markets.length) throw broken("The page lacks markets.");
      return { page, snapshot: response.headers.get("X-Snapshot-Id") ?? "" };
    });
  }

  #read(path: string, { signal, asOf }: ReadOptions = {}) {
    return this.#json(path, { signal, query: { asOf } });
  }

  #json(path: string, how: Asked) {
    return this.#ask(path, how, ({ text }) => text(JSON.parse));
  }

  /** Asks until `read` has an answer or a failure is final. */
  async #ask<T>(path: string, how: Asked, read: Read<T>): Promise<T> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await read(await this.#open(path, how));
      } catch (error) {
        await this.#pause(error, failures, how.signal);
      }
    }
  }

  /** The lines of an answer, taken up again wherever it breaks off. */
  async *#lines(
    path: string,
    answer: Answer,
    { signal }: CallOptions = {},
  ): AsyncGenerator<string, void, void> {
    for (let failures = 0; ; failures += 1) {
      const before = answer.skip;
      let close: (() => void) | undefined;
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

  /** Waits before a request is repeated. Throws the error when it is final. */
  async #pause(error: unknown, failures: number, signal: AbortSignal | undefined) {
    signal?.throwIfAborted();
    if (!(error instanceof ApiError) || failures >= this.#retries) throw error;
    if (!passing.has(error.status) && !ownPassing.has(error.code)) throw error;
    const asked = (error.retryAfter ?? 0) * 1000;
    if (asked > this.#maxWait) throw error;
    // Random, so that clients that failed together do not come back together.
    const wait = asked + Math.random() * Math.min(500 * 2 ** failures, this.#maxWait);
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

  /** Sends one request and waits for the head of its answer. Throws ApiError unless that is a success. */
  async #open(path: string, { query = {}, accept = "application/json", body, signal }: Asked) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(given as [string, string][]);
    const stop = new AbortController();
    const step: Step = async (work) => {
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
    const text: ReadText = (parse, decoder) =>
      step(async () => parse(await textIn(response, this.#maxBytes, decoder)));
    if (!response.ok) throw await refusalOf(response, text);
    return { response, text, step, close: () => stop.abort() };
  }
}

/** @internal What recompute.mjs has from here: with a copy of its own, errors would be of another class. */
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

/** @internal */
export interface Lent {
  ask: <T>(path: string, how: Asked, read: Read<T>) => Promise<T>;
  requireSameLog: Client["requireSameLog"];
  rows: (
    query: Filters,
    options: CallOptions,
  ) => { answer: Shown; lines: AsyncGenerator<string, void, void> };
}

/** @internal */
export type Tools = typeof shared & Lent;
