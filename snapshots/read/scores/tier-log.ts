import { z } from "zod";
import { ScoreListEntry } from "../../../schemas/records.ts";
import type { TierChange, Tiers } from "../../../schemas/store/snapshot.ts";
import { maxChanges, oldestTold } from "../../artefacts/tiers.ts";
import { MissingObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout, sha256 } from "../../store/layout.ts";
import { parseObject } from "../../store/objects.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { awaitBudget } from "../effort.ts";
import { budgets, Memo, SingleFlight } from "../memo.ts";

// Reading the list of some thousand protocols fills a round of the event loop, and so does its manifest.
const stepsPerList = 20;
const readAtOnce = 4;

/** Only these members are parsed: more would take several times as long. */
const { slug, forgeScale, bri } = ScoreListEntry.shape;
const TierList = z.object({ scores: z.array(z.object({ slug, forgeScale, bri })) });

type Scored = ReadonlyMap<string, Pick<TierChange, "to" | "bri">>;

interface Told {
  json: Buffer;
  hash: string;
}

/**
 * The tiers of the current snapshot, and how they came to differ from those of 30 days before. They follow from the
 * snapshots that are kept, so every process gives the same answer.
 */
export class TierLog {
  readonly #catalog: Catalog;
  /** By the digests of commits. */
  readonly #scored = new Memo<Scored>(budgets.tiers, ({ size }) => size + 1);
  /** By the digests of both commits. */
  readonly #steps = new Memo<readonly TierChange[]>(budgets.tiers, ({ length }) => length + 1);
  readonly #reading = new SingleFlight<Told>();
  /** The last answer, and the digests of its commits. */
  #last: (Told & { of: string }) | undefined;

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  async read(): Promise<Told & { snapshotId: string }> {
    const { commit } = this.#catalog.requireCurrent();
    const oldest = oldestTold(commit.publishedAt);
    const kept = (await this.#catalog.log.readable()).filter(
      (one) => one.commit <= commit.commit && one.publishedAt >= oldest,
    );
    const of = kept.map(({ digest }) => digest).join();
    if (this.#last?.of !== of)
      this.#last = { of, ...(await this.#reading.run(of, () => this.#tell(kept, commit))) };
    return { ...this.#last, snapshotId: commit.snapshotId };
  }

  /** `kept` has the newest commit first. */
  async #tell(kept: readonly LogEntry[], newest: LogEntry): Promise<Told> {
    const pairs = kept.slice(1).map((older, index) => [older, kept[index]!] as const);
    const compare = async ([older, newer]: (typeof pairs)[number]) =>
      void (await this.#changesBetween(older, newer));
    await inParallel(pairs, compare, readAtOnce);
    const changes: TierChange[] = [];
    let scored: Scored | undefined;
    let after: LogEntry | undefined;
    for (const commit of kept) {
      // A collection may delete a snapshot meanwhile; the log is then as if it had never been.
      const found = after ? await this.#changesBetween(commit, after) : [];
      if (!after) scored = await unless(MissingObjectError, () => this.#scoresOf(commit));
      if (!found || !scored) continue;
      for (const change of found) changes.push(change);
      after = commit;
    }
    const tiers: Tiers = {
      since: kept.at(-1)?.publishedAt ?? newest.publishedAt,
      tiers: Object.fromEntries([...(scored ?? [])].map(([slug, { to }]) => [slug, to])),
      changes: changes.slice(0, maxChanges),
    };
    const json = Buffer.from(JSON.stringify(tiers));
    return { json, hash: sha256(json) };
  }

  /** In the reverse order of the score list; undefined when one of the two snapshots is gone. */
  #changesBetween(older: LogEntry, newer: LogEntry): Promise<readonly TierChange[] | undefined> {
    const compare = async () => {
      const [now, before] = [await this.#scoresOf(newer), await this.#scoresOf(older)];
      const changes = [...now].flatMap(([slug, { to, bri }]): TierChange[] => {
        const from = before.get(slug)?.to ?? to;
        return from === to ? [] : [{ slug, from, to, bri, at: newer.publishedAt }];
      });
      return changes.reverse();
    };
    return unless(MissingObjectError, () => this.#steps.get(`${older.digest} ${newer.digest}`, compare));
  }

  /** Throws MissingObjectError when the snapshot is gone. */
  #scoresOf(commit: LogEntry): Promise<Scored> {
    return this.#scored.get(commit.digest, () => this.#read(commit));
  }

  async #read(commit: LogEntry): Promise<Scored> {
    const { list } = (await this.#catalog.listed(commit)).manifest.scores;
    const key = layout.publicObject(list.hash);
    const bytes = await this.#catalog.objects.get(key, list);
    await awaitBudget(stepsPerList);
    const { scores } = parseObject(key, bytes, TierList);
    return new Map(scores.map(({ slug, forgeScale: to, bri }) => [slug, { to, bri }]));
  }
}
