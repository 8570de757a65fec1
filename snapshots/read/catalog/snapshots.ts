import type { TierCounts } from "../../../schemas/envelopes.ts";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { firstWhere } from "../../format/bytes.ts";
import type { CompressedPage } from "../../format/page.ts";
import { lowerBound, timeAt } from "../../index/columns.ts";
import { filterBytes } from "../../index/id-table.ts";
import type { Segment } from "../../index/segment.ts";
import { partsOf } from "../../store/objects.ts";
import { ArchiveIndex } from "../archive/evaluate.ts";
import type { LogEntry } from "./commit-log.ts";

/** A commit with the verified list of everything that its snapshot consists of. */
export interface ListedSnapshot {
  commit: LogEntry;
  manifest: Manifest;
  /** Once all indexes are loaded and verified. */
  archive?: Archive;
}

export interface Snapshot extends ListedSnapshot {
  archive: Archive;
}

/** `page` is counted within the segment, `line` within the page, newest first. */
export interface Location {
  segment: number;
  page: number;
  line: number;
}

/** The index of one snapshot in memory, and where each market is stored. */
export class Archive extends ArchiveIndex<Segment> {
  /** Once somebody asked. */
  tiers?: Promise<TierCounts>;

  /** Epoch milliseconds. */
  resolvedAt(ordinal: number): number {
    const index = this.#segmentOf(ordinal);
    return timeAt(this.segments[index]!.times, ordinal - this.starts[index]!);
  }

  /** The ordinals with exactly this time: from (inclusive) to (exclusive). */
  resolvedAtExactly(time: number): { from: number; to: number } {
    const bound = (limit: number) =>
      this.segments.reduce((sum, segment) => sum + lowerBound(segment.times, limit), 0);
    return { from: bound(time), to: bound(time + 1) };
  }

  locate(ordinal: number): Location {
    const segment = this.#segmentOf(ordinal);
    const { pageStarts } = this.segments[segment]!;
    const local = ordinal - this.starts[segment]!;
    const page = lastAtOrBelow(pageStarts, local);
    return { segment, page, line: pageStarts[page + 1]! - 1 - local };
  }

  page({ segment, page }: Location): CompressedPage {
    return this.segments[segment]!.page(page);
  }

  #segmentOf(ordinal: number): number {
    if (!(ordinal >= 0 && ordinal < this.markets)) throw new RangeError(`no market has ordinal ${ordinal}`);
    return lastAtOrBelow(this.starts, ordinal);
  }
}

/** Index of the last element at or below `value`. `starts` ascend, and their last element only marks the end. */
function lastAtOrBelow(starts: ArrayLike<number>, value: number): number {
  return firstWhere(1, starts.length - 1, (index) => starts[index]! > value) - 1;
}

// Objects and strings of a parsed manifest, beside its JSON.
const parsedFactor = 2;

/**
 * The superseded snapshots in memory that were used last. Their size is the memory that dropping them frees: their
 * manifests, and each segment that the current snapshot does not share, counted once with its filter of ids.
 */
export class SupersededSnapshots {
  readonly #maxBytes: number;
  /** By commit, those used last at the end. */
  readonly #held = new Map<number, ListedSnapshot>();
  #shared: ReadonlySet<Segment> = new Set();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(commit: number): ListedSnapshot | undefined {
    const held = this.#held.get(commit);
    if (held) {
      this.#held.delete(commit);
      this.#held.set(commit, held);
    }
    return held;
  }

  /** Adds a snapshot, or its archive, and drops others until all fit. One that is larger is not kept. */
  set(snapshot: ListedSnapshot): void {
    const { commit } = snapshot.commit;
    this.#held.delete(commit);
    this.#held.set(commit, snapshot);
    this.#fit();
  }

  /** Takes another snapshot as the current one, whose segments cost nothing. */
  share(current: ListedSnapshot): void {
    this.#shared = new Set(current.archive?.segments);
    this.drop(current.commit.commit);
  }

  values(): ListedSnapshot[] {
    return [...this.#held.values()];
  }

  drop(commit: number): void {
    this.#held.delete(commit);
    this.#fit();
  }

  /** Counts from the one used last on, and drops the first that does not fit and all before it. */
  #fit(): void {
    const counted = new Set(this.#shared);
    let bytes = 0;
    this.#bytes = 0;
    for (const [commit, snapshot] of [...this.#held].toReversed()) {
      const parts = partsOf(snapshot.manifest).values();
      bytes += parsedFactor * parts.reduce((sum, part) => sum + part.bytes, snapshot.commit.manifest.bytes);
      for (const segment of snapshot.archive?.segments ?? []) {
        if (!counted.has(segment)) bytes += segment.residentBytes + filterBytes(segment.markets);
        counted.add(segment);
      }
      if (bytes > this.#maxBytes) this.#held.delete(commit);
      else this.#bytes = bytes;
    }
  }
}
