import { mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { hasCode } from "../errors.ts";

/**
 * Error codes that are ignored: the folder is gone, belongs to someone else, or its file system cannot sync folders.
 */
const cannotSync = ["ENOENT", "EINVAL", "ENOTSUP", "EACCES", "EPERM"];

/**
 * Tracks which folders of a directory store have to be synced. A file's name survives a power cut only if its folder is
 * synced after the file got that name, and the same holds for the folder's own name. Syncing is deferred so that a
 * folder is synced once for many files.
 */
export class Folders {
  readonly #root: string;
  readonly #changed = new Set<string>();
  #syncing: Promise<void> = Promise.resolve();

  constructor(root: string) {
    this.#root = root;
  }

  async make(folder: string): Promise<void> {
    const first = await mkdir(folder, { recursive: true });
    // The store's own folder is new too, so the folders above it have changed.
    if (first && first.length <= this.#root.length) {
      for (let above = this.#root; above.length >= first.length; above = dirname(above))
        this.#changed.add(dirname(above));
    }
  }

  /** Call it after a name was added to the folder or removed from it. */
  changed(folder: string): void {
    // The parents may have been created by a run that was killed before it synced them.
    for (let each = folder; each.length > this.#root.length; each = dirname(each)) this.#changed.add(each);
    this.#changed.add(this.#root);
  }

  /** Waits for earlier calls too, which may still be syncing some of these folders. */
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
    if (!hasCode(error, ...cannotSync)) throw error;
  }
}
