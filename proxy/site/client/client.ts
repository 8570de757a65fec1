// The client of the Protocol Risk Score Service: one module without dependencies, for browsers and for Node 20 or
// later. What recomputes answers is in a second one beside it, recompute.mjs, which is loaded when it is first needed.

import type {
  ExportList,
  MarketFacets,
  MarketPage,
  MarketProof,
  ScoreBatch,
  ScoreDimensions,
  ScoreHistory,
  ScoreList,
  ScoreProof,
  SnapshotList,
  Status,
  Usage,
} from "../../../schemas/envelopes.ts";
import type { Filters } from "../../../schemas/filters.ts";
import type { HistoricalMarket, ProtocolScore } from "../../../schemas/records.ts";
import type { Tiers } from "../../../schemas/store/stored-objects.ts";
import {
  type Answer,
  bytesIn,
  Changes,
  linesOf,
  type ReadText,
  Rows,
  refusalOf,
  type Step,
  utf8,
} from "./answers.ts";
import type { Read, RequestOptions } from "./asker.ts";
import { ApiError, broken, check, IntegrityError, VerificationError } from "./errors.ts";
import {
  checkpointIn,
  ForkedLogError,
  verifyCheckpoint,
  verifyCopy,
  verifyEntry,
  verifyProof,
  verifyScoreProof,
} from "./proofs.ts";
import type { Prover } from "./recompute.ts";
import { archiveRoot, linesFromEnd } from "./trees.ts";
import type {
  Absence,
  ArchivePage,
  CallOptions,
  ChangesOptions,
  CheckpointOptions,
  ClientOptions,
  FacetFilters,
  Proving,
  ReadOptions,
  Recomputed,
  Recomputing,
  Verifying,
} from "./types.ts";

export { Answer, Change, Changes, Row, Rows } from "./answers.ts";
export type { ErrorDetails } from "./errors.ts";
export type * from "./types.ts";
export type { Filters, MarketProof, ScoreProof, Tiers, Usage };
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

const encoded = encodeURIComponent;
const passing = new Set([429, 502, 503, 504]);
const ownPassing = new Set(["UNREACHABLE", "TIMEOUT", "BROKEN_ANSWER"]);

/** A client of the service. Between calls it keeps no connection or timer, and only what was recomputed from. */
export class Client {
  #base: string;
  #options: Required<Omit<ClientOptions, "url" | "key">> & Pick<ClientOptions, "key">;
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
    this.#options = { key, fetch, timeout, retries, maxWait, maxBytes, keepBytes };
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
  async page(filters: Filters = {}, options?: Verifying): Promise<ArchivePage> {
    if (!options?.verified) return (await this.#page(filters, options)).page;
    for await (const page of this.pages(filters, options)) return page;
    throw broken("There is no page.");
  }

  /**
   * Walks through the archive page by page, from `filters.cursor` on if there is one. All pages are of one snapshot.
   * When the store no longer keeps it, ApiError `CURSOR_EXPIRED` is thrown, and its `resumeCursor` leads on in the
   * current snapshot. With `verified` each is shown to have exactly the markets that match, as by rows.
   */
  async *pages(filters: Filters = {}, options?: Verifying): AsyncGenerator<ArchivePage, void, void> {
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

  async *#verified(filters: Filters, rows: Rows, options: Verifying) {
    yield* (await this.#prover()).lines(filters, rows, options);
  }

  /**
   * Counts the markets that match by one or several of their fields:
   * `client.facets(["tier", "month"], { disputed: true })`.
   */
  facets(by: readonly string[], filters?: FacetFilters, options?: CallOptions): Promise<MarketFacets> {
    return this.#json("/markets/facets", { ...options, query: { by: by.join(), ...filters } });
  }

  /**
   * How many markets match, and their facets, evaluated here on those sections of the archive's index that it takes.
   * Each is checked against the index root that the log's entry names, so nothing of it is the service's word:
   * `client.recompute({ filters: { disputed: true }, by: ["tier"], trust: { key } })`. Sections are kept for later
   * calls. Throws VerificationError.
   * @param options `limit`: the most values listed of each facet
   */
  async recompute(options: Recomputing = {}): Promise<Recomputed> {
    return (await this.#prover()).recompute(options);
  }

  /**
   * Shows that an id is not in the archive, by what the archive's index has in its place. Throws VerificationError, and
   * ApiError `NOT_FOUND` when the service says that the id is there.
   */
  async absent(id: string, options: Proving & ReadOptions = {}): Promise<Absence> {
    return (await this.#prover()).absent(id, options);
  }

  #prover(): Promise<Prover> {
    this.#proving ??= import("./recompute.ts").then(
      ({ proverFor }) =>
        proverFor(
          {
            ApiError,
            ForkedLogError,
            IntegrityError,
            VerificationError,
            broken,
            checkpointIn,
            verifyCheckpoint,
            verifyEntry,
            client: this,
            ask: (path, how, read) => this.#ask(path, how, read),
          },
          { url: this.#base, keepBytes: this.#options.keepBytes },
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
  async checkpoint({ since, ...options }: CheckpointOptions = {}): Promise<string> {
    const checkpoint = await this.#ask("/checkpoint", { ...options, accept: "text/plain" }, ({ text }) =>
      text(String),
    );
    if (since !== undefined) await this.requireSameLog(since, checkpoint, options);
    return checkpoint;
  }

  /**
   * Checks that the log of one checkpoint is the beginning of that of another, by tiles of the service's log
   * (c2sp.org/tlog-tiles). Their signatures are checked by `verifyCheckpoint`. Throws ForkedLogError.
   */
  async requireSameLog(before: string, after: string, options?: CallOptions): Promise<void> {
    const [old, now] = [checkpointIn(before), checkpointIn(after)];
    const same = now.size === old.size ? now.root === old.root : now.size > old.size;
    if (!same || now.origin !== old.origin) throw new ForkedLogError(before, after);
    if (now.size > old.size) await (await this.#prover()).log.requireSameLog(before, after, options);
  }

  /**
   * What differs between two snapshots: `{ op: "delete", id }` by id, then `{ op: "put", text, market }` in the
   * archive's order, each id once. Applied to an exact copy of `since` it gives an exact copy of `until`. An answer
   * that breaks off is taken up again; to go on in another process, pass the result's `snapshotId` as `until` and its
   * `skip`. Throws ApiError `SNAPSHOT_EXPIRED` when the difference is no longer known.
   */
  changes(since: string, { until, skip = 0, ...options }: ChangesOptions = {}): Changes {
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

  #json(path: string, how: RequestOptions) {
    return this.#ask(path, how, ({ text }) => text(JSON.parse));
  }

  /** Asks until `read` has an answer or a failure is final. */
  async #ask<T>(path: string, how: RequestOptions, read: Read<T>): Promise<T> {
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
        // A clean end without any line is a wrong answer, and not one that broke off.
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
    const { retries, maxWait } = this.#options;
    signal?.throwIfAborted();
    if (!(error instanceof ApiError) || failures >= retries) throw error;
    if (!passing.has(error.status) && !ownPassing.has(error.code)) throw error;
    const retryAfter = (error.retryAfter ?? 0) * 1000;
    if (retryAfter > maxWait) throw error;
    // Random, so that clients that failed together do not come back together.
    const wait = retryAfter + Math.random() * Math.min(500 * 2 ** failures, maxWait);
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
  async #open(path: string, { query = {}, accept = "application/json", body, signal }: RequestOptions) {
    const { key, fetch, timeout, maxBytes } = this.#options;
    const parameters = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(parameters as [string, string][]);
    const stop = new AbortController();
    const step: Step = async (work) => {
      const timer = setTimeout(() => stop.abort(), timeout);
      try {
        return await work();
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof ApiError) throw error;
        if (!stop.signal.aborted) throw broken(error instanceof Error ? error.message : String(error));
        const detail = `Nothing came for ${timeout / 1000} s.`;
        throw new ApiError("TIMEOUT", detail, { title: "The service does not answer in time" });
      } finally {
        clearTimeout(timer);
      }
    };
    const response = await step(async () => {
      try {
        return await fetch(`${this.#base}${path}${search.size ? `?${search}` : ""}`, {
          headers: {
            Accept: accept,
            ...(key !== undefined && { Authorization: `Bearer ${key}` }),
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
    const bounds = { path, maxBytes };
    const text: ReadText = (parse) => step(async () => parse(utf8().decode(await bytesIn(response, bounds))));
    const bytes = (most: number) => step(() => bytesIn(response, { ...bounds, most }));
    const bytesByPiece = (most: number) => bytesIn(response, { ...bounds, most }, step);
    if (!response.ok) throw await refusalOf(response, text);
    return { response, text, bytes, bytesByPiece, step, close: () => stop.abort() };
  }
}
