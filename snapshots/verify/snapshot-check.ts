import { isDeepStrictEqual } from "node:util";
import { type Commit, type Manifest, type SegmentRef, SourceFiles } from "../../schemas/store/snapshot.ts";
import { compareKeys } from "../format/market-line.ts";
import { snapshotEntryOf } from "../format/snapshot-id.ts";
import { addRowsByFile, decodeOrigins } from "../index/origin-table.ts";
import { readPages } from "../index/segment.ts";
import { publicNames } from "../publish/public/names.ts";
import { CorruptObjectError, MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readManifest } from "../store/manifest.ts";
import { namedBy, parseObject, partsOf } from "../store/objects.ts";
import { checkChangeRecord, compareChangeRecord } from "./changes-check.ts";
import type { PageCheck } from "./page-check.ts";
import { checkScores } from "./score-check.ts";
import { believeSegment, type CheckedSegment, checkSegment } from "./segment-check.ts";
import type { StoreCheck } from "./store-check.ts";

/** So that the next one is read while one is compared. Each takes some 30 MB of memory. */
const segmentsAtOnce = 2;

/** An earlier check has read what the commits up to `since` have. It only has to be among what the store lists. */
interface Earlier {
  since: number;
  /** Bytes by key. */
  listed: ReadonlyMap<string, number>;
}

/** What several snapshots share is checked once. */
export class SnapshotCheck {
  readonly #check: StoreCheck;
  readonly #progress: (step: string, done: number, of: number) => void;
  readonly #pages: PageCheck;
  readonly #earlier: Earlier;
  readonly #segments = new Map<string, CheckedSegment | undefined>();
  readonly #manifests = new Map<string, Manifest | undefined>();
  readonly #published = new Set<string>();

  constructor(
    check: StoreCheck,
    pages: PageCheck,
    earlier: Earlier,
    progress: (step: string, done: number, of: number) => void,
  ) {
    this.#check = check;
    this.#pages = pages;
    this.#earlier = earlier;
    this.#progress = progress;
  }

  get manifests(): Manifest[] {
    return [...this.#manifests.values()].filter((manifest) => manifest !== undefined);
  }

  /** Hashes of all score lists and records that a manifest names. */
  get published(): ReadonlySet<string> {
    return this.#published;
  }

  /** Checks the snapshot of a commit. Undefined when its manifest cannot be read. */
  async manifestOf(commit: Commit): Promise<Manifest | undefined> {
    const { hash } = commit.manifest;
    if (!this.#manifests.has(hash)) this.#manifests.set(hash, await this.#manifest(commit));
    const manifest = this.#manifests.get(hash);
    const { commit: number, publishedAt: _, withdrawn: __, ...told } = commit.entry;
    if (manifest && !isDeepStrictEqual(told, snapshotEntryOf(manifest, told.feedVersion))) {
      this.#check.faults.push({ key: layout.commit(number), reason: "it disagrees with its manifest" });
    }
    return manifest;
  }

  /**
   * Checks the change record of a commit, and compares it with both snapshots if they are there. It may be missing from
   * `kept`, what the store has, only where a collection has deleted one of them.
   */
  async checkChanges(commit: Commit, before: Commit | undefined, kept: ReadonlySet<string>): Promise<void> {
    const ref = commit.changes;
    if (!ref) return;
    const key = layout.changeRecord(ref.hash);
    const [older, newer] = [before, commit].map((one) => one && this.#manifests.get(one.manifest.hash));
    if (!(older && newer) && !kept.has(key)) return;
    if (this.#isKnown(commit)) return this.#passOver(this.#check, key, ref);
    const read = this.#check.read.bind(this.#check);
    await this.#check.attempt(async () => {
      const named = {
        since: before?.entry.snapshotId,
        until: commit.entry.snapshotId,
        counts: commit.changeCounts,
      };
      const record = await checkChangeRecord(read, ref, named);
      if (older && newer) await compareChangeRecord(read, key, record, { older, newer });
    });
  }

  async #manifest(commit: Commit): Promise<Manifest | undefined> {
    const key = layout.manifest(commit.manifest.hash);
    const isKnown = this.#isKnown(commit);
    const manifest = await this.#check.attempt(() =>
      readManifest(this.#check.storage, commit, this.manifests.at(-1)),
    );
    if (!manifest) return undefined;
    this.#check.count(key, commit.manifest.bytes);
    for (const [part, { bytes }] of partsOf(manifest)) this.#check.count(part, bytes);
    let done = 0;
    const { length } = manifest.segments;
    const checkNext = async (ref: SegmentRef, part: StoreCheck) => {
      const look = () =>
        isKnown
          ? this.#passOverSegment(part, ref)
          : checkSegment(part, ref, commit.entry.feedVersion, this.#pages);
      if (!this.#segments.has(ref.hash)) this.#segments.set(ref.hash, await part.attempt(look));
      this.#progress("checking segments", ++done, length);
      return this.#segments.get(ref.hash);
    };
    const segments = await this.#check.each(manifest.segments, checkNext, { concurrency: segmentsAtOnce });
    for (const { hash } of publicNames(manifest).values()) this.#published.add(hash);
    if (isKnown) {
      for (const [name, named] of namedBy(manifest)) await this.#passOver(this.#check, name, named);
      return manifest;
    }
    await this.#check.attempt(() => checkScores(this.#check, key, manifest));
    await this.#check.attempt(() => checkSources(this.#check, key, manifest));
    const whole = segments.filter((segment) => segment !== undefined);
    if (whole.length === segments.length)
      await this.#check.attempt(async () => checkManifest(key, manifest, whole));
    // Objects that no check has reached, because another object is damaged or their kind has no check of its own.
    const unseen = namedBy(manifest)
      .entries()
      .filter(([name]) => !this.#check.hasSeen(name));
    await this.#check.each(unseen, ([name, named], part) => part.attempt(() => part.read(name, named)), {
      bytes: ([, { bytes = 0 }]) => bytes,
    });
    return manifest;
  }

  #isKnown({ entry }: Commit): boolean {
    return entry.commit <= this.#earlier.since;
  }

  /** Its pages are passed over, and what it says of itself is believed. */
  async #passOverSegment(check: StoreCheck, ref: SegmentRef): Promise<CheckedSegment | undefined> {
    const key = layout.segment(ref.hash);
    const stored = await check.read(key, ref);
    for (const page of readPages(key, stored)) await this.#passOver(check, layout.page(page.hash), page);
    return believeSegment(check, ref, stored);
  }

  async #passOver(check: StoreCheck, key: string, { bytes }: { bytes?: number }): Promise<void> {
    await check.attempt(async () => {
      const found = this.#earlier.listed.get(key);
      if (found === undefined) throw new MissingObjectError(key);
      if (found !== (bytes ?? found))
        throw new CorruptObjectError(key, `it has ${found} bytes, not ${bytes}`);
      check.passOver(key, found);
    });
  }
}

/** Compares a manifest with its segments. */
function checkManifest(key: string, manifest: Manifest, segments: readonly CheckedSegment[]): void {
  segments.forEach((segment, index) => {
    const before = segments[index - 1];
    if (before && compareKeys(before.newest, segment.oldest) >= 0) {
      throw new CorruptObjectError(key, `its segments ${index - 1} and ${index} overlap`);
    }
  });
  const newest = segments.at(-1)?.newest.resolvedAt ?? 0;
  if (new Date(newest).toISOString() !== manifest.newestResolvedAt) {
    throw new CorruptObjectError(key, "its newestResolvedAt differs from its newest market's");
  }
  segments.forEach(({ index, ids }, position) => {
    const told = manifest.segments[position]!;
    const refuse = (what: string) =>
      new CorruptObjectError(key, `it names another ${what} than ${layout.segment(told.hash)} has`);
    if (JSON.stringify(index) !== JSON.stringify(told.index)) throw refuse("index header");
    if (ids.root !== told.ids.root) throw refuse("root of the ids");
  });
}

/** Every row must come from a listed file, and every file must have as many rows as the list says. */
async function checkSources(check: StoreCheck, manifestKey: string, manifest: Manifest): Promise<void> {
  const { sources, segments } = manifest;
  const origins = segments.flatMap((segment) => segment.origins ?? []);
  if (!sources && origins.length === 0) return;
  if (!sources || origins.length !== segments.length)
    throw new CorruptObjectError(manifestKey, "it does not tell the origins of every segment");
  const rows = new Map<string, number>();
  const read = await check.each(origins.entries(), ([index, ref], part) => {
    const key = layout.origins(ref.hash);
    return part.attemptRead(key, ref, (bytes) => {
      addRowsByFile(rows, decodeOrigins(key, bytes, segments[index]!.markets));
      return true;
    });
  });
  const whole = !read.includes(undefined);
  const key = layout.sourceFiles(sources.hash);
  await check.attemptRead(key, sources, (bytes) => {
    const { files } = parseObject(key, bytes, SourceFiles);
    const told = new Map(files.filter((file) => file.rows > 0).map((file) => [file.hash, file.rows]));
    const same = told.size === rows.size && [...rows].every(([hash, count]) => told.get(hash) === count);
    if (whole && !same) throw new CorruptObjectError(key, "its numbers of rows are not those of the origins");
  });
}
