import type { Commit, ExportRecord } from "../../schemas/store/stored-objects.ts";
import { readPages } from "../../snapshots/index/segment.ts";
import { hashIn, layout, sha256 } from "../../snapshots/store/layout.ts";
import { type Collecting, isKept } from "../helpers/store/retained.ts";
import type { Content } from "./contents.ts";
import { must, type Process } from "./kernel/kernel.ts";
import type { Stored, Watch } from "./kernel/store.ts";

/** A commit that was stored, and what is known of it. */
interface Known {
  commit: Commit;
  content: Content;
  /** The keys of all objects of its snapshot. */
  reach: ReadonlySet<string>;
  /** The keys of its change record and of the parts of that. */
  changes: ReadonlySet<string>;
}

const day = 24 * 3_600_000;
/** So long everything stays that is newer than the newest commit. */
const longestRun = 6 * 3_600_000;
/** What is named by its content is so in every world. */
const reaches = new Map<string, ReadonlySet<string>>();
/** An older record counts as that of a collection which was killed. */
const longestDeletion = 59 * 60_000;
const numberOf = (key: string) => Number(/^commits\/(\d{10})\.json$/.exec(key)?.[1] ?? 0);

/** Watches every change of a store, and knows what readers may be told. */
export class Judge {
  /** By number. */
  readonly commits: Known[] = [];
  /** What each publisher is at. */
  readonly publishing = new Map<Process, Content>();
  readonly collecting = new Map<Process, Collecting>();
  /** Processes that nobody trusts. */
  readonly thieves = new Set<Process>();
  /** Keys that a thief changed. */
  readonly tampered = new Set<string>();
  /** Digests of all commits that publishers made. */
  readonly digests = new Set<string>();
  /** Manifests that collections deleted. A publisher that was slow may put one again, and then lose the commit. */
  readonly givenUp = new Set<string>();
  /** When a collection told what it is about to delete, and how many commits there were. */
  readonly #announced = new Map<Process, { at: number; commits: number; record: string; keys: string[] }>();
  /** What was put while the record of a collection named it. */
  readonly #doomed: { key: string; process: Process; record: string; stored: Stored }[] = [];
  /** By size: the root of a tree, and when it was signed. */
  readonly #roots = new Map<string, { root: string; at: number }>();
  /** Whether a second tree of a size was signed after a thief had taken the checkpoint of the first. */
  isForked = false;
  readonly #contents = new Map<string, Content>();
  /** By the key of its record: of which commit an export is, and the keys of its objects. */
  readonly #exports = new Map<string, { commit: number; reach: ReadonlySet<string> }>();
  readonly #stored: (key: string) => Stored | undefined;
  readonly #now: () => number;

  constructor(stored: (key: string) => Stored | undefined, now: () => number) {
    this.#stored = stored;
    this.#now = now;
  }

  readonly watch: Watch = ({ key, before, after }, process) => {
    if (process && this.thieves.has(process)) return void this.tampered.add(key);
    for (const { record, keys } of this.#announced.values()) {
      const stored = this.#stored(record);
      if (after && process && stored && keys.includes(key))
        this.#doomed.push({ key, process, record, stored });
    }
    const number = numberOf(key);
    if (number > 0) this.#commit(number, key, { before, after }, process);
    else if (after && process && key.startsWith(layout.collecting.prefix))
      this.#announced.set(process, {
        at: this.#now(),
        commits: this.commits.length,
        record: key,
        keys: JSON.parse(String(after)).keys,
      });
    else if (!after && process && !key.startsWith(layout.collecting.prefix))
      this.#deleted(key, before!, process);
    else if (after && key.startsWith(layout.logCheckpoint)) this.#checkpoint(key, after);
    else if (after && key.startsWith(layout.exportRecord.prefix)) this.#export(key, after, process);
  };

  /** Who puts objects and then names them looks in between whether a collection is about to delete one. */
  #requireLook(reach: ReadonlySet<string>, who: Process | undefined): void {
    for (const { key, process, record, stored } of this.#doomed) {
      const stands = this.#stored(record) === stored && this.#now() - stored.modified < longestDeletion;
      const isNamed = process === who && reach.has(key) && stands;
      must("nothing is named that is about to be deleted", !isNamed, () => `${key} by ${who?.name}`);
    }
  }

  /** What a snapshot holds. */
  contentOf(snapshotId: string): Content {
    const content = this.#contents.get(snapshotId);
    must("readers see a published snapshot", content !== undefined, () => snapshotId);
    return content;
  }

  /** Whether a rollback withdrew a commit, as a log of so many commits tells it. */
  isWithdrawn(number: number, commits = this.commits.length): boolean {
    const withdrawn = this.commits[commits - 1]?.commit.entry.withdrawn ?? [];
    return withdrawn.some(([first, last]) => first <= number && number <= last);
  }

  #commit(
    number: number,
    key: string,
    change: { before: unknown; after: Buffer | undefined },
    process?: Process,
  ) {
    const { before, after } = change;
    const told = () => `${key} by ${process?.name}`;
    must("a commit stays", !before && after !== undefined, told);
    // Where a thief took commits away, others may follow of runs that began before their tree was signed.
    const signed = this.#roots.entries().some(([size, { at }]) => {
      // As long as one of the records that tell of it is there.
      const told = !this.tampered.has(layout.logCheckpointOf(Number(size)));
      return told && Number(size) >= number && at <= (process?.began ?? 0);
    });
    const isLost = this.tampered.has(key) && !signed;
    must("a commit is made once", number > this.commits.length || isLost, told);
    must("commits have no gaps", number <= this.commits.length + 1, told);
    this.commits.length = number - 1;
    const commit = JSON.parse(String(after)) as Commit;
    const published = process && this.publishing.get(process);
    const content = published ?? this.#contents.get(commit.entry.snapshotId);
    must("a rollback shows what was published", content !== undefined, () => commit.entry.snapshotId);
    const known = this.#contents.get(commit.entry.snapshotId) ?? content;
    must("a snapshot has one content", known === content, () => `${known.name}, ${content.name}`);
    this.#contents.set(commit.entry.snapshotId, content);
    const reach = this.#reachOf(layout.manifest(commit.manifest.hash), key);
    this.#requireLook(reach, process);
    const changes = new Set<string>();
    if (commit.changes) this.#follow(layout.changeRecord(commit.changes.hash), changes, key);
    this.digests.add(commit.digest);
    this.commits.push({ commit, content, reach, changes });
  }

  #export(key: string, record: Buffer, process: Process | undefined): void {
    const { commit, files } = JSON.parse(String(record)) as ExportRecord;
    const reach = new Set<string>();
    for (const { hash, chunks } of files)
      for (const each of [layout.exportFile(hash), layout.exportChunks(chunks.hash)]) {
        this.#requireSound(each, key);
        reach.add(each);
      }
    this.#requireLook(reach, process);
    this.#exports.set(key, { commit, reach: reach.add(key) });
  }

  /** The keys of the two newest exports that no rollback withdrew. */
  #keptExports(): ReadonlySet<string> {
    const listed = [...this.#exports].filter(
      ([key, { commit }]) => this.#stored(key) && !this.isWithdrawn(commit),
    );
    listed.sort(([, a], [, b]) => b.commit - a.commit);
    return new Set(listed.slice(0, 2).flatMap(([, { reach }]) => [...reach]));
  }

  /** The keys of a snapshot's objects, all of which must be there as they are named. */
  #reachOf(manifest: string, who: string): ReadonlySet<string> {
    const known = reaches.get(manifest);
    if (known) {
      for (const key of known) this.#requireSound(key, who);
      return known;
    }
    const reach = new Set<string>();
    this.#follow(manifest, reach, who);
    if (this.thieves.size === 0) reaches.set(manifest, reach);
    return reach;
  }

  /** What an object holds; undefined where a thief changed it. `who` is the key of what names it. */
  #requireSound(key: string, who: string): Buffer | undefined {
    // Where a thief deleted a commit, a late attempt at it succeeds, whose snapshot was collected.
    if (this.tampered.has(key) || this.tampered.has(who)) return undefined;
    const bytes = this.#stored(key)?.bytes;
    must("what is named is there", bytes !== undefined, () => `${key} of ${who}`);
    must("what is named is whole", sha256(bytes) === hashIn(key), () => `${key} of ${who}`);
    return bytes;
  }

  /** Adds an object and those that it names. */
  #follow(key: string, reach: Set<string>, who: string): void {
    if (reach.has(key)) return;
    const bytes = this.#requireSound(key, who);
    reach.add(key);
    if (!bytes) return;
    const named = key.startsWith(layout.segment.prefix)
      ? readPages(key, bytes).map(({ hash }) => layout.page(hash))
      : key.startsWith(layout.scoreLines.prefix)
        ? objectsOfLines(String(bytes))
        : key.endsWith(".json") &&
            !key.startsWith(layout.publicObject.prefix) &&
            !key.startsWith(layout.privateObject.prefix)
          ? refsIn(JSON.parse(String(bytes)), key)
          : [];
    for (const each of named) this.#follow(each, reach, who);
  }

  #deleted(key: string, { modified }: Stored, process: Process): void {
    const collection = this.collecting.get(process);
    if (!collection) {
      must("nobody but gc deletes what is named by its content", hashIn(key) === "", () => key);
      return;
    }
    if (layout.manifest.has(key)) this.givenUp.add(key);
    const names = this.commits.at(-1)?.content.slugs.map(layout.stableScore) ?? [];
    // One that a commit brings back meanwhile may go all the same; the next run puts it back.
    const announced = this.#announced.get(process);
    const excused = this.thieves.size > 0 || announced?.commits !== this.commits.length;
    must("no name of the newest commit is deleted", excused || !names.includes(key), () => key);
    must("no new export is deleted", excused || !this.#keptExports().has(key), () => key);
    const newest = this.#stored(layout.commit(this.commits.length));
    const mayBeOfARun = (!newest || modified >= newest.modified) && modified > collection.now - longestRun;
    // What came after the announcement may be deleted all the same: a run looks for that. S3 tells whole seconds.
    const wrong = mayBeOfARun && modified + 1000 <= (announced?.at ?? 0);
    must("what a run may just have written is not deleted", excused || !wrong, () => key);
    for (const [index, { commit, reach, changes }] of this.commits.entries()) {
      // A collection that keeps less may have given the snapshot up before.
      const manifest = layout.manifest(commit.manifest.hash);
      const whole = key === manifest || this.#stored(manifest) || index === this.commits.length - 1;
      // Nobody can tell what a commit that is gone, or has others behind it, kept.
      const sound = this.commits
        .slice(index)
        .every((each) => !this.tampered.has(layout.commit(each.commit.entry.commit)));
      const kept = whole && sound && isKept(this.commits, index, collection);
      must(
        "nothing reachable is deleted",
        !(kept && reach.has(key)),
        () => `${key} of commit ${commit.entry.commit}`,
      );
      const { now, keepChangesDays = 0 } = collection;
      const young =
        keepChangesDays > 0 && Date.parse(commit.entry.publishedAt) >= now - keepChangesDays * day;
      const [record = ""] = changes;
      // Of one that a thief has changed nobody can tell the parts.
      const told = !this.tampered.has(record) && (key === record || this.#stored(record));
      must(
        "no young change is deleted",
        !(sound && young && told && changes.has(key)),
        () => `${key} of ${commit.entry.commit}`,
      );
    }
  }

  #checkpoint(key: string, note: Buffer): void {
    const [, size = "", root = ""] = String(note).split("\n");
    const known = this.#roots.get(size);
    if (known?.root === root) return;
    // A publisher that lost all that told of a tree signs another one. Those who remember the first refuse that.
    const isForgotten = this.tampered.has(layout.logCheckpointOf(Number(size)));
    must("no second tree of a size is signed", !known || isForgotten, () => key);
    this.isForked ||= known !== undefined;
    this.#roots.set(size, { root, at: this.#now() });
  }
}

/** Keys of the objects that the lines of scores name. */
const objectsOfLines = (text: string) =>
  [...text.matchAll(/^(score)?.* (\w+)$/gm)].map(([, isOpen, hash = ""]) =>
    isOpen ? layout.publicObject(hash) : layout.privateObject(hash),
  );

/** Keys of the objects that a JSON object names by their hashes, by the member that does. */
function refsIn(value: unknown, key: string): string[] {
  const found: string[] = [];
  const visit = (each: unknown, path: readonly string[]) => {
    if (typeof each !== "object" || each === null) return;
    const { hash } = each as { hash?: string };
    if (typeof hash === "string" && "bytes" in each) found.push(keyOf(hash, path, key));
    for (const [name, member] of Object.entries(each)) visit(member, [...path, name]);
  };
  visit(value, []);
  return found.filter((each) => each !== "");
}

function keyOf(hash: string, path: readonly string[], key: string): string {
  const name = path.findLast((each) => !/^\d+$/.test(each)) ?? "";
  if (key.startsWith(layout.manifest.prefix)) {
    if (name === "lists") return layout.segmentList(hash);
    if (name === "scores") return layout.scoreLines(hash);
    if (name === "sources") return layout.sourceFiles(hash);
  }
  if (key.startsWith(layout.segmentList.prefix)) {
    if (name === "segments") return layout.segment(hash);
    if (name === "rows") return layout.rows(hash);
    if (name === "ids") return layout.ids(hash);
    if (name === "words") return layout.words(hash);
    if (name === "origins") return layout.origins(hash);
  }
  if (key.startsWith(layout.changeRecord.prefix)) return layout.changePart(hash);
  return "";
}
