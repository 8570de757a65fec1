/** The local disks of a world's machines, as far as the product uses them: files in memory below `/world/`. */
export class Disk {
  readonly #files = new Map<string, Buffer>();
  readonly #open = new Map<number, string>();
  #made = 0;

  async mkdtemp(prefix: string): Promise<string> {
    this.#made += 1;
    return `${prefix}${this.#made}`;
  }

  async readFile(path: string, encoding?: "utf8"): Promise<Buffer | string> {
    const bytes = this.#files.get(path);
    if (!bytes) throw Object.assign(new Error(`ENOENT: ${path}`), { code: "ENOENT", path });
    return encoding ? bytes.toString(encoding) : bytes;
  }

  async writeFile(path: string, content: string | Uint8Array, options?: { flag?: string }): Promise<void> {
    if (options?.flag === "wx" && this.#files.has(path))
      throw Object.assign(new Error(`EEXIST: ${path}`), { code: "EEXIST", path });
    this.#files.set(path, Buffer.from(content as string));
  }

  async rename(from: string, to: string): Promise<void> {
    this.#files.set(to, (await this.readFile(from)) as Buffer);
    this.#files.delete(from);
  }

  async rm(path: string): Promise<void> {
    for (const name of this.#files.keys())
      if (name === path || name.startsWith(`${path}/`)) this.#files.delete(name);
  }

  openSync(path: string): number {
    this.#made += 1;
    this.#files.set(path, Buffer.alloc(0));
    this.#open.set(-this.#made, path);
    return -this.#made;
  }

  writeSync(file: number, bytes: Uint8Array, from = 0): number {
    const path = this.#open.get(file)!;
    const more = bytes.subarray(from);
    this.#files.set(path, Buffer.concat([this.#files.get(path)!, more]));
    return more.length;
  }

  closeSync(file: number): void {
    this.#open.delete(file);
  }
}
