import { hash } from "node:crypto";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { artefactFolders, layout } from "../../store/layout.ts";
import { infoOf, type ObjectInfo, type Storage } from "../../store/storage.ts";

/** Folders in which a run updates many objects. */
const folders = [
  layout.stableScore.prefix,
  ...artefactFolders,
  layout.siteFile.prefix,
  layout.logTile.prefix,
];

/**
 * The changing objects of the public tree, as they were listed. Most of what a run makes is there already, and tags of
 * S3 show that without reading it.
 */
export class PublicTree {
  readonly storage: Storage;
  /** Known to be damaged, whatever their tags say. */
  readonly faulty: ReadonlySet<string>;
  readonly #listed: ReadonlyMap<string, ObjectInfo>;
  readonly #changed = new Set<string>();

  private constructor(
    storage: Storage,
    faulty: ReadonlySet<string>,
    listed: ReadonlyMap<string, ObjectInfo>,
  ) {
    this.storage = storage;
    this.faulty = faulty;
    this.#listed = listed;
  }

  /** Lists the folders side by side. */
  static async of(storage: Storage, faulty: ReadonlySet<string> = new Set()): Promise<PublicTree> {
    const listed = new Map<string, ObjectInfo>();
    await inParallel(folders, async (folder) => {
      for await (const info of storage.list(folder)) listed.set(info.key, info);
    });
    return new PublicTree(storage, faulty, listed);
  }

  /** As it was listed; undefined where there was no such object. One outside of the folders is listed now. */
  async infoOf(wanted: string): Promise<ObjectInfo | undefined> {
    if (folders.some((folder) => wanted.startsWith(folder))) return this.#listed.get(wanted);
    return infoOf(this.storage, wanted);
  }

  /** `folder` is one of those that were listed. */
  under(folder: string): ObjectInfo[] {
    return [...this.#listed.values()].filter(({ key }) => key.startsWith(folder));
  }

  /** If the tag is the MD5 of the bytes, as on S3, nothing has to be read. */
  async holds(key: string, bytes: Buffer): Promise<boolean> {
    if (!this.#changed.has(key)) {
      const info = await this.infoOf(key);
      if (info?.bytes !== bytes.length) return false;
      if (info.tag === hash("md5", bytes) && !this.faulty.has(key)) return true;
    }
    const read = () => this.storage.get(key, { maxBytes: bytes.length });
    return (await unless(CorruptObjectError, read))?.equals(bytes) ?? false;
  }

  /** Returns whether the object did not hold these bytes. */
  async putIfDifferent(key: string, bytes: Buffer): Promise<boolean> {
    if (await this.holds(key, bytes)) return false;
    await this.storage.put(key, bytes);
    this.#changed.add(key);
    return true;
  }
}
