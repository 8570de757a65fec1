import type { Size } from "../../schemas/snapshot.ts";
import type { Storage } from "../storage/storage.ts";

/** Puts content-named objects, each once, and counts what it did. */
export class ObjectWriter {
  readonly uploaded: Size = { objects: 0, bytes: 0 };
  readonly unchanged: Size = { objects: 0, bytes: 0 };
  readonly #storage: Storage;
  readonly #present: ReadonlySet<string>;
  readonly #counted = new Set<string>();
  readonly #dryRun: boolean;

  /** `present`: keys of the current snapshot that the store has. A dry run counts, and puts nothing. */
  constructor(storage: Storage, present: ReadonlySet<string>, dryRun: boolean) {
    this.#storage = storage;
    this.#present = present;
    this.#dryRun = dryRun;
  }

  get total(): Size {
    return {
      objects: this.uploaded.objects + this.unchanged.objects,
      bytes: this.uploaded.bytes + this.unchanged.bytes,
    };
  }

  async write(key: string, body: Uint8Array): Promise<void> {
    if (this.#counted.has(key) || this.keep(key, body.length)) return;
    this.#count(this.uploaded, key, body.length);
    if (!this.#dryRun) await this.#storage.put(key, body);
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
