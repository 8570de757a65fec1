import { filterBytes } from "../../index/id-table.ts";
import type { Segment } from "../../index/segment.ts";
import { partsOf } from "../../store/objects.ts";
import type { ListedSnapshot, Snapshot } from "./caches.ts";

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
  /** How many of them have a segment. */
  readonly #users = new Map<Segment, number>();
  #shared: ReadonlySet<Segment> = new Set();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Counted bytes. */
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
    this.drop(commit);
    this.#held.set(commit, snapshot);
    this.#count(snapshot, 1);
    for (const oldest of this.#held.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.drop(oldest);
    }
  }

  /** Takes another snapshot as the current one, whose segments cost nothing. */
  share(current: ListedSnapshot | Snapshot): void {
    const all = [...this.#held.values()];
    for (const { commit } of all) this.drop(commit.commit);
    this.#shared = new Set("archive" in current ? current.archive.segments : []);
    for (const snapshot of all) if (snapshot.commit.commit !== current.commit.commit) this.set(snapshot);
  }

  values(): (ListedSnapshot | Snapshot)[] {
    return [...this.#held.values()];
  }

  /** Forgets a snapshot. */
  drop(commit: number): void {
    const held = this.#held.get(commit);
    if (!held) return;
    this.#held.delete(commit);
    this.#count(held, -1);
  }

  #count(snapshot: ListedSnapshot | Snapshot, sign: 1 | -1): void {
    const parts = partsOf(snapshot.manifest).values();
    const json = parts.reduce((sum, { bytes }) => sum + bytes, snapshot.commit.manifest.bytes);
    this.#bytes += sign * json * parsedFactor;
    for (const segment of "archive" in snapshot ? snapshot.archive.segments : []) {
      if (this.#shared.has(segment)) continue;
      const users = this.#users.get(segment) ?? 0;
      if (users === (sign > 0 ? 0 : 1))
        this.#bytes += sign * (segment.residentBytes + filterBytes(segment.markets));
      if (users + sign === 0) this.#users.delete(segment);
      else this.#users.set(segment, users + sign);
    }
  }
}
