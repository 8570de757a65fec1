import { randomBytes } from "node:crypto";
import { close, fstat, futimes, open } from "node:fs";
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { hasCode, ifPresent, messageOf, tooShort } from "../errors.ts";
import { hashIn, layout, maxPageBytes, sha256 } from "../layout.ts";
import { type ByteRange, joined, maxObjectBytes, type Storage } from "../storage.ts";
import { readBytes } from "./directory.ts";

/** Where objects are kept on this machine, and how many bytes of them. */
export interface DiskCacheOptions {
  directory: string;
  maxBytes: number;
  /** Told once when the folder cannot be used or is full. */
  warn: (line: string) => void;
}

/** Bytes that wait to be written at most; what comes meanwhile is not kept. */
const maxWaitingBytes = 64 * 2 ** 20;
/** Eight processes that each write this share before they look at the folder stay within its bound together. */
const shareBeforeSweep = 1 / 32;
/** A larger object is not kept. */
const largestShare = 1 / 8;
/** A sweep leaves this share of the bound. */
const shareLeft = 3 / 4;
/** The time of a file tells when it was last used, give or take this. */
const touchedMilliseconds = 600_000;
/** A temporary file as old as this belongs to a process that was killed. */
const leftMilliseconds = 3_600_000;

/**
 * The same store, of which objects that are named by their hash are also kept in a folder of this machine. Processes
 * may share it. An object that is read whole is hashed, and when it does not fit its name it is read from the store
 * again. Those that were not used for longest are deleted. Manifests are always read from the store, since their
 * absence tells that a snapshot was collected. Where a part of a page is asked for, the whole page is kept, and later
 * parts of it are read without the rest, so they are not hashed here: who finds that one does not fit its own hash asks
 * for the whole page. Whatever else happens to the folder, the store's own answer is given.
 */
export function cachedOnDisk(storage: Storage, options: DiskCacheOptions): Storage {
  const disk = new DiskCache(options);
  const get: Storage["get"] = async (key, what = {}) => {
    const { range, fresh = false, maxBytes = maxObjectBytes } = what;
    const hash = range || fresh || key.startsWith(layout.manifest.prefix) ? "" : hashIn(key);
    if (!hash) return storage.get(key, what);
    const kept = await disk.read(hash, maxBytes);
    if (kept) return kept;
    const bytes = await storage.get(key, what);
    if (bytes) disk.keep(hash, bytes);
    return bytes;
  };
  return {
    ...storage,
    async get(key, { range, ...what } = {}) {
      // A part of a page has no hash in its name, and of the next request's parts many lie in the same pages.
      if (!range || what.fresh || !key.startsWith(layout.page.prefix))
        return get(key, range ? { range, ...what } : what);
      const part = await disk.readPart(hashIn(key), range);
      if (part) return part;
      const page = await get(key, { ...what, maxBytes: maxPageBytes });
      if (page && page.length < range.offset + range.bytes) throw tooShort(key, range);
      return page && joined([page.subarray(range.offset, range.offset + range.bytes)]);
    },
  };
}

class DiskCache {
  readonly #directory: string;
  readonly #maxBytes: number;
  readonly #warn: (line: string) => void;
  readonly #waiting: { hash: string; bytes: Buffer }[] = [];
  #waitingBytes = 0;
  #writing = false;
  /** Bytes that this process has written since it last looked at the folder; at first it has never looked. */
  #sinceSweep = Number.POSITIVE_INFINITY;
  #told = false;

  constructor({ directory, maxBytes, warn }: DiskCacheOptions) {
    this.#directory = directory;
    this.#maxBytes = maxBytes;
    this.#warn = warn;
  }

  /** The object with this hash; undefined where there is none of at most `maxBytes`. Never throws. */
  async read(hash: string, maxBytes: number): Promise<Buffer | undefined> {
    const path = this.#pathOf(hash);
    try {
      const bytes = await this.#readFile(path, maxBytes);
      if (bytes === undefined || sha256(bytes) === hash) return bytes;
      await rm(path, { force: true });
    } catch (error) {
      this.#tell(error);
    }
    return undefined;
  }

  /** Bytes of the object with this hash, which nobody has checked; undefined where they are not. Never throws. */
  async readPart(hash: string, range: ByteRange): Promise<Buffer | undefined> {
    try {
      return await this.#readFile(this.#pathOf(hash), Number.POSITIVE_INFINITY, range);
    } catch (error) {
      this.#tell(error);
      return undefined;
    }
  }

  async #readFile(path: string, maxBytes: number, part?: ByteRange): Promise<Buffer | undefined> {
    const file = await ifPresent(openFile(path, "r"));
    if (file === undefined) return undefined;
    try {
      const { size, mtimeMs } = await statFile(file);
      if (size > maxBytes || (part && part.offset + part.bytes > size)) return undefined;
      // In a folder that others fill, this process may read alone.
      if (Date.now() - mtimeMs > touchedMilliseconds)
        await touchFile(file, new Date(), new Date()).catch(() => {});
      return await readBytes(file, path, part ?? { offset: 0, bytes: size });
    } finally {
      // Nobody has to wait for this.
      close(file, () => {});
    }
  }

  /** Keeps an object in the background, unless it has another hash or too much waits already. */
  keep(hash: string, bytes: Buffer): void {
    if (bytes.length > this.#maxBytes * largestShare) return;
    if (this.#waitingBytes + bytes.length > maxWaitingBytes) return;
    this.#waiting.push({ hash, bytes });
    this.#waitingBytes += bytes.length;
    if (!this.#writing) void this.#write();
  }

  async #write(): Promise<void> {
    this.#writing = true;
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      const { hash, bytes } = next;
      await this.#writeOne(hash, bytes).catch((error) => this.#tell(error));
      this.#waitingBytes -= bytes.length;
    }
    this.#writing = false;
  }

  async #writeOne(hash: string, bytes: Buffer): Promise<void> {
    if (sha256(bytes) !== hash) return;
    await this.#makeRoom(bytes.length);
    const path = this.#pathOf(hash);
    const temporary = `${path}.${process.pid}.${randomBytes(6).toString("hex")}.new`;
    // What is kept here is sold elsewhere: nobody else on this machine may read it.
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    try {
      await writeFile(temporary, bytes, { mode: 0o600, flag: "wx" });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      // Somebody cleared the folder meanwhile.
      if (!hasCode(error, "ENOENT")) throw error;
    }
  }

  /** Counts bytes that will be written, and deletes others before where that is needed. */
  async #makeRoom(bytes: number): Promise<void> {
    this.#sinceSweep += bytes;
    if (this.#sinceSweep <= this.#maxBytes * shareBeforeSweep) return;
    await this.#sweep();
    this.#sinceSweep = bytes;
  }

  /** Deletes what was not used for longest, until the rest is small enough. Other processes may do the same. */
  async #sweep(): Promise<void> {
    const files = await this.#files();
    let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total <= this.#maxBytes * shareLeft) return;
    files.sort((a, b) => a.usedAt - b.usedAt);
    for (const { path, bytes } of files) {
      if (total <= this.#maxBytes * shareLeft) return;
      await rm(path, { force: true });
      total -= bytes;
    }
  }

  /** The files of the cache; anything else in the folder is left alone. Those of killed processes are removed. */
  async #files(): Promise<{ path: string; bytes: number; usedAt: number }[]> {
    const files: { path: string; bytes: number; usedAt: number }[] = [];
    for (const folder of (await ifPresent(readdir(this.#directory))) ?? []) {
      if (!/^[0-9a-f]{2}$/.test(folder)) continue;
      const names = (await ifPresent(readdir(join(this.#directory, folder)))) ?? [];
      const look = async (name: string) => {
        const path = join(this.#directory, folder, name);
        const info = await ifPresent(stat(path));
        if (!info) return;
        const isNew = name.endsWith(".new");
        if (isNew && Date.now() - info.mtimeMs > leftMilliseconds) return rm(path, { force: true });
        files.push({ path, bytes: info.size, usedAt: isNew ? Number.POSITIVE_INFINITY : info.mtimeMs });
      };
      await Promise.all(names.filter((name) => fileName.test(name)).map(look));
    }
    return files;
  }

  #pathOf(hash: string): string {
    return join(this.#directory, hash.slice(0, 2), hash);
  }

  #tell(error: unknown): void {
    if (this.#told) return;
    this.#told = true;
    this.#warn(
      `${this.#directory}: objects are read from the store instead of this cache: ${messageOf(error)}`,
    );
  }
}

const fileName = /^[0-9a-f]{64}(\.\d+\.[0-9a-f]{12}\.new)?$/;

// File handles, as of node:fs/promises, cost twice the time of these.
const [openFile, statFile, touchFile] = [promisify(open), promisify(fstat), promisify(futimes)];
