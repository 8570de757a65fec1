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

export type ObjectWriter = ReturnType<typeof objectWriter>;

/** Writes objects named by their content, each once, checks that the store has them, and counts them. */
export function objectWriter(
  storage: Storage,
  { present = new Set(), dryRun = false, ready = async () => {}, warn = () => {} }: WriterOptions = {},
) {
  const uploaded: Size = { objects: 0, bytes: 0 };
  const unchanged: Size = { objects: 0, bytes: 0 };
  const counted = new Map<string, number>();
  const written = new Set<string>();
  const held = new Map<string, Uint8Array | number>();

  function count(tally: Size, key: string, bytes: number): void {
    counted.set(key, bytes);
    tally.objects += 1;
    tally.bytes += bytes;
  }

  /** Counts an object as unchanged if the store has it; returns false otherwise. */
  function keep(key: string, bytes: number): boolean {
    if (!present.has(key)) return false;
    if (!counted.has(key)) count(unchanged, key, bytes);
    return true;
  }

  /** Writes an object unless the store has it, and makes sure that the store then returns these bytes. */
  async function write(key: string, body: Uint8Array): Promise<void> {
    if (!counted.has(key) && !keep(key, body.length)) await upload(key, body);
  }

  /** Counts an object that another process of the run has written. */
  function countWritten(key: string, bytes: number): void {
    if (counted.has(key) || keep(key, bytes)) return;
    count(uploaded, key, bytes);
    written.add(key);
  }

  async function upload(key: string, body: Uint8Array): Promise<void> {
    requireSize(key, body.length);
    count(uploaded, key, body.length);
    if (dryRun) return;
    await ready();
    written.add(key);
    // What the store changed or lost must be noticed before the commit, not by readers after it.
    if (!(await putAndCheck(key, body)))
      throw new CorruptObjectError(key, "the store returns other bytes than were written");
  }

  /**
   * Reads back what the store did not confirm. Puts an object again when it is gone: a collection may delete, once, an
   * object that it found before this put.
   */
  async function putAndCheck(key: string, body: Uint8Array): Promise<boolean> {
    for (let tries = 1; ; tries += 1) {
      if (await storage.put(key, body)) return true;
      const stored = await storage.get(key, { maxBytes: body.length, fresh: true });
      if (stored || tries === putTries) return stored?.equals(body) === true;
    }
  }

  /** Asks the store itself, not a cache of it. */
  async function holds(key: string, body: Uint8Array): Promise<boolean> {
    const read = () => storage.get(key, { maxBytes: body.length, fresh: true });
    return (await unless(CorruptObjectError, read))?.equals(body) === true;
  }

  return {
    uploaded,
    unchanged,
    /** Bytes by key, of uploaded and unchanged objects. */
    objects: counted as ReadonlyMap<string, number>,
    written: written as ReadonlySet<string>,
    get total(): Size {
      return { objects: counted.size, bytes: uploaded.bytes + unchanged.bytes };
    },
    keep,
    write,
    countWritten,
    /** For an object that nothing else in the run reads: nobody else would notice that the store has other bytes. */
    async writeOrMend(key: string, body: Uint8Array): Promise<void> {
      if (!present.has(key) || counted.has(key) || (await holds(key, body))) return write(key, body);
      warn(`${key}: it does not match its name; it is made again from the sources`);
      await upload(key, body);
    },
    /**
     * Keeps an object in memory until `writeHeld`, because a commit may never name it. Of one that another process has
     * written, `body` is the number of its bytes.
     */
    hold: (key: string, body: Uint8Array | number) => void held.set(key, body),
    async writeHeld(): Promise<void> {
      await inParallel(held, async ([key, body]) =>
        typeof body === "number" ? countWritten(key, body) : write(key, body),
      );
    },
  };
}
