import { maxObjectBytes, toHex } from "../../../snapshots/format/bytes.ts";
import { isCount } from "../../../snapshots/format/hash-trees.ts";
import { inParallel } from "../../../snapshots/store/in-parallel.ts";
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
function memoryOf(most: number) {
  /** The least recently used first. */
  const parts: Map<string, Uint8Array<ArrayBuffer>> = new Map();
  /** How many evaluations need a part. */
  const needed: Map<string, number> = new Map();
  let total = 0;

  function get(hash: string) {
    const bytes = parts.get(hash);
    if (!bytes) throw new Error(`${hash} was not loaded.`);
    parts.delete(hash);
    parts.set(hash, bytes);
    return bytes;
  }

  function set(hash: string, bytes: Uint8Array<ArrayBuffer>) {
    if (parts.has(hash)) return;
    parts.set(hash, bytes);
    total += bytes.length;
    forget();
  }

  /** Keeps these parts, as they come, while `work` lasts. */
  async function during<T>(hashes: readonly string[], work: () => Promise<T>) {
    const count = (step: number) => {
      for (const hash of hashes) needed.set(hash, (needed.get(hash) ?? 0) + step);
    };
    count(1);
    try {
      return await work();
    } finally {
      count(-1);
      for (const hash of hashes) if (needed.get(hash) === 0) needed.delete(hash);
      forget();
    }
  }

  function forget() {
    for (const [hash, { length }] of parts) {
      if (total <= most) return;
      if (needed.has(hash)) continue;
      parts.delete(hash);
      total -= length;
    }
  }

  return { has: (hash: string) => parts.has(hash), get, set, during };
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
function diskOf(base: string, most: number) {
  /** The bytes of what is there, by address, the oldest first. */
  const sizes: Map<string, number> = new Map();
  let total = 0;
  const opening = open().catch(() => undefined);

  async function open(): Promise<WebCache | undefined> {
    const cache = await (globalThis as { caches?: { open(name: string): Promise<WebCache> } }).caches?.open(
      "prs-index",
    );
    for (const { url } of (await cache?.keys()) ?? []) count(url);
    return cache;
  }

  function count(url: string) {
    const bytes = Number(new URL(url).searchParams.get("bytes"));
    total += bytes - (sizes.get(url) ?? 0);
    sizes.set(url, bytes);
  }

  function address({ hash, bytes }: Part) {
    return new URL(`${base}/markets/index/${hash}?bytes=${bytes}`).href;
  }

  async function get(part: Part): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      const response = await (await opening)?.match(address(part));
      return response && new Uint8Array(await response.arrayBuffer());
    } catch {
      return undefined;
    }
  }

  async function set(part: Part, bytes: Uint8Array<ArrayBuffer>) {
    try {
      const cache = await opening;
      const url = address(part);
      if (!cache || sizes.has(url)) return;
      count(url);
      await cache.put(url, new Response(bytes));
      for (const [oldest, size] of sizes) {
        if (total <= most) break;
        sizes.delete(oldest);
        total -= size;
        await cache.delete(oldest);
      }
    } catch {
      // The browser's own bound, or its user's wish.
    }
  }

  return { get, set };
}

export type Parts = ReturnType<typeof partsOf>;

/** The parts of indexes, each checked against its hash before it is used. */
export function partsOf(asker: Asker, { url, keepBytes }: { url: string; keepBytes: number }) {
  const memory = memoryOf(keepBytes);
  const disk = diskOf(url, keepBytes);

  /** Works while these parts are in memory. */
  function loaded<T>(job: Job, parts: readonly Part[], work: () => Promise<T>) {
    const hashes = parts.map(({ hash }) => hash);
    return memory.during(hashes, async () => {
      await load(job, parts);
      return work();
    });
  }

  /** Brings parts into memory, from the service where neither memory nor disk has them. */
  async function load(job: Job, parts: readonly Part[]) {
    const wanted: Map<string, Part> = new Map();
    for (const part of parts) {
      const { hash, bytes, what, name } = part;
      asker.need(isCount(bytes) && bytes <= maxObjectBytes, what, `${name} would have ${bytes} bytes.`);
      const other = wanted.get(hash);
      if (memory.has(hash)) requireLength(part, memory.get(hash).length);
      else if (other) requireLength(part, other.bytes);
      else if (bytes === 0) await requireHash(part, new Uint8Array(0));
      else wanted.set(hash, part);
    }
    await inParallel([...wanted.values()], async (part) => {
      const cached = await disk.get(part);
      // Other bytes are asked of the service, as if there were none.
      if (cached?.length !== part.bytes || toHex(await part.hashOf(cached)) !== part.hash) return;
      memory.set(part.hash, cached);
      wanted.delete(part.hash);
    });
    const ask = async (batch: Part[]) => {
      for (const [part, bytes] of await fetchParts(job, batch)) {
        memory.set(part.hash, bytes);
        void disk.set(part, bytes);
      }
    };
    await inParallel(batchesOf([...wanted.values()]), ask, answersAtOnce);
  }

  function requireLength({ bytes, what, name }: Part, length: number) {
    asker.need(length === bytes, what, `${name} has ${length} bytes, not ${bytes}.`);
  }

  async function requireHash(part: Part, bytes: Uint8Array<ArrayBuffer>) {
    const { hash, what, name, hashOf } = part;
    requireLength(part, bytes.length);
    const actual = toHex(await hashOf(bytes));
    asker.need(actual === hash, what, `${name} has the hash ${actual}, not ${hash}.`);
  }

  /** The bytes of parts that are needed once, by their hashes. */
  async function once(job: Job, parts: readonly Part[]): Promise<Map<string, Uint8Array>> {
    const batches = await Promise.all(batchesOf(parts).map((batch) => fetchParts(job, batch)));
    return new Map(batches.flat().map(([{ hash }, bytes]) => [hash, bytes]));
  }

  /** Asks the service for parts, and checks each. */
  async function fetchParts(job: Job, parts: readonly Part[]) {
    const total = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const of = parts.map(({ hash }) => hash).join();
    const all = await asker.bytes(job, "/markets/index/sections", { of }, total);
    let at = 0;
    const checked: [Part, Uint8Array<ArrayBuffer>][] = [];
    for (const part of parts) {
      // A copy, so that what is forgotten is freed.
      const bytes = all.slice(at, at + part.bytes);
      at += part.bytes;
      await requireHash(part, bytes);
      checked.push([part, bytes]);
    }
    return checked;
  }

  return { /** The bytes of a part that is in memory. */ get: memory.get, loaded, once };
}

/** Parts in groups for one answer each. */
function batchesOf(parts: readonly Part[]) {
  const batches: Part[][] = [];
  let room = 0;
  for (const part of parts) {
    const last = batches.at(-1);
    if (last && last.length < partsAtOnce && part.bytes <= room) last.push(part);
    else {
      batches.push([part]);
      room = bytesAtOnce;
    }
    room -= part.bytes;
  }
  return batches;
}
