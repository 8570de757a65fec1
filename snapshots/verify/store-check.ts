import type { NamedObject } from "../../schemas/store/stored-objects.ts";
import { maxObjectBytes } from "../format/bytes.ts";
import {
  CorruptObjectError,
  FormatError,
  MissingObjectError,
  ObjectError,
  UnknownEncodingError,
} from "../store/errors.ts";
import { inOrder } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** Ends the faults of objects that every publish run updates. */
export const publishAgain = ": publish again";

export interface Remark {
  key: string;
  reason: string;
}

/** Objects that are larger are read one at a time. Hardly any object of a sound store is. */
const mostSideBySide = 4 * 1024 * 1024;

/**
 * The same store, for reads side by side. Anybody may have put the largest objects that there may be in the places of
 * small ones, and 64 of these at once would take 16 GiB.
 */
export function largeOnesAlone(storage: Storage): Storage {
  let alone: Promise<unknown> = Promise.resolve();
  return {
    ...storage,
    async get(key, options = {}) {
      const { maxBytes = maxObjectBytes, range } = options;
      if (range || maxBytes <= mostSideBySide) return storage.get(key, options);
      try {
        return await storage.get(key, { ...options, maxBytes: mostSideBySide });
      } catch (error) {
        if (!(error instanceof CorruptObjectError)) throw error;
      }
      const read = alone.then(() => storage.get(key, options));
      alone = read.catch(() => {});
      return read;
    },
  };
}

/** What all checks of a store share: which objects were read, and their faults. */
export class StoreCheck {
  readonly storage: Storage;
  readonly faults: Remark[] = [];
  /** Objects that are as they were written, but that only another version of this program or of Unicode can judge. */
  readonly unchecked: Remark[] = [];
  /** The first object of another format version. */
  foreign: FormatError | undefined;
  /** Whether a segment has an unknown encoding, so that nobody here can tell which pages it names. */
  hidesPages = false;
  readonly passedOver = new Set<string>();
  /** The bytes of what was counted or passed over, by key. */
  readonly #seen = new Map<string, number>();
  /** The keys of what was reported. */
  readonly #reported = { faults: new Set<string>(), unchecked: new Set<string>() };

  constructor(storage: Storage) {
    this.storage = storage;
  }

  get objects(): number {
    return this.#seen.size;
  }

  get bytes(): number {
    return this.#seen.values().reduce((sum, bytes) => sum + bytes, 0);
  }

  /** Whether a check has counted an object, or found fault with it. */
  hasSeen(key: string): boolean {
    return this.#seen.has(key);
  }

  count(key: string, bytes: number): void {
    this.passedOver.delete(key);
    if (!this.#seen.has(key)) this.#seen.set(key, bytes);
  }

  /** Counts an object that was only listed, until something reads it. */
  passOver(key: string, bytes: number): void {
    if (this.#seen.has(key)) return;
    this.#seen.set(key, bytes);
    this.passedOver.add(key);
  }

  /** Checks items side by side, each with its `part` of this check. What is found is told in the items' order. */
  async each<Item, Result>(
    items: Iterable<Item> | AsyncIterable<Item>,
    work: (item: Item, part: StoreCheck) => Promise<Result>,
    bounds?: Parameters<typeof inOrder<Item, Result>>[2],
  ): Promise<Result[]> {
    const results: Result[] = [];
    const begin = async (item: Item) => {
      const part = new StoreCheck(this.storage);
      return { part, result: await work(item, part) };
    };
    for await (const { part, result } of inOrder(items, begin, bounds)) {
      this.#add(part);
      results.push(result);
    }
    return results;
  }

  #add(part: StoreCheck): void {
    for (const [key, bytes] of part.#seen)
      if (part.passedOver.has(key)) this.passOver(key, bytes);
      else this.count(key, bytes);
    this.#tell("faults", part.faults);
    this.#tell("unchecked", part.unchecked);
    this.foreign ??= part.foreign;
    this.hidesPages ||= part.hidesPages;
  }

  /** For a commit beyond the log as it was read: it may have been made since. */
  async requireLater(commit: number, namedBy: string): Promise<void> {
    const key = layout.commit(commit);
    if (await this.storage.get(key)) return;
    this.#tell("faults", [{ key, reason: `it is missing, and ${namedBy} names it` }]);
  }

  /** Tells of another fault of an object that may have one already. */
  fault(key: string, reason: string): void {
    this.#reported.faults.add(key);
    this.faults.push({ key, reason });
  }

  /** Snapshots and change records share objects, so the same fault may come up several times, and in other words. */
  #tell(kind: "faults" | "unchecked", remarks: readonly Remark[]): void {
    for (const remark of remarks) {
      const { key } = remark;
      if (!this.#reported[kind].has(key)) this[kind].push(remark);
      this.#reported[kind].add(key);
    }
  }

  async countOnly(prefix: string): Promise<void> {
    for await (const { key, bytes } of this.storage.list(prefix)) this.count(key, bytes);
  }

  /** A missing or corrupt object becomes a fault that ends in `remedy`, and the result is undefined. */
  async attempt<T>(work: () => Promise<T>, remedy = ""): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ObjectError)) throw error;
      const encoded = error instanceof UnknownEncodingError;
      if (error instanceof FormatError && !encoded) this.foreign ??= error;
      const fault = { key: error.key, reason: error.reason + remedy };
      this.hidesPages ||= encoded && error.key.startsWith(layout.segment.prefix);
      this.#tell(encoded ? "unchecked" : "faults", [fault]);
      this.count(error.key, 0);
      return undefined;
    }
  }

  async read(key: string, ref: NamedObject): Promise<Buffer> {
    const bytes = await readObject(this.storage, key, ref);
    this.count(key, bytes.length);
    return bytes;
  }

  /** As `read`, of what `judge` then accepts. Otherwise there is a fault, and the result is undefined. */
  attemptRead<T>(key: string, ref: NamedObject, judge: (bytes: Buffer) => T): Promise<T | undefined> {
    return this.attempt(async () => judge(await this.read(key, ref)));
  }

  /** The object must be there, and `parse` must accept it. */
  attemptRecord<T>(key: string, parse: (bytes: Buffer) => T, remedy?: string): Promise<T | undefined> {
    return this.attempt(async () => {
      const bytes = await this.storage.get(key);
      if (!bytes) throw new MissingObjectError(key);
      const record = parse(bytes);
      this.count(key, bytes.length);
      return record;
    }, remedy);
  }
}
