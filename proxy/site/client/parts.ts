import { maxObjectBytes, toHex } from "../../../snapshots/format/bytes.ts";
import { isCount } from "../../../snapshots/format/hash-trees.ts";
import type { Asker, Job } from "./asker.ts";
import type { Sha256 } from "./types.ts";

/** A part of an index by its hash, and what tells that its bytes have that hash. */
export interface Part {
  hash: string;
  bytes: number;
  /** What VerificationError names. */
  what: string;
  /** Which one it is, for messages. */
  name: string;
  hashOf: Sha256;
}

// How many parts are asked for in one answer, how many bytes of them, and how many answers at a time.
export const partsAtOnce = 100;
const [bytesAtOnce, answersAtOnce] = [4 * 2 ** 20, 4];

/**
 * Checked parts, by hash. While they have more than `most` bytes, those that no evaluation needs are forgotten, the
 * least recently used first.
 */
class Memory {
  /** The least recently used first. */
  #parts: Map<string, Uint8Array<ArrayBuffer>> = new Map();
  /** How many evaluations need a part. */
  #needed: Map<string, number> = new Map();
  #bytes = 0;
  #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  has(hash: string) {
    return this.#parts.has(hash);
  }

  get(hash: string) {
    const bytes = this.#parts.get(hash);
    if (!bytes) throw new Error(`${hash} was not loaded.`);
    this.#parts.delete(hash);
    this.#parts.set(hash, bytes);
    return bytes;
  }

  set(hash: string, bytes: Uint8Array<ArrayBuffer>) {
    if (this.#parts.has(hash)) return;
    this.#parts.set(hash, bytes);
    this.#bytes += bytes.length;
    this.#forget();
  }

  /** Keeps these parts, as they come, while `work` lasts. */
  async during<T>(hashes: readonly string[], work: () => Promise<T>) {
    const count = (step: number) => {
      for (const hash of hashes) this.#needed.set(hash, (this.#needed.get(hash) ?? 0) + step);
    };
    count(1);
    try {
      return await work();
    } finally {
      count(-1);
      for (const hash of hashes) if (this.#needed.get(hash) === 0) this.#needed.delete(hash);
      this.#forget();
    }
  }

  #forget() {
    for (const [hash, { length }] of this.#parts) {
      if (this.#bytes <= this.#most) return;
      if (this.#needed.has(hash)) continue;
      this.#parts.delete(hash);
      this.#bytes -= length;
    }
  }
}

/** The part of the browsers' Cache API that is used. */
interface WebCache {
  keys(): Promise<readonly { url: string }[]>;
  match(url: string): Promise<Response | undefined>;
  put(url: string, response: Response): Promise<void>;
  delete(url: string): Promise<boolean>;
}

/**
 * Keeps checked parts between visits, where the platform has the Cache API. What comes from there is checked again. It
 * is best effort: what fails there is asked of the service.
 */
class Disk {
  #url;
  #most;
  #cache: Promise<WebCache | undefined>;
  /** The bytes of what is there, by address, the oldest first. */
  #sizes: Map<string, number> = new Map();
  #bytes = 0;

  constructor(url: string, most: number) {
    this.#url = url;
    this.#most = most;
    this.#cache = this.#open().catch(() => undefined);
  }

  async #open() {
    const cache = await (globalThis as { caches?: { open(name: string): Promise<WebCache> } }).caches?.open(
      "prs-index",
    );
    for (const { url } of (await cache?.keys()) ?? []) this.#count(url);
    return cache;
  }

  #count(url: string) {
    const bytes = Number(new URL(url).searchParams.get("bytes"));
    this.#bytes += bytes - (this.#sizes.get(url) ?? 0);
    this.#sizes.set(url, bytes);
  }

  #address({ hash, bytes }: Part) {
    return new URL(`${this.#url}/markets/index/${hash}?bytes=${bytes}`).href;
  }

  async get(part: Part): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      const found = await (await this.#cache)?.match(this.#address(part));
      return found && new Uint8Array(await found.arrayBuffer());
    } catch {
      return undefined;
    }
  }

  async set(part: Part, bytes: Uint8Array<ArrayBuffer>) {
    try {
      const cache = await this.#cache;
      const url = this.#address(part);
      if (!cache || this.#sizes.has(url)) return;
      this.#count(url);
      await cache.put(url, new Response(bytes));
      for (const [oldest, size] of this.#sizes) {
        if (this.#bytes <= this.#most) break;
        this.#sizes.delete(oldest);
        this.#bytes -= size;
        await cache.delete(oldest);
      }
    } catch {
      // The browser's own bound, or its user's wish.
    }
  }
}

/** The parts of indexes, each checked against its hash before it is used. */
export class Parts {
  #asker: Asker;
  #memory: Memory;
  #disk: Disk;

  constructor(asker: Asker, { url, keepBytes }: { url: string; keepBytes: number }) {
    this.#asker = asker;
    this.#memory = new Memory(keepBytes);
    this.#disk = new Disk(url, keepBytes);
  }

  /** The bytes of a part that is in memory. */
  get(hash: string): Uint8Array<ArrayBuffer> {
    return this.#memory.get(hash);
  }

  /** Works while these parts are in memory. */
  with<T>(job: Job, parts: readonly Part[], work: () => Promise<T>) {
    const hashes = parts.map(({ hash }) => hash);
    return this.#memory.during(hashes, async () => {
      await this.#load(job, parts);
      return work();
    });
  }

  /** Brings parts into memory, from the service where neither memory nor disk has them. */
  async #load(job: Job, parts: readonly Part[]) {
    const wanted: Map<string, Part> = new Map();
    for (const part of parts) {
      const { hash, bytes, what, name } = part;
      this.#asker.need(isCount(bytes) && bytes <= maxObjectBytes, what, `${name} would have ${bytes} bytes.`);
      const other = wanted.get(hash);
      if (this.#memory.has(hash)) this.#requireLength(part, this.#memory.get(hash).length);
      else if (other) this.#requireLength(part, other.bytes);
      else if (bytes === 0) await this.#requireHash(part, new Uint8Array(0));
      else wanted.set(hash, part);
    }
    const missing = [];
    for (const [part, found] of await Promise.all(
      [...wanted.values()].map(async (part) => [part, await this.#disk.get(part)] as const),
    )) {
      const right =
        found &&
        (await this.#requireHash(part, found).then(
          () => true,
          () => false,
        ));
      if (right) this.#memory.set(part.hash, found);
      else missing.push(part);
    }
    const answers = batchesOf(missing).values();
    const ask = async () => {
      for (const batch of answers) await this.#fetch(job, batch, true);
    };
    await Promise.all(Array.from({ length: answersAtOnce }, ask));
  }

  #requireLength({ bytes, what, name }: Part, length: number) {
    this.#asker.need(length === bytes, what, `${name} has ${length} bytes, not ${bytes}.`);
  }

  async #requireHash(part: Part, bytes: Uint8Array<ArrayBuffer>) {
    const { hash, what, name, hashOf } = part;
    this.#requireLength(part, bytes.length);
    const found = toHex(await hashOf(bytes));
    this.#asker.need(found === hash, what, `${name} has the hash ${found}, not ${hash}.`);
  }

  /** The bytes of parts that are needed once, by their hashes. */
  async once(job: Job, parts: readonly Part[]): Promise<Map<string, Uint8Array>> {
    const found: Map<string, Uint8Array> = new Map();
    await Promise.all(
      batchesOf(parts).map(async (batch) => {
        const bytes = await this.#fetch(job, batch, false);
        for (const [place, { hash }] of batch.entries()) found.set(hash, bytes[place]!);
      }),
    );
    return found;
  }

  /** Asks the service for parts, and checks each. */
  async #fetch(job: Job, parts: readonly Part[], keep: boolean): Promise<Uint8Array<ArrayBuffer>[]> {
    const total = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const of = parts.map(({ hash }) => hash).join();
    const all = await this.#asker.bytes(job, "/markets/index/sections", { of }, total);
    let at = 0;
    const found = [];
    for (const part of parts) {
      // A copy, so that what is forgotten is freed.
      const bytes = all.slice(at, at + part.bytes);
      at += part.bytes;
      await this.#requireHash(part, bytes);
      found.push(bytes);
      if (!keep) continue;
      this.#memory.set(part.hash, bytes);
      void this.#disk.set(part, bytes);
    }
    return found;
  }
}

/** Parts in groups for one answer each. */
function batchesOf(parts: readonly Part[]) {
  const batches: Part[][] = [];
  let left = 0;
  for (const part of parts) {
    const last = batches.at(-1);
    if (last && last.length < partsAtOnce && part.bytes <= left) last.push(part);
    else {
      batches.push([part]);
      left = bytesAtOnce;
    }
    left -= part.bytes;
  }
  return batches;
}
