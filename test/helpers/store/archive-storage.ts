import { hash } from "node:crypto";
import { tooLarge, tooShort } from "../../../snapshots/store/errors.ts";
import { maxObjectBytes, type Storage } from "../../../snapshots/store/storage.ts";

/** One call of a storage. */
interface StorageCall {
  operation: "get" | "put" | "putIfAbsent" | "replace" | "list" | "delete";
  key: string;
  /** Bytes written. */
  bytes: number;
}

/** A storage that notes every call. */
export interface CountingStorage extends Storage {
  calls: StorageCall[];
  /** The keys of the calls that change the store, in order. */
  written(): string[];
}

/** The same store, with a note of every call. */
export function countingStorage(storage: Storage): CountingStorage {
  const calls: StorageCall[] = [];
  const note = (operation: StorageCall["operation"], key: string, bytes = 0) => {
    calls.push({ operation, key, bytes });
  };
  const noted = changedStorage(storage, {
    get(key, options) {
      note("get", key);
      return storage.get(key, options);
    },
    put(key, body) {
      note("put", key, body.length);
      return storage.put(key, body);
    },
    putIfAbsent(key, body) {
      note("putIfAbsent", key, body.length);
      return storage.putIfAbsent(key, body);
    },
    replace(key, body, tag) {
      note("replace", key, body.length);
      return storage.replace(key, body, tag);
    },
    list(prefix) {
      note("list", prefix);
      return storage.list(prefix);
    },
    delete(key) {
      note("delete", key);
      return storage.delete(key);
    },
  });
  const reading = ["get", "list"];
  const written = () => calls.filter(({ operation }) => !reading.includes(operation)).map(({ key }) => key);
  return { ...noted, calls, written };
}

/** The same store with some of its operations replaced. */
export function changedStorage(storage: Storage, changes: Partial<Storage>): Storage {
  const { location } = storage;
  return {
    location,
    get: (key, options) => storage.get(key, options),
    put: (key, body) => storage.put(key, body),
    putIfAbsent: (key, body) => storage.putIfAbsent(key, body),
    replace: (key, body, tag) => storage.replace(key, body, tag),
    list: (prefix) => storage.list(prefix),
    delete: (key) => storage.delete(key),
    ...changes,
  };
}

/** A store in memory; the map is its content, free to be tampered with. */
export function memoryStorage(objects: Map<string, Buffer>): Storage {
  return {
    location: "memory",
    async get(key, { maxBytes = maxObjectBytes, range } = {}) {
      const bytes = objects.get(key);
      if (bytes && range) {
        const { offset, bytes: length } = range;
        if (offset + length > bytes.length) throw tooShort(key, range);
        return Buffer.from(bytes.subarray(offset, offset + length));
      }
      if (bytes && bytes.length > maxBytes) throw tooLarge(key, bytes.length, maxBytes);
      return bytes && Buffer.from(bytes);
    },
    async put(key, body) {
      objects.set(key, Buffer.from(body));
      return false;
    },
    async putIfAbsent(key, body) {
      if (objects.has(key)) return false;
      objects.set(key, Buffer.from(body));
      return true;
    },
    async replace(key, body, tag) {
      const stored = objects.get(key);
      if (!stored || hash("md5", stored) !== tag) return false;
      objects.set(key, Buffer.from(body));
      return true;
    },
    async *list(prefix) {
      for (const [key, stored] of [...objects]) {
        if (!key.startsWith(prefix)) continue;
        yield { key, bytes: stored.length, modified: new Date(0), tag: hash("md5", stored) };
      }
    },
    async delete(key) {
      objects.delete(key);
    },
  };
}
