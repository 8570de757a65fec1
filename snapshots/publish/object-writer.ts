import type { Size } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import type { Storage } from "../store/storage.ts";

/** Tries to put an object that is gone afterwards. */
const putTries = 3;

/** Puts content-named objects, each once, reads them back, and counts what it did. */
export class ObjectWriter {
  readonly uploaded: Size = { objects: 0, bytes: 0 };
  readonly unchanged: Size = { objects: 0, bytes: 0 };
  readonly #storage: Storage;
  readonly #present: ReadonlySet<string>;
  readonly #counted = new Set<string>();
  readonly #written = new Set<string>();
  readonly #dryRun: boolean;

  /** `present`: keys of the current snapshot that the store has. A dry run counts, and puts nothing. */
  constructor(storage: Storage, present: ReadonlySet<string>, dryRun: boolean) {
    this.#storage = storage;
    this.#present = present;
    this.#dryRun = dryRun;
  }

  /** Keys of what was put. */
  get written(): ReadonlySet<string> {
    return this.#written;
  }

  get total(): Size {
    return {
      objects: this.uploaded.objects + this.unchanged.objects,
      bytes: this.uploaded.bytes + this.unchanged.bytes,
    };
  }

  /** Throws CorruptObjectError when the store does not give back what it was given, or StorageError. */
  async write(key: string, body: Uint8Array): Promise<void> {
    if (this.#counted.has(key) || this.keep(key, body.length)) return;
    this.#count(this.uploaded, key, body.length);
    if (this.#dryRun) return;
    this.#written.add(key);
    // What a store changed or lost must be noticed before the commit, not by readers after it.
    const stored = await this.#putAndRead(key, body);
    if (!stored?.equals(body))
      throw new CorruptObjectError(key, "the store holds other bytes than it was given");
  }

  /** Puts it again when it is gone: a collection may still delete what it found long before, once. */
  async #putAndRead(key: string, body: Uint8Array): Promise<Buffer | undefined> {
    for (let tries = 1; ; tries += 1) {
      await this.#storage.put(key, body);
      const stored = await this.#storage.get(key, { maxBytes: body.length });
      if (stored || tries === putTries) return stored;
    }
  }

  /** Counts an object as unchanged when the store has it; false otherwise. */
  keep(key: string, bytes: number): boolean {
    if (!this.#present.has(key)) return false;
    if (!this.#counted.has(key)) this.#count(this.unchanged, key, bytes);
    return true;
  }

  #count(tally: Size, key: string, bytes: number): void {
    this.#counted.add(key);
    tally.objects += 1;
    tally.bytes += bytes;
  }
}
