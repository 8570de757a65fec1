import { basename, dirname, join } from "node:path";

interface File {
  bytes: Buffer;
  /** So many bytes are on the disk, and not in memory alone. */
  safe: number;
}

type Entry = File | { link: string } | "folder";

const isFile = (entry: Entry | undefined): entry is File => typeof entry === "object" && "bytes" in entry;

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code, path });
}

/** The local disks of a world's machines, as far as the product uses them: files in memory below `/world/`. */
export class Disk {
  /** Lets work on a disk take its time. */
  pace: <T>(work: () => T) => Promise<T> = async (work) => work();
  readonly #entries = new Map<string, Entry>();
  readonly #open = new Map<number, string>();
  #made = 0;

  /** The path to which links lead; with `itself`, a link at its end is not followed. */
  #real(path: string, itself = false): string {
    const parts = path.split("/").slice(1);
    let at = "";
    for (const [index, part] of parts.entries()) {
      at = `${at}/${part}`;
      const entry = this.#entries.get(at);
      if (typeof entry !== "object" || !("link" in entry) || (itself && index === parts.length - 1)) continue;
      return this.#real(join(dirname(at), entry.link, ...parts.slice(index + 1)), itself);
    }
    return at;
  }

  #file(path: string): File {
    const entry = this.#entries.get(this.#real(path));
    if (isFile(entry)) return entry;
    throw failure(entry ? "EISDIR" : "ENOENT", path);
  }

  #put(path: string, bytes: Buffer, safe = 0): File {
    const file = { bytes, safe };
    this.#entries.set(this.#real(path), file);
    return file;
  }

  *#below(path: string): Generator<string> {
    for (const name of [...this.#entries.keys()]) if (name.startsWith(`${path}/`)) yield name;
  }

  /** A file's text; undefined without one. */
  text(path: string): string | undefined {
    const entry = this.#entries.get(this.#real(path));
    return isFile(entry) ? String(entry.bytes) : undefined;
  }

  /** The power of a machine fails: of what was not flushed below a folder, any part is lost. */
  powerCut(folder: string, draw: (limit: number) => number): void {
    for (const name of this.#below(folder)) {
      const entry = this.#entries.get(name);
      if (isFile(entry))
        entry.bytes = entry.bytes.subarray(0, entry.safe + draw(entry.bytes.length - entry.safe + 1));
    }
  }

  mkdtemp(prefix: string): string {
    this.#made += 1;
    return `${prefix}${this.#made}`;
  }

  mkdir(path: string): void {
    for (let at = this.#real(path); at !== "/world" && at !== "/"; at = dirname(at))
      if (!this.#entries.has(at)) this.#entries.set(at, "folder");
  }

  readFile(path: string, encoding?: "utf8"): Buffer | string {
    const { bytes } = this.#file(path);
    return encoding ? bytes.toString(encoding) : bytes;
  }

  writeFile(path: string, content: string | Uint8Array, options?: { flag?: string; flush?: boolean }): void {
    if (options?.flag === "wx" && this.#entries.has(this.#real(path))) throw failure("EEXIST", path);
    const bytes = Buffer.from(content as string);
    this.#put(path, bytes, options?.flush ? bytes.length : 0);
  }

  /** Moves a file, a link, or a folder with all that it has. */
  rename(from: string, to: string): void {
    const [source, target] = [this.#real(from, true), this.#real(to, true)];
    const entry = this.#entries.get(source);
    if (!entry) throw failure("ENOENT", from);
    this.#entries.delete(source);
    this.#entries.set(target, entry);
    for (const name of this.#below(source)) {
      this.#entries.set(target + name.slice(source.length), this.#entries.get(name)!);
      this.#entries.delete(name);
    }
  }

  rm(path: string, options: { force?: boolean; recursive?: boolean } = {}): void {
    const real = this.#real(path, true);
    const below = [...this.#below(real)];
    if (!options.force && below.length === 0 && !this.#entries.has(real)) throw failure("ENOENT", path);
    for (const name of [real, ...below]) this.#entries.delete(name);
  }

  readdir(path: string, options?: { withFileTypes?: boolean }) {
    const real = this.#real(path);
    if (this.#entries.get(real) !== "folder") throw failure("ENOENT", path);
    const names = [...this.#below(real)].filter((name) => dirname(name) === real);
    return options?.withFileTypes
      ? names.map((name) => ({
          name: basename(name),
          isDirectory: () => this.#entries.get(name) === "folder",
        }))
      : names.map((name) => basename(name));
  }

  symlink(target: string, path: string): void {
    if (this.#entries.has(this.#real(path, true))) throw failure("EEXIST", path);
    this.#entries.set(this.#real(path, true), { link: target });
  }

  readlink(path: string): string {
    const entry = this.#entries.get(this.#real(path, true));
    if (typeof entry === "object" && "link" in entry) return entry.link;
    throw failure(entry ? "EINVAL" : "ENOENT", path);
  }

  stat(path: string, itself = false) {
    const real = this.#real(path, itself);
    const entry = this.#entries.get(real);
    if (!entry) throw failure("ENOENT", path);
    return {
      size: isFile(entry) ? entry.bytes.length : 0,
      // A folder that is made anew is another one, which no test here depends on.
      ino: real,
      isFile: () => isFile(entry),
      isSymbolicLink: () => typeof entry === "object" && "link" in entry,
    };
  }

  lstat(path: string) {
    return this.stat(path, true);
  }

  truncate(path: string, length: number): void {
    const file = this.#file(path);
    file.bytes = file.bytes.subarray(0, length);
    file.safe = Math.min(file.safe, length);
  }

  open(path: string, flags = "r") {
    const exists = this.#entries.has(this.#real(path));
    if (flags.startsWith("w") || (flags.startsWith("a") && !exists)) this.#put(path, Buffer.alloc(0));
    const file = this.#entries.get(this.#real(path));
    if (!file) throw failure("ENOENT", path);
    let place = 0;
    const read = (into: Uint8Array, offset: number, length: number, position: number | null) => {
      const from = position ?? place;
      const bytes = isFile(file) ? file.bytes.subarray(from, from + length) : Buffer.alloc(0);
      into.set(bytes, offset);
      if (position === null) place += bytes.length;
      return { bytesRead: bytes.length };
    };
    const write = (from: Uint8Array, offset: number, length: number) => {
      if (isFile(file)) file.bytes = Buffer.concat([file.bytes, from.subarray(offset, offset + length)]);
      return { bytesWritten: length };
    };
    const appendFile = (bytes: Buffer) => void write(bytes, 0, bytes.length);
    const sync = () => {
      if (isFile(file)) file.safe = file.bytes.length;
    };
    return {
      read: (...given: Parameters<typeof read>) => this.pace(() => read(...given)),
      write: (...given: Parameters<typeof write>) => this.pace(() => write(...given)),
      appendFile: (...given: Parameters<typeof appendFile>) => this.pace(() => appendFile(...given)),
      sync: () => this.pace(sync),
      stat: () => this.pace(() => ({ size: isFile(file) ? file.bytes.length : 0 })),
      close: async () => {},
      [Symbol.asyncDispose]: async () => {},
    };
  }

  openSync(path: string): number {
    this.#made += 1;
    this.#put(path, Buffer.alloc(0));
    this.#open.set(-this.#made, path);
    return -this.#made;
  }

  writeSync(descriptor: number, bytes: Uint8Array, from = 0): number {
    const file = this.#file(this.#open.get(descriptor)!);
    const more = bytes.subarray(from);
    file.bytes = Buffer.concat([file.bytes, more]);
    return more.length;
  }

  closeSync(descriptor: number): void {
    this.#open.delete(descriptor);
  }
}
