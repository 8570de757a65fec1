import { mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";

/** What is said of folders that cannot be synced: there is none, it is not ours, or the file system knows no such thing. */
const cannotSync = ["ENOENT", "EINVAL", "ENOTSUP", "EACCES", "EPERM"];

/**
 * The folders of a directory store. A file's name outlasts a power cut only when its folder was synced after it was
 * named, and the folder's own name likewise; each is synced once for many files.
 */
export class Folders {
  readonly #root: string;
  readonly #changed = new Set<string>();
  #syncing: Promise<void> = Promise.resolve();

  constructor(root: string) {
    this.#root = root;
  }

  /** Makes a folder of the store, and those above it. */
  async make(folder: string): Promise<void> {
    const first = await mkdir(folder, { recursive: true });
    // The store itself is new too: the folder above has got a name.
    if (first && first.length <= this.#root.length) {
      for (let above = this.#root; above.length >= first.length; above = dirname(above))
        this.#changed.add(dirname(above));
    }
  }

  /** Takes note of a name in a folder that is new or gone. */
  changed(folder: string): void {
    // Those above may have been made by a run that was killed before it synced them.
    for (let each = folder; each.length > this.#root.length; each = dirname(each)) this.#changed.add(each);
    this.#changed.add(this.#root);
  }

  /** Syncs what changed so far, also what another call has begun to sync. */
  sync(): Promise<void> {
    const done = this.#syncing.then(() => this.#syncChanged());
    this.#syncing = done.catch(() => {});
    return done;
  }

  async #syncChanged(): Promise<void> {
    for (const folder of this.#changed) {
      this.#changed.delete(folder);
      try {
        await syncFolder(folder);
      } catch (error) {
        this.#changed.add(folder);
        throw error;
      }
    }
  }
}

async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(path, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (!cannotSync.includes(code)) throw error;
  }
}
