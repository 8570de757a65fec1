import type { Size } from "../../schemas/store/stored-objects.ts";
import { CorruptObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { requireSize } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";

/** Attempts to put an object that is gone when it is read back. */
const putTries = 3;

interface WriterOptions {
  /** Keys of the current snapshot's objects that the store has. */
  present?: ReadonlySet<string> | undefined;
  /** Counts, but writes nothing. */
  dryRun?: boolean | undefined;
  /** Awaited before each object that is written. */
  ready?: () => Promise<void>;
  /** Told of objects that the store has with other bytes. */
  warn?: ((line: string) => void) | undefined;
}

/** Writes objects named by their content, each once, checks that the store has them, and counts them. */
export class ObjectWriter {
  readonly uploaded: Size = { objects: 0, bytes: 0 };
  readonly unchanged: Size = { objects: 0, bytes: 0 };
  readonly #storage: Storage;
  readonly #present: ReadonlySet<string>;
  readonly #counted = new Map<string, number>();
  readonly #written = new Set<string>();
  readonly #held = new Map<string, Uint8Array | number>();
  readonly #dryRun: boolean;
  readonly #ready: () => Promise<void>;
  readonly #warn: (line: string) => void;

  constructor(
    storage: Storage,
    { present = new Set(), dryRun = false, ready = async () => {}, warn = () => {} }: WriterOptions = {},
  ) {
    this.#storage = storage;
    this.#present = present;
    this.#dryRun = dryRun;
    this.#ready = ready;
    this.#warn = warn;
  }

  /** Bytes by key, of uploaded and unchanged objects. */
  get objects(): ReadonlyMap<string, number> {
    return this.#counted;
  }

  get written(): ReadonlySet<string> {
    return this.#written;
  }

  get total(): Size {
    return {
      objects: this.uploaded.objects + this.unchanged.objects,
      bytes: this.uploaded.bytes + this.unchanged.bytes,
    };
  }

  /** Writes an object unless the store has it, and makes sure that the store then returns these bytes. */
  async write(key: string, body: Uint8Array): Promise<void> {
    if (!this.#counted.has(key) && !this.keep(key, body.length)) await this.#upload(key, body);
  }

  /** Counts an object that another process of the run has written. */
  countWritten(key: string, bytes: number): void {
    if (this.#counted.has(key) || this.keep(key, bytes)) return;
    this.#count(this.uploaded, key, bytes);
    this.#written.add(key);
  }

  /** For an object that nothing else in the run reads: nobody else would notice that the store has other bytes. */
  async writeOrMend(key: string, body: Uint8Array): Promise<void> {
    if (!this.#present.has(key) || this.#counted.has(key) || (await this.#holds(key, body)))
      return this.write(key, body);
    this.#warn(`${key}: it does not match its name; it is made again from the sources`);
    await this.#upload(key, body);
  }

  async #upload(key: string, body: Uint8Array): Promise<void> {
    requireSize(key, body.length);
    this.#count(this.uploaded, key, body.length);
    if (this.#dryRun) return;
    await this.#ready();
    this.#written.add(key);
    // What the store changed or lost must be noticed before the commit, not by readers after it.
    if (!(await this.#putAndCheck(key, body)))
      throw new CorruptObjectError(key, "the store returns other bytes than were written");
  }

  /**
   * Keeps an object in memory until `writeHeld`, because a commit may never name it. Of one that another process has
   * written, `body` is the number of its bytes.
   */
  hold(key: string, body: Uint8Array | number): void {
    this.#held.set(key, body);
  }

  async writeHeld(): Promise<void> {
    await inParallel(this.#held, async ([key, body]) =>
      typeof body === "number" ? this.countWritten(key, body) : this.write(key, body),
    );
  }

  /**
   * Reads back what the store did not confirm. Puts an object again when it is gone: a collection may delete, once, an
   * object that it found before this put.
   */
  async #putAndCheck(key: string, body: Uint8Array): Promise<boolean> {
    for (let tries = 1; ; tries += 1) {
      if (await this.#storage.put(key, body)) return true;
      const stored = await this.#storage.get(key, { maxBytes: body.length, fresh: true });
      if (stored || tries === putTries) return stored?.equals(body) === true;
    }
  }

  /** Asks the store itself, not a cache of it. */
  async #holds(key: string, body: Uint8Array): Promise<boolean> {
    const read = () => this.#storage.get(key, { maxBytes: body.length, fresh: true });
    return (await unless(CorruptObjectError, read))?.equals(body) === true;
  }

  /** Counts an object as unchanged if the store has it; returns false otherwise. */
  keep(key: string, bytes: number): boolean {
    if (!this.#present.has(key)) return false;
    if (!this.#counted.has(key)) this.#count(this.unchanged, key, bytes);
    return true;
  }

  #count(tally: Size, key: string, bytes: number): void {
    this.#counted.set(key, bytes);
    tally.objects += 1;
    tally.bytes += bytes;
  }
}
