import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { filterBytes } from "../../index/id-table.ts";
import type { Segment } from "../../index/segment.ts";
import { partsOf } from "../../store/objects.ts";
import type { Archive } from "../archive/archive.ts";
import type { LogEntry } from "./commit-log.ts";

/** A commit with the verified list of everything that its snapshot consists of. */
export interface ListedSnapshot {
  commit: LogEntry;
  manifest: Manifest;
}

/** A snapshot whose indexes are all loaded and verified. */
export interface Snapshot extends ListedSnapshot {
  archive: Archive;
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
  readonly #held = new Map<number, ListedSnapshot | Snapshot>();
  #shared: ReadonlySet<Segment> = new Set();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(commit: number): ListedSnapshot | Snapshot | undefined {
    const held = this.#held.get(commit);
    if (held) {
      this.#held.delete(commit);
      this.#held.set(commit, held);
    }
    return held;
  }

  /**
   * Adds a snapshot, or its indexes to its manifest, and drops others until all fit. One that is larger is not kept.
   */
  set(snapshot: ListedSnapshot | Snapshot): void {
    const { commit } = snapshot.commit;
    this.#held.delete(commit);
    this.#held.set(commit, snapshot);
    this.#fit();
  }

  /** Takes another snapshot as the current one, whose segments cost nothing. */
  share(current: ListedSnapshot | Snapshot): void {
    this.#shared = new Set(segmentsOf(current));
    this.drop(current.commit.commit);
  }

  values(): (ListedSnapshot | Snapshot)[] {
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
      for (const segment of segmentsOf(snapshot)) {
        if (!counted.has(segment)) bytes += segment.residentBytes + filterBytes(segment.markets);
        counted.add(segment);
      }
      if (bytes > this.#maxBytes) this.#held.delete(commit);
      else this.#bytes = bytes;
    }
  }
}

const segmentsOf = (snapshot: ListedSnapshot | Snapshot): readonly Segment[] =>
  "archive" in snapshot ? snapshot.archive.segments : [];
