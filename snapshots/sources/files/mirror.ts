import { link, mkdir, mkdtemp, open, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { GetObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import type { Size, SourceFileRef } from "../../../schemas/store/stored-objects.ts";
import { describeS3Error, plainTag, s3Storage, statusOf } from "../../store/backends/s3.ts";
import { hasCode, localFailure } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { sha256 } from "../../store/layout.ts";
import { ownerMark, ownerPattern, removeLeftFolders } from "../../store/local-files.ts";
import { type S3Location, type Storage, StorageError } from "../../store/storage.ts";
import { sourceNames } from "../contract/source-tables.ts";
import { type KnownFiles, RefusalList, SourceRefusal } from "../sources.ts";
import { changedRule, refuseDifferences, type SourceFolder, SourceNames } from "./source-files.ts";

interface MirrorOptions {
  /** The folder of all caches; each address has its own in there. */
  cacheDirectory: string;
  /** Called with the number of bytes as they arrive. */
  progress?: (step: string, done: number, of: number) => void;
  /** Files that need not be fetched if they are unchanged. */
  knownFiles?: KnownFiles | undefined;
}

const folderName = new RegExp(`^run-${ownerPattern}[0-9A-Za-z]{6}$`);

/**
 * Downloads the Parquet sources below an address into a new directory for this run. Files that are in the cache, by key
 * and ETag, are not fetched again; files that are no longer listed are removed from it. The directory's files are hard
 * links, so runs that share a cache cannot take files from each other. The cache stays when the directory is closed.
 * Files that are not in `downloaded` were in the cache, or are known. Throws SourceRefusal when an object changes
 * meanwhile or its key cannot be a file name.
 */
export async function mirrorSources(
  s3: S3Location,
  client: S3Client,
  { cacheDirectory, progress = () => {}, knownFiles }: MirrorOptions,
): Promise<Required<Omit<SourceFolder, "script">> & { downloaded: Size }> {
  const storage = s3Storage(s3, client);
  const cache = join(cacheDirectory, sha256(storage.location));
  const [objects, runs] = [join(cache, "objects"), join(cache, "runs")];
  const { files: listed, passed } = await listRemote(storage);
  refuseUnusableNames(listed.map(({ name }) => name));
  const failed = (error: unknown) =>
    localFailure(error, cacheDirectory, "set XDG_CACHE_HOME to use another folder");
  const directory = await runFolder(objects, runs).catch((error) => {
    throw failed(error);
  });
  const close = () => rm(directory, { recursive: true, force: true });
  try {
    const byListing = new Map(knownFiles?.files.map((file) => [file.listed, file]));
    const digests = new Map(listed.map(({ name, fingerprint }) => [name, fingerprint]));
    const unfetched = new Map<string, SourceFileRef>();
    for (const [name, fingerprint] of digests) {
      const same = byListing.get(fingerprint);
      if (same) unfetched.set(name, same);
    }
    const wanted = listed.filter(({ name }) => !unfetched.has(name));
    const missing = await linkCached(wanted, objects, directory);
    const downloaded = { objects: missing.length, bytes: missing.reduce((sum, { bytes }) => sum + bytes, 0) };
    let done = 0;
    const received = (bytes: number) => {
      done += bytes;
      progress("fetching sources, bytes", done, downloaded.bytes);
    };
    await fetchAll(missing, async (file, signal) => {
      const path = join(directory, file.name);
      await download(client, s3, file, { path, signal, received });
      await unlessCode("EEXIST", link(path, join(objects, file.fingerprint)));
    });
    refuseDifferences(listed, (await listRemote(storage)).files);
    const inUse = new Set(digests.values());
    for (const name of await readdir(objects))
      if (!inUse.has(name)) await rm(join(objects, name), { force: true });
    return { path: directory, passed, listed: digests, unfetched, downloaded, close };
  } catch (error) {
    await close();
    throw failed(error);
  }
}

/** Creates the folder of a run, and removes those of runs that were killed. */
async function runFolder(objects: string, runs: string): Promise<string> {
  for (const folder of [objects, runs]) await mkdir(folder, { recursive: true, mode: 0o700 });
  await removeLeftFolders(runs, folderName);
  return mkdtemp(join(runs, `run-${ownerMark()}`));
}

async function listRemote(storage: Storage): Promise<{ files: RemoteFile[]; passed: string[] }> {
  const files: RemoteFile[] = [];
  const passed: string[] = [];
  const refusals = new RefusalList();
  for (const source of sourceNames) {
    const names = new SourceNames(source);
    for (const prefix of [`${source}.parquet`, `${source}/`]) {
      for await (const { key: name, bytes, tag } of storage.list(prefix)) {
        if (!names.add(name)) continue;
        if (!tag) throw new StorageError(`${storage.location}: ${name} is listed without an ETag`);
        const fingerprint = sha256(JSON.stringify([storage.location, name, bytes, tag]));
        files.push({ name, bytes, tag, fingerprint });
      }
    }
    await refusals.gather(() => names.judge(storage.location, () => topNames(storage)));
    for (const name of names.passed) passed.push(name);
  }
  refusals.throwIfAny();
  return { files, passed };
}

/** The names at an address as far as its first 1,000 keys show them; those of folders end with `/`. */
async function topNames(storage: Storage): Promise<string[]> {
  const names = new Set<string>();
  let keys = 0;
  for await (const { key } of storage.list("")) {
    names.add(key.replace(/\/.*/s, "/"));
    keys += 1;
    if (keys === 1000) break;
  }
  return [...names];
}

/** Throws SourceRefusal for keys that cannot be file names, since S3 allows any text. */
function refuseUnusableNames(names: readonly string[]): void {
  const refusals = new RefusalList();
  const all = new Set(names);
  for (const file of names) {
    const parts = file.split("/");
    const unusable = parts.some(
      (part) => ["", ".", ".."].includes(part) || part.includes("\0") || Buffer.byteLength(part) > 255,
    );
    if (unusable) refusals.add({ file, rule: "is a key that cannot be a file's name" });
    const above = parts.map((_, depth) => parts.slice(0, depth).join("/"));
    if (above.some((path) => all.has(path)))
      refusals.add({ file, rule: "is a key below another file's, which cannot be a folder too" });
  }
  refusals.throwIfAny();
}

/** Links cached files into the directory, creates the folders for all files, and returns the missing files. */
async function linkCached(
  files: readonly RemoteFile[],
  objects: string,
  directory: string,
): Promise<RemoteFile[]> {
  const missing: RemoteFile[] = [];
  for (const file of files) {
    const path = join(directory, file.name);
    const cached = join(objects, file.fingerprint);
    await mkdir(dirname(path), { recursive: true });
    const linked = await unlessCode("ENOENT", link(cached, path));
    if (linked && (await stat(path)).size === file.bytes) continue;
    // Something else has damaged the cached file, so it is fetched again.
    if (linked) for (const damaged of [path, cached]) await rm(damaged, { force: true });
    missing.push(file);
  }
  return missing;
}

/** Fetches several files at a time. When one fails, stops the others and waits for them. */
async function fetchAll(
  files: readonly RemoteFile[],
  fetchOne: (file: RemoteFile, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const failures: unknown[] = [];
  await inParallel(files, async (file) => {
    if (failures.length > 0) return;
    await fetchOne(file, stop.signal).catch((error: unknown) => {
      failures.push(error);
      stop.abort();
    });
  });
  if (failures.length > 0) throw failures[0];
}

/** Returns false when the work failed with this code. */
async function unlessCode(code: string, work: Promise<void>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (hasCode(error, code)) return false;
    throw error;
  }
}

interface RemoteFile {
  /** The key below the location. */
  name: string;
  bytes: number;
  /** The ETag without quotes. */
  tag: string;
  /** Identifies its content as far as a listing can, and names it in the cache. ETags alone may collide. */
  fingerprint: string;
}

/** Attempts at an object whose transfer breaks off. The SDK retries only failures before the body. */
const transferTries = 3;
// A slower transfer is aborted. The client's own limit only catches one that makes no progress at all.
const slowestBytesPerSecond = 256 * 1024;
const answerSeconds = 90;

/** The connection failed within a body, so another attempt may succeed. */
class BrokenTransfer extends Error {
  override readonly name = "BrokenTransfer";
}

/**
 * Streams an object to a new file in constant memory, and syncs the file. `received` is called with the number of bytes
 * that arrived; negative when they are discarded.
 */
async function download(
  client: S3Client,
  { bucket, prefix }: S3Location,
  { name, bytes, tag }: RemoteFile,
  { path, signal, received }: { path: string; signal: AbortSignal; received: (bytes: number) => void },
): Promise<void> {
  const changed = () => new SourceRefusal([{ file: name, rule: changedRule }]);
  const failed = (cause: unknown) => {
    const reason = describeS3Error(cause);
    return new StorageError(`s3://${bucket}/${prefix}: cannot read ${name}: ${reason}`, { cause });
  };

  async function request(abortSignal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    try {
      const input = new GetObjectCommand({ Bucket: bucket, Key: prefix + name, IfMatch: tag });
      const { Body, ContentLength, ETag = "" } = await client.send(input, { abortSignal });
      // A server that ignores If-Match would otherwise deliver new content under the old tag.
      if (plainTag(ETag) !== tag || ContentLength !== bytes) {
        if (Body && "destroy" in Body) Body.destroy();
        throw changed();
      }
      if (!Body || !(Symbol.asyncIterator in Body)) throw new Error("an answer without a body");
      return Body as AsyncIterable<Uint8Array>;
    } catch (error) {
      if (error instanceof SourceRefusal) throw error;
      throw statusOf(error) === 412 || statusOf(error) === 404 ? changed() : failed(error);
    }
  }

  /** What this throws comes from the connection, and what writes the chunks throws from the disk. */
  async function* chunksOf(body: AsyncIterable<Uint8Array>, abortSignal: AbortSignal) {
    let length = 0;
    try {
      for await (const chunk of body) {
        abortSignal.throwIfAborted();
        length += chunk.length;
        if (length > bytes) throw new Error(`more than the ${bytes} bytes listed`);
        received(chunk.length);
        yield chunk;
      }
      if (length < bytes) throw new Error(`${length} of ${bytes} bytes`);
    } catch (error) {
      received(-length);
      throw new BrokenTransfer("broke off", { cause: error });
    }
  }

  for (let tries = 1; ; tries += 1) {
    const output = await open(path, "w", 0o600);
    try {
      const seconds = answerSeconds + bytes / slowestBytesPerSecond;
      const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(seconds * 1000))]);
      await output.writeFile(chunksOf(await request(abortSignal), abortSignal));
      // Without this, a power cut could leave an empty file under its final name.
      return await output.sync();
    } catch (error) {
      if (!(error instanceof BrokenTransfer)) throw error;
      if (tries === transferTries || signal.aborted) throw failed(error.cause);
    } finally {
      await output.close();
    }
  }
}
