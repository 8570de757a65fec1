import { KeyRecord, KeyRevocation } from "../../schemas/keys.ts";
import {
  Checked,
  Collecting,
  type Commit,
  Head,
  type Manifest,
  type ObjectRef,
  type SegmentRef,
} from "../../schemas/snapshot.ts";
import { artefactFiles, artefactFolders, renderProtocol, slugOfArtefact } from "../artefacts/artefacts.ts";
import type { ReadObject } from "../changes/walk.ts";
import { artefactsAt, recordAt } from "../publish/public-artefacts.ts";
import { publicNames } from "../publish/public-names.ts";
import { type Addresses, publishedAddresses, type Site } from "../publish/site.ts";
import { listCommits, readCommit } from "../store/commits.ts";
import { probeBody } from "../store/conditional-writes.ts";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { isKeyRevocation, layout } from "../store/layout.ts";
import { MissingObjectError, readManifest, readObject } from "../store/objects.ts";
import { unseal } from "../store/sealed.ts";
import { sha256 } from "../store/sha256.ts";
import type { Storage } from "../store/storage.ts";
import { checkAgreement, type Trust, UntrustedError } from "../trust/trust.ts";
import { checkChangeRecord, compareChangeRecord } from "./changes-check.ts";
import { checkExports } from "./export-check.ts";
import { checkManifest } from "./manifest-check.ts";
import { type CheckedRead, checkScores } from "./score-check.ts";
import { type CheckedSegment, checkSegment } from "./segment-check.ts";
import { checkSources } from "./sources-check.ts";

/** Suffix for faults in objects that every publish run updates. */
const publishAgain = ": publish again";

/** An object, and what is wrong with it. */
export interface Fault {
  key: string;
  reason: string;
}

/** The result of `verify`. */
export interface VerifyReport {
  commits: number;
  /** Commits whose snapshots were deleted by a collection. */
  collected: number;
  markets: number;
  objects: number;
  bytes: number;
  /** Objects that no commit reaches. Their content was checked against their names too. */
  unreferenced: number;
  /** Objects that are as they were written, but that only a Node with another version of Unicode can judge. */
  unchecked: Fault[];
  faults: Fault[];
}

/**
 * Checks every byte of a store: the commit log, all its snapshots, the public names, the site, the key records, and
 * unreferenced objects. Returns the faults; throws only StorageError. With `keys: false` the key records are skipped, as
 * publishers may not read them. Without a `site` its files are skipped. With `trust`, signatures must be of its keys; what
 * checkpoints say is checked in any case.
 */
export async function verify(
  storage: Storage,
  progress: (step: string, done: number, of: number) => void,
  { keys = true, ...options }: { keys?: boolean; site?: Site; trust?: Trust | undefined } = {},
): Promise<VerifyReport> {
  const check = new StoreCheck(storage, progress, options);
  return check.run(keys);
}

class StoreCheck {
  readonly #storage: Storage;
  readonly #site: Site | undefined;
  readonly #trust: Trust | undefined;
  readonly #progress: (step: string, done: number, of: number) => void;
  readonly #seen = new Set<string>();
  readonly #faults: Fault[] = [];
  readonly #unchecked: Fault[] = [];
  readonly #segments = new Map<string, CheckedSegment | undefined>();
  readonly #commitsByNumber = new Map<number, Commit>();
  readonly #manifests = new Map<string, Manifest | undefined>();
  /** Hashes of all score lists and records that a manifest names. */
  readonly #published = new Set<string>();
  #addresses: Addresses = { api: null, site: null };
  #collected = 0;
  #bytes = 0;

  constructor(
    storage: Storage,
    progress: (step: string, done: number, of: number) => void,
    { site, trust }: { site?: Site; trust?: Trust | undefined },
  ) {
    this.#site = site;
    this.#trust = trust;
    this.#storage = storage;
    this.#progress = progress;
  }

  async run(keys: boolean): Promise<VerifyReport> {
    const numbers = await listCommits(this.#storage);
    const newest = await this.#commits(numbers);
    if (newest) await this.#publicNames(newest, numbers.at(-1)!);
    else await this.#countOnly(layout.stableScores);
    await checkExports(this.#storage, this.#commitsByNumber, {
      count: this.#count,
      attempt: (work) => this.#attempt(work),
      trust: this.#trust,
    });
    await this.#siteFiles();
    if (newest) await this.#artefacts(newest, numbers.at(-1)!);
    await this.#attempt(() => this.#probe());
    await this.#sealed(layout.checked, (bytes) => this.#run(bytes), publishAgain);
    const unreferenced = await this.#everythingElse(keys);
    return {
      commits: numbers.length,
      collected: this.#collected,
      markets: newest?.counts.markets ?? 0,
      objects: this.#seen.size,
      bytes: this.#bytes,
      unreferenced,
      unchecked: this.#unchecked,
      faults: this.#faults,
    };
  }

  /** Runs a check. A missing or corrupt object becomes a fault that ends in `remedy`, and the result is undefined. */
  async #attempt<T>(work: () => Promise<T>, remedy = ""): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof CorruptObjectError) && !(error instanceof MissingObjectError)) throw error;
      const fault = { key: error.key, reason: error.message.slice(error.key.length + 2) + remedy };
      // Snapshots and change records share objects, so the same fault may come up several times, and in other words.
      if (!this.#faults.some(({ key }) => key === fault.key)) this.#faults.push(fault);
      this.#seen.add(error.key);
      return undefined;
    }
  }

  #count = (key: string, bytes: number) => {
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    this.#bytes += bytes;
  };

  /**
   * Checks the commit log and every snapshot that was not collected. Returns the newest manifest unless it is faulty. The
   * oldest commits may be missing, but none between two others, and not the one that head.json names.
   */
  async #commits(numbers: readonly number[]): Promise<Manifest | undefined> {
    const missing = (number: number) =>
      this.#faults.push({ key: layout.commit(number), reason: "it is missing" });
    const kept = new Set<string>();
    for await (const { key } of this.#storage.list(layout.manifests)) kept.add(key);
    const log: (Commit | undefined)[] = [];
    let newest: Manifest | undefined;
    for (const [place, number] of numbers.entries()) {
      const expected = place === 0 ? number : numbers[place - 1]! + 1;
      if (number !== expected) missing(expected);
      const commit = await this.#commit(number, log.at(-1));
      // Collections delete the manifest first. A snapshot that still has one must be complete, as must the newest.
      const collected =
        commit && number !== numbers.at(-1) && !kept.has(layout.manifest(commit.manifest.hash));
      if (collected) this.#collected += 1;
      else newest = commit && (await this.#snapshot(commit));
      const before = log.at(-1);
      if (commit) await this.#changes(commit, before?.commit === number - 1 ? before : undefined);
      log.push(commit);
    }
    await this.#signatures(log);
    const head = await this.#sealed(layout.head, (bytes) => unseal(layout.head, bytes, Head), publishAgain);
    if (!head || head.commit <= (numbers.at(-1) ?? 0)) return newest;
    missing(head.commit);
    return undefined;
  }

  /**
   * Checks that every commit is signed by a trusted key, or is unsigned and one that a signed one leads back to, and that
   * the public checkpoint is the newest one. `log` is in ascending order.
   */
  async #signatures(log: readonly (Commit | undefined)[]): Promise<void> {
    let named: string | null | undefined;
    for (const commit of log.toReversed()) {
      const refusal = commit && this.#trust?.commit(commit);
      const refused = refusal instanceof UntrustedError;
      const vouchedFor = commit?.digest === named;
      if (refused && (commit?.checkpoint !== undefined || !vouchedFor))
        this.#faults.push({ key: refusal.key, reason: refusal.reason });
      named = refused && !vouchedFor ? undefined : commit?.previous;
    }
    const newest = log.findLast((commit) => commit?.checkpoint !== undefined)?.checkpoint;
    await this.#attempt(async () => {
      const key = layout.checkpoint;
      const bytes = await this.#storage.get(key);
      if (bytes) this.#count(key, bytes.length);
      if (!bytes && newest !== undefined) throw new MissingObjectError(key);
      if (bytes && bytes.toString() !== newest)
        throw new CorruptObjectError(key, "it is not the newest checkpoint");
    }, publishAgain);
  }

  #run(bytes: Buffer): Checked {
    const checked = unseal(layout.checked, bytes, Checked);
    const refusal = this.#trust?.run(checked);
    if (refusal) throw new CorruptObjectError(refusal.key, refusal.reason);
    return checked;
  }

  #commit(number: number, before: Commit | undefined): Promise<Commit | undefined> {
    const key = layout.commit(number);
    return this.#attempt(async () => {
      const commit = await readCommit(this.#storage, number);
      if (!commit) throw new MissingObjectError(key);
      this.#count(key, JSON.stringify(commit).length);
      checkAgreement(commit);
      if (before && before.commit === number - 1 && commit.previous !== before.digest) {
        throw new CorruptObjectError(key, `it does not name commit ${before.commit} as its predecessor`);
      }
      if (before && commit.publishedAt < before.publishedAt)
        throw new CorruptObjectError(key, `its time is before that of commit ${before.commit}`);
      this.#commitsByNumber.set(number, commit);
      return commit;
    });
  }

  async #snapshot(commit: Commit): Promise<Manifest | undefined> {
    const { hash } = commit.manifest;
    if (!this.#manifests.has(hash)) this.#manifests.set(hash, await this.#manifest(commit.manifest));
    const manifest = this.#manifests.get(hash);
    const same = JSON.stringify(manifest?.counts) === JSON.stringify(commit.counts);
    const named = manifest?.snapshotId === commit.snapshotId && manifest.archiveRoot === commit.archiveRoot;
    if (manifest && !(named && same)) {
      this.#faults.push({ key: layout.commit(commit.commit), reason: "it disagrees with its manifest" });
    }
    return manifest;
  }

  /** Checks the change record of a commit, unless it was collected, and compares it with both snapshots if they are there. */
  async #changes(commit: Commit, before: Commit | undefined): Promise<void> {
    const ref = commit.changes;
    if (!ref) return;
    const key = layout.changeRecord(ref.hash);
    if (!(await this.#storage.get(key))) return;
    const read: ReadObject = async (object, of) => {
      const bytes = await readObject(this.#storage, object, of);
      this.#count(object, bytes.length);
      return bytes;
    };
    await this.#attempt(async () => {
      const named = { since: before?.snapshotId, until: commit.snapshotId, counts: commit.changeCounts };
      const record = await checkChangeRecord(read, ref, named);
      const [older, newer] = [before, commit].map((one) => one && this.#manifests.get(one.manifest.hash));
      if (older && newer) await compareChangeRecord(read, key, record, { older, newer });
    });
  }

  async #manifest(ref: ObjectRef): Promise<Manifest | undefined> {
    const key = layout.manifest(ref.hash);
    const manifest = await this.#attempt(() => readManifest(this.#storage, ref));
    if (!manifest) return undefined;
    this.#count(key, ref.bytes);
    const segments: (CheckedSegment | undefined)[] = [];
    for (const segment of manifest.segments) {
      segments.push(await this.#segment(segment));
      this.#progress("checking segments", segments.length, manifest.segments.length);
    }
    await this.#scoresAndSources(key, manifest);
    const whole = segments.filter((segment) => segment !== undefined);
    if (whole.length === segments.length)
      await this.#attempt(async () => checkManifest(key, manifest, whole));
    return manifest;
  }

  async #segment(ref: SegmentRef): Promise<CheckedSegment | undefined> {
    if (!this.#segments.has(ref.hash)) {
      const checked = await this.#attempt(() =>
        checkSegment(
          this.#storage,
          ref,
          this.#count,
          (work) => this.#attempt(work),
          (key, reason) => this.#unchecked.push({ key, reason }),
        ),
      );
      this.#segments.set(ref.hash, checked);
    }
    return this.#segments.get(ref.hash);
  }

  async #scoresAndSources(manifestKey: string, manifest: Manifest): Promise<void> {
    for (const { hash } of publicNames(manifest).values()) this.#published.add(hash);
    const read: CheckedRead = (key, ref, check) =>
      this.#attempt(async () => {
        const bytes = await readObject(this.#storage, key, ref);
        this.#count(key, bytes.length);
        return check(bytes);
      });
    await this.#attempt(() => checkScores(manifestKey, manifest, read));
    await this.#attempt(() => checkSources(manifestKey, manifest, read));
  }

  /** Checks that the stable names of the public tree hold what the newest manifest says. */
  async #publicNames(manifest: Manifest, commit: number): Promise<void> {
    for (const [key, ref] of publicNames(manifest)) {
      await this.#attempt(async () => {
        const bytes = await this.#storage.get(key);
        if (bytes) this.#count(key, bytes.length);
        if (bytes && sha256(bytes) === ref.hash) return;
        // A publisher that stops after its commit leaves the content of an earlier snapshot, or nothing.
        const behind = !bytes || this.#published.has(sha256(bytes));
        const reason = `projection behind commit ${commit}`;
        throw new CorruptObjectError(key, behind ? reason : "its content belongs to no snapshot");
      }, publishAgain);
    }
  }

  /** Checks that the site is this version's. The next publish run replaces any other content. */
  async #siteFiles(): Promise<void> {
    if (!this.#site) {
      for (const prefix of [layout.siteIndex, layout.siteFiles, ...artefactFolders, ...artefactFiles])
        await this.#countOnly(prefix);
      return;
    }
    this.#addresses = await publishedAddresses(this.#storage);
    const { api, site } = this.#addresses;
    await this.#sameFiles(this.#site.files(api, site), "it differs from this version's file");
  }

  /** Checks the artefacts, where the store names an address for them: they follow from the newest commit and from the tiers beside them. */
  async #artefacts(manifest: Manifest, number: number): Promise<void> {
    const { api, site } = this.#addresses;
    const commit = this.#commitsByNumber.get(number);
    if (site === null || !commit) return;
    const places = { api, site };
    const expected = await this.#attempt(() => artefactsAt(this.#storage, commit, manifest, places));
    if (expected) await this.#sameFiles(expected, `it differs from what commit ${number} shows`);
  }

  async #sameFiles(files: ReadonlyMap<string, Buffer>, difference: string): Promise<void> {
    for (const [key, bytes] of files) {
      await this.#attempt(async () => {
        const stored = await this.#storage.get(key);
        if (!stored) throw new MissingObjectError(key);
        this.#count(key, stored.length);
        if (!stored.equals(bytes)) throw new CorruptObjectError(key, difference);
      }, publishAgain);
    }
  }

  /** Counts objects without checking them. */
  async #countOnly(prefix: string): Promise<void> {
    for await (const { key, bytes } of this.#storage.list(prefix)) this.#count(key, bytes);
  }

  async #probe(): Promise<void> {
    const bytes = await this.#storage.get(layout.probe);
    if (!bytes) return;
    this.#count(layout.probe, bytes.length);
    if (!bytes.equals(probeBody))
      throw new CorruptObjectError(layout.probe, "its content is not a publisher's probe");
  }

  #sealed<T>(key: string, read: (bytes: Buffer) => T, remedy?: string): Promise<T | undefined> {
    return this.#attempt(async () => {
      const bytes = await this.#storage.get(key);
      if (!bytes) throw new MissingObjectError(key);
      const record = read(bytes);
      this.#count(key, bytes.length);
      return record;
    }, remedy);
  }

  /** Checks the key records and the objects that no commit reaches. Returns the number of the latter. */
  async #everythingElse(keys: boolean): Promise<number> {
    let unreferenced = 0;
    for await (const { key } of this.#storage.list("")) {
      if (this.#seen.has(key)) continue;
      if (key.startsWith(layout.keys)) {
        if (keys) await this.#sealed(key, (bytes) => checkKey(key, bytes));
        continue;
      }
      if (key.startsWith(layout.collecting)) {
        // A collection may have deleted it since it was listed.
        await this.#attempt(async () => {
          const bytes = await this.#storage.get(key);
          if (bytes) unseal(key, bytes, Collecting);
        });
        continue;
      }
      unreferenced += 1;
      await this.#attempt(() => this.#strayObject(key));
    }
    return unreferenced;
  }

  async #strayObject(key: string): Promise<void> {
    const bytes = await this.#storage.get(key);
    if (!bytes) return;
    this.#count(key, bytes.length);
    const hash = /\/([0-9a-f]{64})(\.json(\.gz)?|\.parquet)?$/.exec(key)?.[1];
    if (hash && sha256(bytes) !== hash)
      throw new CorruptObjectError(key, "its content does not match its name");
    if (hash) return;
    // The name of a removed protocol stays, with its last content, until it is collected.
    const leftover = key.startsWith(layout.stableScores) && this.#published.has(sha256(bytes));
    if (!leftover && !(await this.#isLeftArtefact(key, bytes)))
      throw new CorruptObjectError(key, "a store has no objects with such names");
  }

  /** Whether it shows a removed protocol as a snapshot that is kept has it. */
  async #isLeftArtefact(key: string, bytes: Buffer): Promise<boolean> {
    const { api, site } = this.#addresses;
    const slug = slugOfArtefact(key);
    if (site === null || slug === undefined) return false;
    for (const manifest of this.#manifests.values()) {
      const ref = manifest && Object.hasOwn(manifest.scores.records, slug) && manifest.scores.records[slug];
      if (!ref) continue;
      const shown = new Map(renderProtocol({ api, site }, await recordAt(this.#storage, ref)));
      if (shown.get(key)?.equals(bytes)) return true;
    }
    return false;
  }
}

/** The object keys that the content of an object under keys/ allows. */
function namesOfKey(key: string, bytes: Buffer): string[] {
  if (!isKeyRevocation(key)) return [layout.key(unseal(key, bytes, KeyRecord).id)];
  const { id, revokedAt } = unseal(key, bytes, KeyRevocation);
  return [layout.keyRevocation(id), layout.keyRevocation(id, Date.parse(revokedAt))];
}

function checkKey(key: string, bytes: Buffer): void {
  if (!namesOfKey(key, bytes).includes(key))
    throw new CorruptObjectError(key, "it holds another key's record");
}
