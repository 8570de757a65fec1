import { toHex } from "../../../../snapshots/format/bytes.ts";
import { ApiError, type CallOptions, Client, type Tiers } from "../../client/client.ts";
import type { Store } from "./state.ts";

/**
 * The source of the page's data. When the service serves the page, all data comes from it. When a CDN serves the page,
 * the scores are files beside it, and the rest comes from the service that `site/api.json` names, if any. The key is
 * kept only in this object and sent only to the service.
 */
export class Api {
  #store;
  #key: string | undefined;
  /** The base of API paths, without a slash at the end; undefined when there is no service. */
  #base: string | undefined;
  /** The address below which badges are published, if they are. */
  published: string | undefined;
  /** The address of a link to where keys are issued, if the operator names one. */
  contact: string | undefined;
  /** Asks the service, with the key if there is one. */
  service: Client;
  /** What has the public scores in place of the service. */
  files: Files | undefined;

  constructor(
    store: Store,
    { api: base, site, contact }: { api: string | null; site?: string; contact?: string },
  ) {
    this.#store = store;
    this.#base = base ?? undefined;
    this.published = site;
    this.contact = contact;
    this.service = this.#clientWith(undefined);
    if (base === null || isElsewhere(base)) this.files = new Files();
  }

  /** Reads which API the file `site/api.json` names. */
  static async find(store: Store): Promise<Api> {
    try {
      const response = await request(absolute("site/api.json"));
      if (!response.ok) throw new Error(`site/api.json: ${response.status}`);
      return new Api(store, await response.json());
    } catch (cause) {
      throw new ApiError("UNREACHABLE", "Check your connection.", {
        title: "The service cannot be reached",
        cause,
      });
    }
  }

  async look() {
    const newest = await this.service.status();
    // The status of the same snapshot may have a later time of check.
    const before = this.state.shown;
    const shown = before && before.snapshotId !== newest.snapshotId ? before : newest;
    this.#store.set({ newest, shown });
    return shown;
  }

  async pin() {
    return this.state.shown ?? (await this.look());
  }

  /** The snapshots that the plan can read, newest first. */
  async snapshots(signal: AbortSignal) {
    const [{ snapshots }, { checkedAt, ageSeconds }] = await Promise.all([
      this.service.snapshots({ signal }),
      this.pin(),
    ]);
    // A Developer key looks back as far as a history goes, by the service's clock.
    const now = Date.parse(checkedAt) + 1000 * ageSeconds;
    const since = new Date(now - 7 * 86_400_000).toISOString();
    return snapshots.filter(({ publishedAt }) => this.state.plan === "aegis" || publishedAt >= since);
  }

  /** Whether there is a service to ask, not only files. */
  get live() {
    return this.#base !== undefined;
  }

  get state() {
    return this.#store.state;
  }

  /** Answers what takes no key: scores, and changes of tiers. */
  get scores(): Client {
    return this.files ?? this.service;
  }

  /** Absolute address of the API, for lines to paste. */
  get base() {
    return absolute(this.#base ?? "api/v1");
  }

  /** Uses this key from now on if the service accepts it. Otherwise throws ApiError and changes nothing. */
  async useKey(key: string) {
    const service = this.#clientWith(key);
    const { plan, limit, remaining, reset } = await service.usage();
    [this.#key, this.service] = [key, service];
    this.#store.again({ plan, quota: { limit, remaining, reset }, own: undefined });
  }

  forgetKey() {
    this.#key = undefined;
    this.service = this.#clientWith(undefined);
    this.#store.again({ plan: "free", quota: undefined, own: undefined });
  }

  /** Downloads from the service, or from a file beside the page, in this media type. */
  async download(address: string, type: string) {
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

  #clientWith(key: string | undefined) {
    return new Client({
      url: this.base,
      ...(key !== undefined && { key }),
      // The page says at once what is wrong, and its user decides when to try again.
      retries: 0,
      fetch: (address, how) => this.#ask(String(address), how, key),
    });
  }

  async #ask(address: string, how: RequestInit | undefined, key: string | undefined) {
    // The browser revalidates its copy, which costs no quota if the copy is current.
    const response = await request(address, { ...how, cache: "no-cache" });
    // The snapshot shown was withdrawn or collected. The next try shall get the one that is served.
    if (response.status === 410) this.#store.set({ shown: undefined });
    const [limit = 0, remaining = Number.NaN, reset = 0] = ["Limit", "Remaining", "Reset"].map((name) =>
      Number.parseInt(response.headers.get(`X-RateLimit-${name}`) ?? "", 10),
    );
    // The key may have changed meanwhile; the response then counts another key's quota.
    if (key === this.#key && !Number.isNaN(remaining)) {
      this.#store.set({ quota: { limit, remaining, reset } });
    }
    return response.ok && address.includes("/markets/index") ? metered(response, this.#store) : response;
  }
}

/** Enough for a list and the protocols that are compared. */
const kept = 8;

/** The files beside the page, where it is published without the service. */
class Files extends Client {
  /** The files read last, by address. A citation is about these bytes, even if the file has changed since. */
  #read = new Map<string, Promise<ArrayBuffer>>();

  constructor() {
    super({
      url: absolute("api/v1"),
      retries: 0,
      fetch: async (address, how) => {
        const file = `${address}.json`;
        const response = await request(file, how);
        if (response.ok) this.#keep(file, response.clone());
        return response;
      },
    });
  }

  #keep(address: string, copy: Response) {
    this.#read.delete(address);
    this.#read.set(address, copy.arrayBuffer());
    const [oldest] = this.#read.keys();
    if (this.#read.size > kept && oldest) this.#read.delete(oldest);
  }

  /**
   * The SHA-256 of what was read of a file, in hexadecimal digits; undefined where it is not known, or cannot be
   * computed.
   * @param path below the API
   */
  async hashOf(path: string) {
    const bytes = await this.#read.get(absolute(`api/v1/${path}.json`));
    // Browsers have it on secure origins only.
    if (!bytes || !crypto.subtle) return undefined;
    return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
  }

  override async tiers({ signal }: CallOptions = {}): Promise<Tiers> {
    const response = await request(absolute("tiers.json"), signal ? { signal } : {});
    if (!response.ok) throw new Error("The changes of tier cannot be read at present.");
    return response.json();
  }
}

/** @param path relative to the page, so that the site works in any folder, or an absolute address */
const absolute = (path: string) => new URL(path, document.baseURI).href;

const isElsewhere = (path: string) => new URL(path, document.baseURI).origin !== location.origin;

function request(address: string, how: RequestInit = {}) {
  return fetch(address, {
    ...how,
    mode: isElsewhere(address) ? "cors" : "same-origin",
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
}

/** A response that counts its bytes in the store as they come. */
function metered(response: Response, store: Store) {
  const count = (bytes: number, requests: number) => {
    const { fetched } = store.state;
    store.set({ fetched: { bytes: fetched.bytes + bytes, requests: fetched.requests + requests } });
  };
  count(0, 1);
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform: (bytes, controller) => {
      count(bytes.length, 0);
      controller.enqueue(bytes);
    },
  });
  return new Response(response.body?.pipeThrough(counter) ?? null, response);
}
