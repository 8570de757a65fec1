import type { NamedObject } from "../../schemas/store/snapshot.ts";
import { FormatError, MissingObjectError, ObjectError, UnknownEncodingError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** Ends the faults of objects that every publish run updates. */
export const publishAgain = ": publish again";

export interface Remark {
  key: string;
  reason: string;
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
  readonly #seen = new Set<string>();
  #bytes = 0;

  constructor(storage: Storage) {
    this.storage = storage;
  }

  get objects(): number {
    return this.#seen.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether a check has counted an object, or found fault with it. */
  hasSeen(key: string): boolean {
    return this.#seen.has(key);
  }

  count(key: string, bytes: number): void {
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    this.#bytes += bytes;
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
      const fault = { key: error.key, reason: error.message.slice(error.key.length + 2) + remedy };
      // Snapshots and change records share objects, so the same fault may come up several times, and in other words.
      const told = encoded ? this.unchecked : this.faults;
      this.hidesPages ||= encoded && error.key.startsWith(layout.segment.prefix);
      if (!told.some(({ key }) => key === fault.key)) told.push(fault);
      this.#seen.add(error.key);
      return undefined;
    }
  }

  async read(key: string, ref: NamedObject): Promise<Buffer> {
    const bytes = await readObject(this.storage, key, ref);
    this.count(key, bytes.length);
    return bytes;
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
