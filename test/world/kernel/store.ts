import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { maxObjectBytes } from "../../../snapshots/format/bytes.ts";
import { tooLarge, tooShort } from "../../../snapshots/store/errors.ts";
import { type ObjectInfo, type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import type { Kernel, Process } from "./kernel.ts";

/** An object of a world's store. Each change makes a new one. */
export interface Stored {
  bytes: Buffer;
  modified: number;
  tag: string;
}

/** Told of every change of the store before it is made; `before` is what the change takes away. */
export type Watch = (
  change: { key: string; before: Stored | undefined; after: Buffer | undefined },
  process: Process | undefined,
) => void;

/** What can become of an operation. */
export const faultKinds = ["kill", "killed after", "lost", "lost answer", "again", "late", "slow"] as const;
export type FaultKind = (typeof faultKinds)[number];

/** Of a thousand operations, how many meet each fault. */
export type Climate = Partial<Record<FaultKind, number>>;

/** What a plan says of the store. */
interface StorePlan {
  climate: Climate;
  likeS3: boolean;
  /** Faults that are left out. */
  without: ReadonlySet<string>;
}

const second = 1000;
/** After so long a request without an answer counts as failed. */
const patience = 30 * second;
/** A request may reach the store so long after it was given up. */
const latest = 15 * 60 * second;

/** The one store of a world, with its own clock, which is the world's. */
export class Store {
  readonly objects = new Map<string, Stored>();
  readonly #kernel: Kernel;
  readonly #watch: Watch;
  readonly #plan: StorePlan;
  /** The faults that were met: the number of the process and of its operation. */
  readonly met: string[] = [];
  #changes = 0;
  calm = false;
  /** What objects were before. */
  readonly past = new Map<string, Buffer[]>();

  constructor(kernel: Kernel, watch: Watch, plan: StorePlan) {
    this.#kernel = kernel;
    this.#watch = watch;
    this.#plan = plan;
  }

  /** Changes an object at once, as `process` or as nobody that is watched. */
  set(key: string, bytes: Buffer | undefined, process?: Process): void {
    const before = this.objects.get(key);
    if (!before && !bytes) return;
    this.#watch({ key, before, after: bytes }, process);
    this.#changes += 1;
    if (before) this.past.set(key, [...(this.past.get(key) ?? []), before.bytes].slice(-4));
    if (bytes) {
      this.objects.delete(key);
      const { now } = this.#kernel;
      // S3 tells seconds, and the MD5 of the content; a directory tells every change apart.
      const told = this.#plan.likeS3
        ? { modified: now - (now % second), tag: hash("md5", bytes) }
        : { modified: now, tag: `${this.#changes}` };
      this.objects.set(key, { bytes, ...told });
    } else this.objects.delete(key);
  }

  /** The store as a process sees it over its network. */
  of(process: Process): Storage {
    let clockAhead = 0;
    const call = <T>(what: string, key: string, effect: () => T) =>
      this.#call(process, what, key, effect).finally(() => {
        clockAhead = -process.ahead;
      });
    const list = (prefix: string) => {
      const found: ObjectInfo[] = [];
      for (const [key, { bytes, modified, tag }] of this.objects)
        if (key.startsWith(prefix))
          found.push({ key, bytes: bytes.length, modified: new Date(modified), tag });
      // S3 lists by name; a directory as it likes.
      return this.#plan.likeS3 ? found.sort((a, b) => (a.key < b.key ? -1 : 1)) : found;
    };
    return {
      location: "store",
      clockAhead: () => clockAhead,
      get: (key, { maxBytes = maxObjectBytes, range } = {}) =>
        call("get", key, () => {
          const bytes = this.objects.get(key)?.bytes;
          if (!bytes) return undefined;
          if (range && range.offset + range.bytes > bytes.length) throw tooShort(key, range);
          if (range) return Buffer.from(bytes.subarray(range.offset, range.offset + range.bytes));
          if (bytes.length > maxBytes) throw tooLarge(key, bytes.length, maxBytes);
          return Buffer.from(bytes);
        }),
      put: async (key, body) => {
        const bytes = Buffer.from(body);
        await call("put", key, () => this.set(key, bytes, process));
        return false;
      },
      putIfAbsent: (key, body) => {
        const bytes = Buffer.from(body);
        const put = () => {
          if (this.objects.has(key)) return false;
          this.set(key, bytes, process);
          return true;
        };
        return call("create", key, put);
      },
      replace: (key, body, tag) => {
        const bytes = Buffer.from(body);
        const put = () => {
          if (this.objects.get(key)?.tag !== tag) return false;
          this.set(key, bytes, process);
          return true;
        };
        return call("replace", key, put);
      },
      list: async function* (prefix) {
        yield* await call("list", prefix, () => list(prefix));
      },
      delete: (key) => call("delete", key, () => this.set(key, undefined, process)),
    };
  }

  /** Draws what becomes of the process's next operation. */
  #fault(process: Process): FaultKind | undefined {
    process.operations += 1;
    let at = process.draw(1000);
    if (this.calm) return undefined;
    for (const kind of faultKinds) {
      at -= this.#plan.climate[kind] ?? 0;
      if (at >= 0) continue;
      const name = `${process.name}:${process.operations}`;
      if (this.#plan.without.has(name)) return undefined;
      this.met.push(name);
      return kind;
    }
    return undefined;
  }

  #call<T>(process: Process, what: string, key: string, effect: () => T): Promise<T> {
    const kernel = this.#kernel;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (process.state === "killed") return promise;
    const fault = this.#fault(process);
    const label = `${process.name} ${what} ${key}`;
    const delay = () => 1 + process.draw(20) * process.draw(20);
    const sent = kernel.now + delay() + (fault === "slow" ? process.draw(10 ** process.draw(4) * second) : 0);
    const answered = sent + delay();
    /** The operation reaches the store; returns what the store answers. */
    const arrive = (): { value: T } | { error: unknown } => {
      try {
        const value = effect();
        kernel.note(`${label} = ${toldOf(value)}`);
        return { value };
      } catch (error) {
        kernel.note(`${label} ! ${error}`);
        if ((error as Error).name === "Violation") throw error;
        return { error };
      }
    };
    const settle = (answer: ReturnType<typeof arrive>) =>
      "error" in answer ? reject(answer.error) : resolve(answer.value);
    const giveUp = () => {
      kernel.note(`${label} has no answer`);
      reject(new StorageError(`store: cannot ${what} ${key}: no answer`));
    };
    if (fault && fault !== "slow") kernel.note(`${label}: ${fault} (${process.name}:${process.operations})`);
    switch (fault) {
      case "kill":
        kernel.kill(process);
        break;
      case "killed after":
        kernel.at(sent, undefined, arrive);
        kernel.kill(process);
        break;
      case "lost":
        kernel.at(kernel.now + patience, process, giveUp);
        break;
      case "lost answer":
        kernel.at(sent, undefined, arrive);
        kernel.at(Math.max(sent, kernel.now + patience), process, giveUp);
        break;
      case "late":
        kernel.at(kernel.now + patience + process.draw(latest), undefined, arrive);
        kernel.at(kernel.now + patience, process, giveUp);
        break;
      case "again":
        // The client's own second attempt, after an answer that was lost.
        kernel.at(sent, undefined, arrive);
        kernel.at(answered + delay() + second, undefined, () => {
          const answer = arrive();
          kernel.at(kernel.now + delay(), process, () => settle(answer));
        });
        break;
      default:
        kernel.at(sent, undefined, () => {
          const answer = arrive();
          kernel.at(answered, process, () => settle(answer));
        });
    }
    return promise;
  }
}

function toldOf(value: unknown): string {
  if (Buffer.isBuffer(value)) return `${value.length} ${crc32(value)}`;
  if (Array.isArray(value)) return `${value.length} objects`;
  return String(value);
}
