import { hash } from "node:crypto";
import { maxObjectBytes } from "../../../snapshots/format/bytes.ts";
import { tooLarge, tooShort } from "../../../snapshots/store/errors.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { type ObjectInfo, type Storage, StorageError } from "../../../snapshots/store/storage.ts";

/** One call of a storage. */
export interface StorageCall {
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
  const noted = aroundCalls(storage, (work, call) => {
    calls.push(call);
    return work();
  });
  return { ...noted, calls, written: () => calls.filter(changes).map(({ key }) => key) };
}

/** Whether a call may change the store. */
export const changes = ({ operation }: StorageCall) => operation !== "get" && operation !== "list";

/**
 * The same store with each of its operations handed to `around`, which carries it out, with what it is to write. A list
 * comes as a whole.
 */
export function aroundCalls(
  storage: Storage,
  around: <T>(work: () => Promise<T>, call: StorageCall, body?: Uint8Array) => Promise<T>,
): Storage {
  const call = (operation: StorageCall["operation"], key: string, bytes = 0) => ({ operation, key, bytes });
  return {
    ...storage,
    get: (key, options) => around(() => storage.get(key, options), call("get", key)),
    put: (key, body) => around(() => storage.put(key, body), call("put", key, body.length), body),
    putIfAbsent: (key, body) =>
      around(() => storage.putIfAbsent(key, body), call("putIfAbsent", key, body.length), body),
    replace: (key, body, tag) =>
      around(() => storage.replace(key, body, tag), call("replace", key, body.length), body),
    async *list(prefix) {
      yield* await around(() => listed(storage, prefix), call("list", prefix));
    },
    delete: (key) => around(() => storage.delete(key), call("delete", key)),
  };
}

/** The same store, of which those calls fail that `fails` says. */
export function faultyStorage(storage: Storage) {
  const faulty: Storage & { fails(call: StorageCall): boolean | Promise<boolean> } = {
    ...aroundCalls(storage, async (work, call) => {
      if (await faulty.fails(call)) throw new StorageError(`cannot ${call.operation} ${call.key}`);
      return work();
    }),
    fails: () => false,
  };
  return faulty;
}

/** What a storage lists, at once. */
export async function listed(storage: Storage, prefix = ""): Promise<ObjectInfo[]> {
  const infos: ObjectInfo[] = [];
  for await (const info of storage.list(prefix)) infos.push(info);
  return infos;
}

/** The same store with some of its operations replaced. */
export const changedStorage = (storage: Storage, changes: Partial<Storage>): Storage => ({
  ...storage,
  ...changes,
});

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
        const told = { key, bytes: stored.length, modified: new Date(0) };
        // Few ask for it, of few objects.
        yield {
          ...told,
          get tag() {
            return hash("md5", stored);
          },
        };
      }
    },
    async delete(key) {
      objects.delete(key);
    },
  };
}

/** Digests of all objects in a store by key, but not what every run renews or a run in parts leaves for itself. */
export async function contentOf(storage: Storage): Promise<Record<string, string>> {
  const content: Record<string, string> = {};
  for await (const { key } of storage.list("")) {
    if (key !== layout.checked && !key.startsWith(layout.runPlan.prefix))
      content[key] = sha256((await storage.get(key))!);
  }
  return content;
}
