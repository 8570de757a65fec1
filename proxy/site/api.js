/**
 * @import { StoredScoreList as ScoreList, ScoreHistory, ScoreDimensions, MarketPage, Usage, Status } from "../../schemas/envelopes.ts"
 * @import { ProtocolScore } from "../../schemas/records.ts"
 * @import { Problem } from "../../schemas/errors.ts"
 */

/** A failed request. Title and detail come from the service's problem document, or are written here if there is none. */
export class ApiError extends Error {
  /**
   * @param {string} title
   * @param {string} detail
   * @param {{ status?: number, parameter?: string | undefined }} [about] `parameter` is the name of the invalid query parameter
   */
  constructor(title, detail, { status = 0, parameter } = {}) {
    super(detail);
    this.title = title;
    this.status = status;
    this.parameter = parameter;
  }
}

/**
 * Requests left today; `reset` in epoch seconds.
 * @typedef {{ limit: number, remaining: number, reset: number }} Quota
 */

/**
 * The data of the page. When the service serves the page, all data comes from it. When a CDN serves the page, the scores are
 * files beside it, and the rest comes from the service that `site/api.json` names, if any. The key is kept only in this
 * object and sent only to the service.
 */
export class Api {
  /** @type {string | undefined} */
  #key;
  /** The base of API paths, without a slash at the end; undefined when there is no service.
   * @type {string | undefined} */
  #base;
  /** @type {Usage["plan"]} */
  plan = "free";
  /** @type {Quota | undefined} */
  quota;
  /** Called whenever `quota` changes. */
  onquota = () => {};

  /** @param {string | null} base */
  constructor(base) {
    this.#base = base ?? undefined;
  }

  /** The API named by the file `site/api.json`. Throws ApiError. */
  static async find() {
    /** @type {{ api: string | null }} */
    const { api } = await (await request("site/api.json", {})).json();
    return new Api(api);
  }

  /** Whether there is a service to ask, not only files. */
  get live() {
    return this.#base !== undefined;
  }

  get keyed() {
    return this.#key !== undefined;
  }

  /** Addresses of the data, for links. */
  get addresses() {
    const base = this.#base;
    // The service serves its documentation beside its API.
    const docs = base && new URL("../../docs/", new URL(`${base}/`, document.baseURI)).href;
    const score = (/** @type {string} */ slug) => `api/v1/scores/${slug}.json`;
    if (base === undefined || isElsewhere(base)) return { scores: "api/v1/scores.json", score, docs };
    return {
      scores: `${base}/scores`,
      score: (/** @type {string} */ slug) => `${base}/scores/${slug}`,
      docs,
    };
  }

  /** @returns {Promise<ScoreList>} */
  scores(/** @type {AbortSignal} */ signal) {
    return this.#read(this.addresses.scores, signal);
  }

  /**
   * @param {string} slug
   * @param {AbortSignal} signal
   * @returns {Promise<ProtocolScore>}
   */
  score(slug, signal) {
    return this.#read(this.addresses.score(slug), signal);
  }

  /**
   * @param {string} slug
   * @param {AbortSignal} signal
   * @returns {Promise<ScoreHistory>}
   */
  history(slug, signal) {
    return this.#read(`${this.#base}/scores/${slug}/history`, signal);
  }

  /**
   * @param {string} slug
   * @param {AbortSignal} signal
   * @returns {Promise<ScoreDimensions>}
   */
  dimensions(slug, signal) {
    return this.#read(`${this.#base}/scores/${slug}/dimensions`, signal);
  }

  /**
   * @param {URLSearchParams} query
   * @param {AbortSignal} signal
   * @returns {Promise<MarketPage>}
   */
  markets(query, signal) {
    return this.#read(`${this.#base}/markets/historical?${query}`, signal);
  }

  /** @returns {Promise<Status>} */
  status(/** @type {AbortSignal} */ signal) {
    return this.#read(`${this.#base}/status`, signal);
  }

  /**
   * Uses this key from now on if the service accepts it. Otherwise throws ApiError and changes nothing.
   * @param {string} key
   */
  async useKey(key) {
    // fetch refuses other characters in a header, and its error message would show the key.
    if (!/^[!-~]+$/.test(key)) {
      throw new ApiError("Invalid API key", "A key is prs_live_ followed by 38 letters and digits.");
    }
    /** @type {Usage} */
    const usage = await (await request(`${this.#base}/usage`, { key })).json();
    this.#key = key;
    this.plan = usage.plan;
    this.quota = { limit: usage.limit, remaining: usage.remaining, reset: usage.reset };
    this.onquota();
  }

  forgetKey() {
    this.#key = undefined;
    this.plan = "free";
    this.quota = undefined;
    this.onquota();
  }

  /**
   * @param {string} path
   * @param {AbortSignal} signal
   */
  async #read(path, signal) {
    const asked = this.#base !== undefined && path.startsWith(`${this.#base}/`);
    const key = asked ? this.#key : undefined;
    const counted = (/** @type {Headers} */ headers) => {
      // The key may have changed meanwhile; the response then counts another key's quota.
      if (key === this.#key) this.#count(headers);
    };
    return (await request(path, { key, signal, counted, fresh: asked })).json();
  }

  /** @param {Headers} headers */
  #count(headers) {
    const [limit, remaining, reset] = ["Limit", "Remaining", "Reset"].map((name) =>
      Number.parseInt(headers.get(`X-RateLimit-${name}`) ?? "", 10),
    );
    if (limit === undefined || remaining === undefined || reset === undefined || Number.isNaN(remaining))
      return;
    this.quota = { limit, remaining, reset };
    this.onquota();
  }
}

/** @param {string} path */
const isElsewhere = (path) => new URL(path, document.baseURI).origin !== location.origin;

/**
 * @param {string} path relative to the page, so that the site works in any folder, or an absolute address
 * @param {{ key?: string | undefined, signal?: AbortSignal, counted?: (headers: Headers) => void, fresh?: boolean }} how
 *   `fresh`: revalidates the browser's cached copy, which costs no quota if that is current
 */
async function request(path, { key, signal, counted, fresh }) {
  const headers = new Headers({ Accept: "application/json" });
  if (key !== undefined) headers.set("Authorization", `Bearer ${key}`);
  /** @type {Response} */
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      headers,
      mode: isElsewhere(path) ? "cors" : "same-origin",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      cache: fresh ? "no-cache" : "default",
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("The service cannot be reached", "Check your connection and reload the page.");
  }
  counted?.(response.headers);
  if (!response.ok) throw await refusal(response);
  return response;
}

/** @param {Response} response */
async function refusal(response) {
  const { status } = response;
  if (!response.headers.get("Content-Type")?.startsWith("application/problem+json")) {
    return status === 404 || status === 403
      ? new ApiError("Not found", "There is nothing at this address.", { status })
      : new ApiError(`Error ${status}`, "Try again later.", { status });
  }
  /** @type {Problem} */
  const { title, detail, parameter } = await response.json();
  return new ApiError(title, detail, { status, parameter });
}
