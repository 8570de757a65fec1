import crypto from "node:crypto";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { registerHooks, syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";
import zlib from "node:zlib";
import type { Disk } from "./disk.ts";

// Puts time, chance, threads and temporary files of Node into the hands of a world. Import it before any code of the
// product: some of that takes functions of Node when it is loaded. While no world runs, all is as it was.

/** What a request has beside its address. */
export interface Asked {
  headers?: Record<string, string>;
  body?: string;
}

/** What decides for the code that runs now. */
export interface Host {
  /** Epoch milliseconds by the clock of the process that runs. */
  now(): number;
  /** A whole number from 0 to 2 ** 32 - 1. */
  random(): number;
  /** Calls back after so many milliseconds, unless the process is killed before. Returns what ends that. */
  timer(milliseconds: number, run: () => void): () => void;
  disk: Disk;
  fetch(url: string, given: Asked): Promise<unknown>;
}

let host: Host | undefined;
const immediates: (() => void)[] = [];
const realImmediate = globalThis.setImmediate;

/** Lets a host decide from now on, or nobody. */
export function hostedBy(next: Host | undefined): void {
  host = next;
  immediates.length = 0;
}

/** Waits until the code that runs waits for the host alone. */
export async function settled(): Promise<void> {
  do {
    for (const run of immediates.splice(0)) run();
    await new Promise((resolve) => realImmediate(resolve));
  } while (immediates.length > 0);
}

const RealDate = Date;
class HostedDate extends RealDate {
  constructor(...given: unknown[]) {
    // Date takes its arguments in several forms.
    super(...((given.length === 0 && host ? [host.now()] : given) as [number]));
  }
  static override now(): number {
    return host ? host.now() : RealDate.now();
  }
}
globalThis.Date = HostedDate as DateConstructor;

const realRandom = Math.random;
Math.random = () => (host ? host.random() / 2 ** 32 : realRandom());

const { performance } = globalThis;
const realNow = performance.now.bind(performance);
performance.now = () => (host ? host.now() : realNow());

function replace<K extends string>(of: object, name: K, made: (real: never) => unknown): void {
  const target = of as Record<string, unknown>;
  target[name] = made(target[name] as never);
}

type Call = (...given: unknown[]) => unknown;

replace(globalThis, "setImmediate", (real: Call) => (run: Call, ...given: unknown[]) => {
  if (!host) return real(run, ...given);
  immediates.push(() => run(...given));
  return undefined;
});
replace(globalThis, "setTimeout", (real: Call) => (run: Call, milliseconds = 0, ...given: unknown[]) => {
  if (!host) return real(run, milliseconds, ...given);
  const begin = () => host!.timer(milliseconds as number, () => run(...given));
  const timer = {
    end: begin(),
    refresh() {
      timer.end();
      timer.end = begin();
      return timer;
    },
    ref: () => timer,
    unref: () => timer,
    hasRef: () => true,
  };
  return timer;
});
replace(globalThis, "setInterval", (real: Call) => (...given: unknown[]) => {
  return host ? { unref() {} } : real(...given);
});
replace(globalThis, "clearTimeout", (real: Call) => (timer?: { end?: () => void }) => {
  if (timer?.end) timer.end();
  else real(timer);
});
replace(globalThis, "fetch", (real: Call) => (url: string, given: Asked = {}) => {
  return host ? host.fetch(url, given) : real(url, given);
});
replace(AbortSignal, "timeout", (real: Call) => (milliseconds: number) => {
  if (!host) return real.call(AbortSignal, milliseconds);
  const over = new AbortController();
  host.timer(milliseconds, () => over.abort(new DOMException("The operation timed out.", "TimeoutError")));
  return over.signal;
});
replace(timers, "setTimeout", (real: Call) => (milliseconds: number, value?: unknown, options?: unknown) => {
  if (!host) return real(milliseconds, value, options);
  const { promise, resolve } = Promise.withResolvers<unknown>();
  host.timer(milliseconds, () => resolve(value));
  return promise;
});

replace(crypto, "randomBytes", (real: (bytes: number) => Buffer) => (bytes: number) => {
  if (!host) return real(bytes);
  return Buffer.from(Array.from({ length: bytes }, () => host!.random() & 0xff));
});

replace(crypto, "randomInt", (real: Call) => (limit: number) => (host ? host.random() % limit : real(limit)));

// DuckDB works on threads of its own.
const parquet = new URL("./parquet.ts", import.meta.url).href;
registerHooks({
  resolve: (specifier, context, next) =>
    /\/(parquet-file|file-stats)\.ts$/.test(specifier) && context.parentURL !== parquet
      ? { url: parquet, shortCircuit: true }
      : next(specifier, context),
});

// What browsers have of this ends on other threads, whenever it likes.
const { subtle } = globalThis.crypto;
replace(subtle, "digest", (real: Call) => async (kind: string, bytes: Uint8Array) => {
  if (!host) return real.call(subtle, kind, bytes);
  const digest = crypto.hash(kind.replace("-", ""), bytes, "buffer");
  return digest.buffer.slice(digest.byteOffset, digest.byteOffset + digest.length);
});
replace(subtle, "importKey", (real: Call) => (...given: unknown[]) => {
  if (host) given[3] = true;
  return real.apply(subtle, given);
});
replace(
  subtle,
  "verify",
  (real: Call) =>
    async (...given: [string, crypto.webcrypto.CryptoKey, Uint8Array, Uint8Array]) => {
      if (!host) return real.call(subtle, ...given);
      const [, key, signature, bytes] = given;
      return crypto.verify(null, bytes, crypto.KeyObject.from(key), signature);
    },
);

// Most signatures are checked many times, and stay right or wrong.
const mostChecked = 10_000;
const checked = new Map<string, unknown>();
const keys = new Map<unknown, number>();
replace(crypto, "verify", (real: Call) => (kind: unknown, text: Buffer, key: unknown, signature: Buffer) => {
  if (!host) return real(kind, text, key, signature);
  if (checked.size > mostChecked) checked.clear();
  if (!keys.has(key)) keys.set(key, keys.size);
  const name = `${keys.get(key)} ${signature.toString("latin1")}${text.toString("latin1")}`;
  if (!checked.has(name)) checked.set(name, real(kind, text, key, signature));
  return checked.get(name);
});

// What Node does on other threads would end whenever it liked.
for (const name of ["deflateRaw", "inflateRaw", "gzip", "gunzip"] as const)
  replace(zlib, name, (real: Call) => (bytes: Buffer, ...given: unknown[]) => {
    const done = given.pop() as (error: unknown, result?: Buffer) => void;
    if (!host) return real(bytes, ...given, done);
    try {
      const result = zlib[`${name}Sync`](bytes, given[0] as zlib.ZlibOptions);
      process.nextTick(() => done(null, result));
    } catch (error) {
      process.nextTick(() => done(error));
    }
    return undefined;
  });

const ofDisk = [
  "mkdtemp",
  "mkdir",
  "readFile",
  "writeFile",
  "rename",
  "rm",
  "readdir",
  "symlink",
  "readlink",
  "stat",
  "lstat",
  "truncate",
  "open",
] as const;
for (const name of ofDisk)
  replace(fsPromises, name, (real: Call) => (...given: unknown[]) => {
    const disk = host?.disk;
    if (!disk) return real(...given);
    return disk.pace(() => (disk as unknown as Record<string, Call>)[name]!(...given));
  });
for (const name of ["openSync", "writeSync", "closeSync"] as const)
  replace(fs, name, (real: Call) => (...given: unknown[]) => {
    const disk = host?.disk as unknown as Record<string, Call> | undefined;
    const isOurs = disk && (String(given[0]).startsWith("/world/") || (given[0] as number) < 0);
    return isOurs ? disk[name]!(...given) : real(...given);
  });
syncBuiltinESMExports();
