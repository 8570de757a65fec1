import { randomBytes } from "node:crypto";
import { close, constants, fstat, open, read, type Stats } from "node:fs";
import { link, mkdir, open as openHandle, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { maxObjectBytes } from "../../format/bytes.ts";
import { CorruptObjectError, hasCode, ifPresent, messageOf, tooLarge, tooShort } from "../errors.ts";
import { kindOf, layout } from "../layout.ts";
import { ownerMark, ownerPattern, removeLeftFiles } from "../local-files.ts";
import { type ByteRange, type ObjectInfo, type Storage, StorageError } from "../storage.ts";

// A temporary file lies in the folder of its target, because rename and link do not work across file systems.
const temporary = new RegExp(`^\\.tmp-${ownerPattern}[0-9a-f]{16}$`);

const noFile = (key: string) => new CorruptObjectError(key, "it is not a regular file");

/** A store in a local directory. The first put creates the directory. */
export function directoryStorage(root: string): Storage {
  const refused = (key: string) => new StorageError(`${root}: not an object key: ${JSON.stringify(key)}`);

  /** Also takes keys that only a listing gives: anybody may have put a file of any name there. */
  const pathOf = (key: string) => {
    if (!/^[^/\0]+(\/[^/\0]+)*$/.test(key) || /(^|\/)\.{1,2}(\/|$)/.test(key)) throw refused(key);
    return join(root, key);
  };

  const ownPath = (key: string) => {
    if (!/^[A-Za-z0-9._/-]+$/.test(key)) throw refused(key);
    return pathOf(key);
  };

  const failed = (operation: string, key: string, error: unknown) =>
    new StorageError(`${root}: cannot ${operation} ${key}: ${messageOf(error)}`, { cause: error });

  const attempt = <T>(operation: string, key: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error) => {
      throw failed(operation, key, error);
    });

  const folders = foldersBelow(root);
  let deletedFrom: string | undefined;
  let ahead = 0;

  /**
   * Writes the bytes to a temporary file and passes its name to `finish`, which moves or removes it. Changed folders
   * are synced before a record is stored, so that a record that survives a power cut never names an object that did
   * not. Other objects are synced with the next record.
   */
  async function staged<T>(key: string, body: Uint8Array, finish: (name: string) => Promise<T>): Promise<T> {
    const target = pathOf(key);
    await folders.make(dirname(target));
    const name = join(dirname(target), `.tmp-${ownerMark()}${randomBytes(8).toString("hex")}`);
    try {
      const file = await openHandle(name, "wx");
      try {
        await file.writeFile(body);
        // The folder may lie on another machine, which sets the times of files by its own clock.
        ahead = (await file.stat()).mtimeMs - Date.now();
        // Without this, a power cut could leave an empty file under a name that promises its content.
        await file.sync();
      } finally {
        await file.close();
      }
      const record = !key.includes("/") || kindOf(key)?.durable === true;
      // Objects at the top level refer to commits. A run that was killed may have made a commit without syncing its
      // folder.
      if (!key.includes("/")) folders.changed(resolve(root, layout.commit.prefix));
      if (record) await folders.sync();
      const result = await finish(name);
      folders.changed(dirname(target));
      if (record) await folders.sync();
      return result;
    } catch (error) {
      await rm(name, { force: true });
      throw error;
    }
  }

  return {
    location: root,
    clockAhead: () => ahead,

    async get(key, { maxBytes = maxObjectBytes, range, signal } = {}) {
      const path = pathOf(key);
      try {
        // Without O_NONBLOCK, opening a FIFO would wait for a writer.
        const file = await openFile(path, constants.O_RDONLY | constants.O_NONBLOCK);
        try {
          signal?.throwIfAborted();
          // Most ranges are short; an fstat first would be a third of the work.
          return await readBytes(file, key, range ?? (await wholeOf(file, key, maxBytes)));
        } finally {
          close(file, () => {});
        }
      } catch (error) {
        if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
        // Opening a socket or a missing device gives ENXIO; reading a part of a FIFO or a folder gives the others.
        if (hasCode(error, "ENXIO", "ESPIPE", "EISDIR")) throw noFile(key);
        throw error instanceof CorruptObjectError ? error : failed("read", key, error);
      }
    },

    async put(key, body) {
      const path = ownPath(key);
      await attempt("write", key, () => staged(key, body, (name) => rename(name, path)));
      return false;
    },

    async putIfAbsent(key, body) {
      const path = ownPath(key);
      // link(2) fails atomically when the name exists: the file system's compare-and-swap.
      const created = staged(key, body, async (name) => {
        await link(name, path);
        await rm(name);
        return true;
      });
      return attempt("create", key, () =>
        created.catch((error) => {
          if (hasCode(error, "EEXIST")) return false;
          throw error;
        }),
      );
    },

    async replace(key, body, tag) {
      const path = ownPath(key);
      const swap = async (name: string) => {
        // Not atomic: another writer may replace the file between the comparison and the rename.
        const info = await ifPresent(stat(path));
        const same = info && tagOf(info) === tag;
        await (same ? rename(name, path) : rm(name));
        return same === true;
      };
      return attempt("replace", key, () => staged(key, body, swap));
    },

    async *list(prefix) {
      const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
      try {
        yield* walk(root, folder, prefix);
      } catch (error) {
        throw failed("list", prefix, error);
      }
    },

    async delete(key) {
      const path = pathOf(key);
      await attempt("delete", key, async () => {
        // A collection deletes manifests first. Their folder is synced before anything else is deleted, or a power cut
        // could bring back a manifest whose objects are gone.
        if (deletedFrom && deletedFrom !== dirname(path)) await folders.sync();
        await rm(path, { force: true });
        deletedFrom = dirname(path);
        folders.changed(deletedFrom);
      });
    },

    removeLeftovers: () => attempt("remove", "temporary files", () => removeLeftFiles(root, temporary)),
  };
}

// The handles of node:fs/promises would take twice as long.
const [openFile, statFile, readFile] = [promisify(open), promisify(fstat), promisify(read)];

async function wholeOf(file: number, key: string, maxBytes: number): Promise<ByteRange> {
  const info = await statFile(file);
  if (!info.isFile()) throw noFile(key);
  if (info.size > maxBytes) throw tooLarge(key, info.size, maxBytes);
  return { offset: 0, bytes: info.size };
}

export async function readBytes(file: number, key: string, range: ByteRange): Promise<Buffer> {
  const { offset, bytes } = range;
  const buffer = Buffer.allocUnsafeSlow(bytes);
  for (let done = 0; done < bytes; ) {
    // Node reads less than 2 GiB at a time.
    const { bytesRead } = await readFile(file, buffer, done, Math.min(bytes - done, 2 ** 30), offset + done);
    if (bytesRead === 0) throw tooShort(key, range);
    done += bytesRead;
  }
  return buffer;
}

/** The objects below a folder whose keys begin with `prefix`, which leads into no other folder than those it names. */
async function* walk(root: string, folder: string, prefix: string): AsyncGenerator<ObjectInfo> {
  const entries = await ifPresent(readdir(join(root, folder), { withFileTypes: true }));
  for (const entry of entries ?? []) {
    const key = `${folder}${entry.name}${entry.isDirectory() ? "/" : ""}`;
    // A large store would take minutes to look through for one of its records.
    if (!key.startsWith(prefix)) continue;
    if (entry.isDirectory()) yield* walk(root, key, prefix);
    else if (!temporary.test(entry.name)) {
      const info = await ifPresent(stat(join(root, key)));
      if (info) yield { key, bytes: info.size, modified: info.mtime, tag: tagOf(info) };
    }
  }
}

/** Every put creates a new file, and so changes the inode number or the time. */
function tagOf({ ino, size, mtimeMs }: Stats): string {
  return `${ino}-${size}-${mtimeMs}`;
}

/**
 * Error codes that are ignored: the folder is gone, belongs to someone else, or its file system cannot sync folders.
 */
const cannotSync = ["ENOENT", "EINVAL", "ENOTSUP", "EACCES", "EPERM"];

/**
 * Tracks which folders of a directory store have to be synced. A file's name survives a power cut only if its folder is
 * synced after the file got that name, and the same holds for the folder's own name. Syncing is deferred so that a
 * folder is synced once for many files.
 */
function foldersBelow(root: string) {
  const changed = new Set<string>();
  let syncing: Promise<void> = Promise.resolve();
  return {
    async make(folder: string): Promise<void> {
      const first = await mkdir(folder, { recursive: true });
      // The store's own folder is new too, so the folders above it have changed.
      if (first && first.length <= root.length)
        for (let above = root; above.length >= first.length; above = dirname(above))
          changed.add(dirname(above));
    },
    /** Call it after a name was added to the folder or removed from it. */
    changed(folder: string): void {
      // The parents may have been created by a run that was killed before it synced them.
      for (let each = folder; each.length > root.length; each = dirname(each)) changed.add(each);
      changed.add(root);
    },
    /** Waits for earlier calls too, which may still be syncing some of these folders. */
    sync(): Promise<void> {
      const done = syncing.then(async () => {
        for (const folder of changed) {
          changed.delete(folder);
          await syncFolder(folder).catch((error) => {
            changed.add(folder);
            throw error;
          });
        }
      });
      syncing = done.catch(() => {});
      return done;
    },
  };
}

async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await openHandle(path, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch (error) {
    if (!hasCode(error, ...cannotSync)) throw error;
  }
}
