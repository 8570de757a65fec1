import { ApiError, Client } from "./client/client.ts";

/**
 * @import { Status } from "../../schemas/envelopes.ts"
 * @import { Tiers } from "../../schemas/store/snapshot.ts"
 * @import { Usage } from "./client/client.ts"
 * @import { Own } from "./recomputing.js"
 */

/**
 * Requests left today; `reset` in epoch seconds.
 * @typedef {{ limit: number, remaining: number, reset: number }} Quota
 */

/**
 * Where the data of the page comes from. When the service serves the page, all comes from it. When a CDN serves the
 * page, the scores are files beside it, and the rest comes from the service that `site/api.json` names, if any. The key
 * is kept only in this object and sent only to the service.
 */
export class Api {
  /** @type {string | undefined} */
  #key;
  /** The base of API paths, without a slash at the end; undefined when there is no service.
   * @type {string | undefined} */
  #base;
  /** The address below which badges are published, if they are.
   * @type {string | undefined} */
  published;
  /** Asks the service, with the key if there is one. */
  service;
  /** Reads the files beside the page. */
  #beside;
  /** The bytes of those that were read last, by their addresses.
   * @type {Map<string, Promise<ArrayBuffer>>} */
  #files = new Map();
  /** @type {Usage["plan"]} */
  plan = "free";
  /** @type {Quota | undefined} */
  quota;
  /** Called whenever `quota` changes. */
  onquota = () => {};
  /** The snapshot that the page shows, and goes on showing while it can be read; undefined until it is known.
   * @type {Status | undefined} */
  shown;
  /** What numbers of the archive are recomputed from, once the reader wants that.
   * @type {Own | undefined} */
  own;
  /** What came of the archive's index so far. */
  fetched = { bytes: 0, requests: 0 };
  /** Called whenever `fetched` changes. */
  onfetched = () => {};
  /** Called when the service has said which snapshot it serves.
   * @type {(newest: Status) => void} */
  onstatus = () => {};

  /**
   * @param {string | null} base
   * @param {string} [published]
   */
  constructor(base, published) {
    this.#base = base ?? undefined;
    this.published = published;
    this.service = this.#clientWith(undefined);
    this.#beside = new Client({
      url: absolute("api/v1"),
      retries: 0,
      fetch: async (address, how) => {
        const response = await request(`${address}.json`, how);
        if (response.ok) this.#keep(String(address), response.clone());
        return response;
      },
    });
  }

  /** The API named by the file `site/api.json`. Throws ApiError. */
  static async find() {
    try {
      /** @type {{ api: string | null, site?: string }} */
      const { api, site } = await (await request(absolute("site/api.json"), {})).json();
      return new Api(api, site);
    } catch (cause) {
      throw new ApiError("UNREACHABLE", "Check your connection.", {
        title: "The service cannot be reached",
        cause,
      });
    }
  }

  /**
   * Keeps the bytes of a file beside the page, so that they can be cited whatever lies there by then.
   * @param {string} address
   * @param {Response} copy
   */
  #keep(address, copy) {
    this.#files.delete(address);
    this.#files.set(address, copy.arrayBuffer());
    const [oldest] = this.#files.keys();
    if (this.#files.size > filesKept && oldest) this.#files.delete(oldest);
  }

  /**
   * The SHA-256 of what was read of a file beside the page, in hexadecimal digits; undefined where it is not known, or
   * cannot be computed.
   * @param {string} path below the API
   */
  async hashOf(path) {
    const bytes = await this.#files.get(absolute(`api/v1/${path}`));
    // Browsers have it on secure origins only.
    if (!bytes || !crypto.subtle) return undefined;
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** Asks which snapshot is served. Throws ApiError. */
  async look() {
    const newest = await this.service.status();
    // Of the same snapshot it may say anew when it was checked.
    if (!this.shown || this.shown.snapshotId === newest.snapshotId) this.shown = newest;
    this.onstatus(newest);
    return this.shown;
  }

  /** The snapshot that the page shows. Throws ApiError. */
  async pin() {
    return this.shown ?? (await this.look());
  }

  /**
   * The snapshots that the plan can read, newest first. Throws ApiError.
   * @param {AbortSignal} signal
   */
  async snapshots(signal) {
    const [{ snapshots }, { checkedAt, ageSeconds }] = await Promise.all([
      this.service.snapshots({ signal }),
      this.pin(),
    ]);
    // A Developer key looks back as far as a history goes, by the service's clock.
    const now = Date.parse(checkedAt) + 1000 * ageSeconds;
    const since = new Date(now - 7 * 86_400_000).toISOString();
    return snapshots.filter(({ publishedAt }) => this.plan === "aegis" || publishedAt >= since);
  }

  /**
   * The tiers and their changes: from the service, or beside a published page. Throws Error.
   * @param {AbortSignal} signal
   * @returns {Promise<Tiers>}
   */
  async tiers(signal) {
    if (this.scores === this.service) return this.service.tiers({ signal });
    const response = await request(absolute("tiers.json"), { signal });
    if (!response.ok) throw new Error("The changes of tier cannot be read at present.");
    return response.json();
  }

  /** Whether there is a service to ask, not only files. */
  get live() {
    return this.#base !== undefined;
  }

  get keyed() {
    return this.#key !== undefined;
  }

  /** Reads the scores. */
  get scores() {
    return this.#base === undefined || isElsewhere(this.#base) ? this.#beside : this.service;
  }

  /** Absolute address of the API, for lines to paste. */
  get base() {
    return absolute(this.#base ?? "api/v1");
  }

  /** Addresses of the data, for links. */
  get addresses() {
    const base = this.#base;
    // The service serves its documentation beside its API.
    const docs = base && new URL("../../docs/", new URL(`${base}/`, document.baseURI)).href;
    return {
      scores: base === undefined || isElsewhere(base) ? "api/v1/scores.json" : `${base}/scores`,
      docs,
    };
  }

  /**
   * Uses this key from now on if the service accepts it. Otherwise throws ApiError and changes nothing.
   * @param {string} key
   */
  async useKey(key) {
    const service = this.#clientWith(key);
    const { plan, limit, remaining, reset } = await service.usage();
    [this.#key, this.service, this.own] = [key, service, undefined];
    this.plan = plan;
    this.quota = { limit, remaining, reset };
    this.onquota();
  }

  forgetKey() {
    [this.#key, this.own] = [undefined, undefined];
    this.service = this.#clientWith(undefined);
    this.plan = "free";
    this.quota = undefined;
    this.onquota();
  }

  /**
   * What an address of the service, or a file beside the page, gives as this media type. Throws Error.
   * @param {string} address
   * @param {string} type
   */
  async download(address, type) {
    const key = address.startsWith(`${this.base}/`) ? this.#key : undefined;
    const headers = { Accept: type, ...(key !== undefined && { Authorization: `Bearer ${key}` }) };
    const response = await this.#ask(address, { headers }, this.#key);
    if (response.ok) return response.blob();
    const { code, detail, title } = await response.json();
    throw new ApiError(code, detail, { title });
  }

  /** The profile with which clients of Delta Sharing read the archive by this key. */
  sharingProfile() {
    const endpoint = new URL("../../delta-sharing/", `${this.base}/`).href;
    const profile = { shareCredentialsVersion: 1, endpoint, bearerToken: this.#key };
    return new Blob([JSON.stringify(profile)], { type: "application/json" });
  }

  /** @param {string | undefined} key */
  #clientWith(key) {
    return new Client({
      url: this.base,
      ...(key !== undefined && { key }),
      // The page says at once what is wrong, and its user decides when to try again.
      retries: 0,
      fetch: (address, how) => this.#ask(String(address), how, key),
    });
  }

  /** Tells of the bytes of an answer as they come.
   * @param {Response} response */
  #counted(response) {
    this.fetched.requests += 1;
    /** @type {TransformStream<Uint8Array, Uint8Array>} */
    const counter = new TransformStream({
      transform: (bytes, controller) => {
        this.fetched.bytes += bytes.length;
        this.onfetched();
        controller.enqueue(bytes);
      },
    });
    return new Response(response.body?.pipeThrough(counter) ?? null, response);
  }

  /**
   * @param {string} address
   * @param {RequestInit | undefined} how
   * @param {string | undefined} key
   */
  async #ask(address, how, key) {
    // The browser revalidates its copy, which costs no quota if that is current.
    const response = await request(address, { ...how, cache: "no-cache" });
    // The snapshot shown was withdrawn or collected: who tries again shall get the one that is served.
    if (response.status === 410) this.shown = undefined;
    const [limit = 0, remaining = Number.NaN, reset = 0] = ["Limit", "Remaining", "Reset"].map((name) =>
      Number.parseInt(response.headers.get(`X-RateLimit-${name}`) ?? "", 10),
    );
    // The key may have changed meanwhile; the response then counts another key's quota.
    if (key === this.#key && !Number.isNaN(remaining)) {
      this.quota = { limit, remaining, reset };
      this.onquota();
    }
    return response.ok && address.includes("/markets/index") ? this.#counted(response) : response;
  }
}

/** Those of a list and of the protocols that are compared, and some more. */
const filesKept = 8;

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
