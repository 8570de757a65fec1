import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, futimes, open } from "node:fs";
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { maxObjectBytes } from "../../format/bytes.ts";
import { hasCode, ifPresent, messageOf, tooShort } from "../errors.ts";
import { hashIn, layout, sha256 } from "../layout.ts";
import { type ByteRange, joined, type Storage } from "../storage.ts";
import { readBytes } from "./directory.ts";

export interface DiskCacheOptions {
  directory: string;
  /** Of all files in it. */
  maxBytes: number;
  /** Called once, when the folder cannot be used or is full. */
  warn: (line: string) => void;
}

/** The most bytes that wait to be written; what comes meanwhile is not kept. */
const maxWaitingBytes = 64 * 2 ** 20;
/** A process sweeps after writing this share of the bound. With what a sweep leaves, eight processes stay within it. */
const shareBeforeSweep = 1 / 32;
/** A larger object is not kept. */
const largestShare = 1 / 8;
/** A sweep leaves this share of the bound. */
const shareLeft = 3 / 4;
/** Reading a file renews its time at most this often. */
const touchedMilliseconds = 600_000;
/** A temporary file as old as this belongs to a process that was killed. */
const leftMilliseconds = 3_600_000;

/**
 * Caches the objects of a store that are named by their hash in a folder of this machine. Processes may share the
 * folder. Whatever happens to it, the store's own answer is given.
 *
 * An object that is read whole is hashed; one that does not fit its name is read from the store again. The least
 * recently used are deleted. Manifests always come from the store, since their absence tells that a snapshot was
 * collected.
 *
 * Of a page the whole is kept, also where only a part was asked for. Later parts are read without the rest, so they
 * cannot be hashed here: a caller that finds a part wrong by its own hash asks for the whole page.
 */
export function cachedOnDisk(storage: Storage, options: DiskCacheOptions): Storage {
  const disk = diskCache(options);
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
      // The key has no hash of a part, and the next requests often want other parts of the same page: fetch it whole.
      if (!range || what.fresh || !key.startsWith(layout.page.prefix))
        return get(key, range ? { range, ...what } : what);
      const part = await disk.readPart(hashIn(key), range);
      if (part) return part;
      const page = await get(key, { ...what, maxBytes: layout.page.maxBytes });
      if (page && page.length < range.offset + range.bytes) throw tooShort(key, range);
      return page && joined([page.subarray(range.offset, range.offset + range.bytes)]);
    },
  };
}

function diskCache({ directory, maxBytes, warn }: DiskCacheOptions) {
  const waiting: { hash: string; bytes: Buffer }[] = [];
  let waitingBytes = 0;
  let writing = false;
  /** Bytes that this process has written since it last looked at the folder; infinite before it first looks. */
  let sinceSweep = Number.POSITIVE_INFINITY;
  let warned = false;

  /** Undefined where no object of at most `maxBytes` is kept. Never throws. */
  async function read(hash: string, maxBytes: number): Promise<Buffer | undefined> {
    const bytes = await unlessFailed(() => readFile(hash, maxBytes));
    if (bytes === undefined || sha256(bytes) === hash) return bytes;
    await unlessFailed(() => rm(pathOf(hash), { force: true }));
    return undefined;
  }

  /** The bytes are not verified. Undefined where they are not kept. Never throws. */
  async function readPart(hash: string, range: ByteRange): Promise<Buffer | undefined> {
    return unlessFailed(() => readFile(hash, Number.POSITIVE_INFINITY, range));
  }

  async function readFile(hash: string, maxBytes: number, part?: ByteRange): Promise<Buffer | undefined> {
    const path = pathOf(hash);
    const file = await ifPresent(openFile(path, "r"));
    if (file === undefined) return undefined;
    try {
      // Neither waits for the disk once the file is open. Handing them to another thread would take longer.
      const { size, mtimeMs } = fstatSync(file);
      if (size > maxBytes || (part && part.offset + part.bytes > size)) return undefined;
      // This process may be allowed only to read a folder that others fill.
      if (Date.now() - mtimeMs > touchedMilliseconds)
        await touchFile(file, new Date(), new Date()).catch(() => {});
      return await readBytes(file, path, part ?? { offset: 0, bytes: size });
    } finally {
      closeSync(file);
    }
  }

  /** Keeps an object in the background, unless it has another hash or too much waits already. */
  function keep(hash: string, bytes: Buffer): void {
    if (bytes.length > maxBytes * largestShare) return;
    if (waitingBytes + bytes.length > maxWaitingBytes) return;
    waiting.push({ hash, bytes });
    waitingBytes += bytes.length;
    if (!writing) void write();
  }

  async function write(): Promise<void> {
    writing = true;
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { hash, bytes } = next;
      await unlessFailed(() => writeOne(hash, bytes));
      waitingBytes -= bytes.length;
    }
    writing = false;
  }

  async function writeOne(hash: string, bytes: Buffer): Promise<void> {
    if (sha256(bytes) !== hash) return;
    sinceSweep += bytes.length;
    if (sinceSweep > maxBytes * shareBeforeSweep) {
      await sweep();
      sinceSweep = bytes.length;
    }
    const path = pathOf(hash);
    const temporary = `${path}.${process.pid}.${randomBytes(6).toString("hex")}.new`;
    // Access to these objects is sold, so other users of this machine must not read them.
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    try {
      await writeFile(temporary, bytes, { mode: 0o600, flag: "wx" });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      // ENOENT: somebody cleared the folder meanwhile.
      if (!hasCode(error, "ENOENT")) throw error;
    }
  }

  /** Deletes the least recently used until the rest is small enough. Other processes may do the same at that time. */
  async function sweep(): Promise<void> {
    const files = await keptFiles();
    let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { path, bytes } of files.sort((a, b) => a.usedAt - b.usedAt)) {
      if (total <= maxBytes * shareLeft) return;
      await rm(path, { force: true });
      total -= bytes;
    }
  }

  /** Leaves anything else in the folder alone, and removes temporary files of killed processes. */
  async function keptFiles() {
    const files: { path: string; bytes: number; usedAt: number }[] = [];
    for (const folder of (await ifPresent(readdir(directory))) ?? []) {
      if (!/^[0-9a-f]{2}$/.test(folder)) continue;
      const names = (await ifPresent(readdir(join(directory, folder)))) ?? [];
      const look = async (name: string) => {
        const path = join(directory, folder, name);
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

  function pathOf(hash: string): string {
    return join(directory, hash.slice(0, 2), hash);
  }

  /** Undefined when the folder fails, which is reported once. */
  async function unlessFailed<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!warned)
        warn(`${directory}: objects are read from the store instead of this cache: ${messageOf(error)}`);
      warned = true;
      return undefined;
    }
  }

  return { read, readPart, keep };
}

const fileName = /^[0-9a-f]{64}(\.\d+\.[0-9a-f]{12}\.new)?$/;

// The handles of node:fs/promises would take twice as long.
const [openFile, touchFile] = [promisify(open), promisify(futimes)];
