import type { Storage } from "../storage/storage.ts";

/** Objects and their stored bytes. */
export interface Tally {
  objects: number;
  bytes: number;
}

/** Puts content-named objects, each once, and counts what it did. */
export class ObjectWriter {
  readonly uploaded: Tally = { objects: 0, bytes: 0 };
  readonly unchanged: Tally = { objects: 0, bytes: 0 };
  readonly #storage: Storage;
  readonly #present: Set<string>;
  readonly #dryRun: boolean;

  /** `present`: keys the current snapshot already reaches. A dry run counts, and puts nothing. */
  constructor(storage: Storage, present: Set<string>, dryRun: boolean) {
    this.#storage = storage;
    this.#present = present;
    this.#dryRun = dryRun;
  }

  async write(key: string, body: Uint8Array): Promise<void> {
    if (this.keep(key, body.length)) return;
    this.#present.add(key);
    this.uploaded.objects += 1;
    this.uploaded.bytes += body.length;
    if (!this.#dryRun) await this.#storage.put(key, body);
  }

  /** Counts an object as unchanged when the store has it; false otherwise. */
  keep(key: string, bytes: number): boolean {
    if (!this.#present.has(key)) return false;
    this.unchanged.objects += 1;
    this.unchanged.bytes += bytes;
    return true;
  }
}
