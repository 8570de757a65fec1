import { ApiError, Client } from "./client.js";

/**
 * @import { StoredScoreList as ScoreList } from "../../schemas/envelopes.ts"
 * @import { Filters, Usage } from "./client.js"
 */

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
  /** Asks the service, with the key if there is one. */
  #service;
  /** Reads the scores: from the service when it serves the page, else from the files beside it. */
  #scores;
  /** @type {Usage["plan"]} */
  plan = "free";
  /** @type {Quota | undefined} */
  quota;
  /** Called whenever `quota` changes. */
  onquota = () => {};

  /** @param {string | null} base */
  constructor(base) {
    this.#base = base ?? undefined;
    this.#service = this.#clientWith(undefined);
    const beside = new Client({
      url: absolute("api/v1"),
      retries: 0,
      fetch: (address, how) => request(`${address}.json`, how),
    });
    this.#scores = () => (this.live && !isElsewhere(base ?? "") ? this.#service : beside);
  }

  /** @param {string | undefined} key */
  #clientWith(key) {
    return new Client({
      url: absolute(this.#base ?? "api/v1"),
      ...(key !== undefined && { key }),
      // The page says at once what is wrong, and its user decides when to try again.
      retries: 0,
      fetch: async (address, how) => {
        // The browser revalidates its copy, which costs no quota if that is current.
        const response = await request(String(address), { ...how, cache: "no-cache" });
        // The key may have changed meanwhile; the response then counts another key's quota.
        if (key === this.#key) this.#count(response.headers);
        return response;
      },
    });
  }

  /** The API named by the file `site/api.json`. Throws ApiError. */
  static async find() {
    try {
      /** @type {{ api: string | null }} */
      const { api } = await (await request(absolute("site/api.json"), {})).json();
      return new Api(api);
    } catch (cause) {
      throw new ApiError("UNREACHABLE", "Check your connection and reload the page.", {
        title: "The service cannot be reached",
        cause,
      });
    }
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
    return this.#scores().scores({ signal });
  }

  /**
   * @param {string} slug
   * @param {AbortSignal} signal
   */
  score(slug, signal) {
    return this.#scores().score(slug, { signal });
  }

  /**
   * @param {string} slug
   * @param {AbortSignal} signal
   */
  history(slug, signal) {
    return this.#service.history(slug, { signal });
  }

  /**
   * @param {string} slug
   * @param {AbortSignal} signal
   */
  dimensions(slug, signal) {
    return this.#service.dimensions(slug, { signal });
  }

  /**
   * @param {URLSearchParams} query
   * @param {AbortSignal} signal
   */
  markets(query, signal) {
    // The service checks the texts that were typed in, and says what is wrong with them.
    const filters = /** @type {Filters} */ (Object.fromEntries(query));
    return this.#service.page(filters, { signal });
  }

  status(/** @type {AbortSignal} */ signal) {
    return this.#service.status({ signal });
  }

  /**
   * Uses this key from now on if the service accepts it. Otherwise throws ApiError and changes nothing.
   * @param {string} key
   */
  async useKey(key) {
    const service = this.#clientWith(key);
    const { plan, limit, remaining, reset } = await service.usage();
    [this.#key, this.#service] = [key, service];
    this.plan = plan;
    this.quota = { limit, remaining, reset };
    this.onquota();
  }

  forgetKey() {
    this.#key = undefined;
    this.#service = this.#clientWith(undefined);
    this.plan = "free";
    this.quota = undefined;
    this.onquota();
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

/** @param {string} path relative to the page, so that the site works in any folder, or an absolute address */
const absolute = (path) => new URL(path, document.baseURI).href;

/** @param {string} path */
const isElsewhere = (path) => new URL(path, document.baseURI).origin !== location.origin;

/**
 * @param {string} address
 * @param {RequestInit | undefined} how
 */
function request(address, how) {
  return fetch(address, {
    ...how,
    mode: isElsewhere(address) ? "cors" : "same-origin",
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
}
