import { LRUCache } from "lru-cache";
import { ScoreList } from "../../../schemas/envelopes.ts";
import type { TierChange, Tiers } from "../../../schemas/store/snapshot.ts";
import { maxChanges, oldestTold } from "../../artefacts/tiers.ts";
import { MissingObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { parseObject } from "../../store/parse.ts";
import { SingleFlight } from "../catalog/caches.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";

/** Of so many protocols in all snapshots together, so that only new snapshots are read. Each takes some 100 bytes. */
const maxHeld = 100_000;

/** The tier and the BRI of each protocol. */
type Scored = ReadonlyMap<string, Pick<TierChange, "to" | "bri">>;

/**
 * The tiers of the current snapshot, and how they came to differ from those of 30 days before. It follows from the
 * snapshots that are kept, so every process tells the same.
 */
export class TierLog {
  readonly #catalog: Catalog;
  /** By the digests of commits. */
  readonly #held = new LRUCache<string, Scored>({
    maxSize: maxHeld,
    sizeCalculation: ({ size }) => size + 1,
  });
  readonly #reading = new SingleFlight<Tiers>();

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  /** The log as JSON, and its snapshot. Throws NoSnapshotError, CorruptObjectError or StorageError. */
  async read(): Promise<{ json: Buffer; snapshotId: string }> {
    const { commit } = this.#catalog.requireCurrent();
    const tiers = await this.#reading.run(commit.digest, () => this.#readTo(commit));
    return { json: Buffer.from(JSON.stringify(tiers)), snapshotId: commit.snapshotId };
  }

  async #readTo(newest: LogEntry): Promise<Tiers> {
    const oldest = oldestTold(newest.publishedAt);
    const kept = (await this.#catalog.readable())
      .filter(({ commit, publishedAt }) => commit <= newest.commit && publishedAt >= oldest)
      .toReversed();
    const found = new Map<LogEntry, Scored>();
    await inParallel(kept, async (commit) => {
      // A collection may delete it meanwhile.
      const scored = await unless(MissingObjectError, () => this.#scoresOf(commit));
      if (scored) found.set(commit, scored);
    });
    const changes: TierChange[] = [];
    let before: Scored = new Map();
    for (const commit of kept) {
      const now = found.get(commit) ?? before;
      for (const [slug, { to, bri }] of now) {
        const from = before.get(slug)?.to ?? to;
        if (from !== to) changes.push({ slug, from, to, bri, at: commit.publishedAt });
      }
      before = now;
    }
    return {
      since: kept[0]?.publishedAt ?? newest.publishedAt,
      tiers: Object.fromEntries([...before].map(([slug, { to }]) => [slug, to])),
      changes: changes.toReversed().slice(0, maxChanges),
    };
  }

  async #scoresOf(commit: LogEntry): Promise<Scored> {
    const held = this.#held.get(commit.digest);
    if (held) return held;
    const { list } = (await this.#catalog.listed(commit)).manifest.scores;
    const key = layout.publicObject(list.hash);
    const { scores } = parseObject(key, await this.#catalog.objects.get(key, list), ScoreList);
    const scored = new Map(scores.map(({ slug, forgeScale: to, bri }) => [slug, { to, bri }]));
    this.#held.set(commit.digest, scored);
    return scored;
  }
}
