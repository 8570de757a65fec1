import { z } from "zod";
import type { ScoreProof } from "../../schemas/envelopes.ts";
import { Fault } from "../../schemas/errors.ts";
import { ProtocolSlug, ScoreListEntry } from "../../schemas/records.ts";
import type { Manifest, NamedObject, TierChange, Tiers } from "../../schemas/store/stored-objects.ts";
import { maxChanges, oldestTold } from "../artefacts/artefacts.ts";
import { leafHash } from "../format/tree.ts";
import { MissingObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout, sha256 } from "../store/layout.ts";
import { scoreLines } from "../store/manifest.ts";
import { parseObject } from "../store/objects.ts";
import { whileKept } from "./answer.ts";
import { awaitBudget, budgets, Memo } from "./budgets.ts";
import type { Catalog } from "./catalog/catalog.ts";
import type { LogEntry } from "./catalog/commit-log.ts";
import { type Logged, levelOf } from "./catalog/public-log.ts";
import type { ListedSnapshot } from "./catalog/snapshots.ts";
import { didYouMean } from "./parameters.ts";

/** The list of all protocols, or an object of one of them. */
export type ScoreName = "list" | { kind: "records" | "histories" | "dimensions"; slug: string };

/** A score object and the snapshot that has it. */
export interface FoundScore extends ListedSnapshot {
  object: NamedObject;
}

export function scoreNamed(
  catalog: Catalog,
  kind: "records" | "histories" | "dimensions",
  text: string,
): ScoreName {
  if (!ProtocolSlug.safeParse(text).success) throw protocolNotFound(text, catalog.current()?.manifest);
  return { kind, slug: text };
}

function protocolNotFound(slug: string, manifest?: Manifest): Fault {
  const question = didYouMean(slug, Object.keys(manifest?.scores.records ?? {}));
  const detail = `No protocol of this slug is scored; GET /api/v1/scores lists all.${question}`;
  return new Fault("PROTOCOL_NOT_FOUND", detail);
}

function objectOf({ scores }: Manifest, name: ScoreName): NamedObject | undefined {
  if (name === "list") return scores.list;
  // Own members only, since "constructor" is a possible slug.
  const objects = scores[name.kind];
  return Object.hasOwn(objects, name.slug) ? objects[name.slug] : undefined;
}

export function findScore({ commit, manifest }: ListedSnapshot, name: ScoreName): FoundScore {
  const object = objectOf(manifest, name);
  if (!object) throw protocolNotFound(name === "list" ? "" : name.slug, manifest);
  return { commit, manifest, object };
}

/** In the snapshot of a commit, which a collection may delete meanwhile. */
export async function findScoreAsOf(
  catalog: Catalog,
  commit: LogEntry,
  name: ScoreName,
): Promise<FoundScore> {
  return findScore(await whileKept(catalog, commit, () => catalog.listed(commit)), name);
}

export function readScore(
  catalog: Catalog,
  { commit, object }: FoundScore,
  name: ScoreName,
): Promise<Buffer> {
  const isPublic = name === "list" || name.kind === "records";
  const key = isPublic ? layout.publicObject(object.hash) : layout.privateObject(object.hash);
  return whileKept(catalog, commit, () => catalog.objects.get(key, object));
}

/**
 * The newest superseded snapshot with a score object that `isAtHand`, and when the snapshot after it was published (ISO
 * 8601).
 */
export function supersededScore(
  catalog: Catalog,
  name: ScoreName,
  isAtHand: (object: NamedObject) => boolean,
): (FoundScore & { supersededAt: string }) | undefined {
  let { publishedAt: supersededAt } = catalog.requireCurrent().commit;
  for (const { commit, manifest } of catalog.superseded()) {
    const object = objectOf(manifest, name);
    if (object && isAtHand(object)) return { commit, manifest, object, supersededAt };
    supersededAt = commit.publishedAt;
  }
  return undefined;
}

/** Records of the current snapshot, as the JSON of a batch. */
export async function readBatch(catalog: Catalog, slugs: readonly string[]) {
  const { commit, manifest } = catalog.requireCurrent();
  const entries = [...new Set(slugs)].map((slug) => {
    return { slug, object: objectOf(manifest, { kind: "records", slug }) };
  });
  const notFound = entries.filter(({ object }) => !object).map(({ slug }) => slug);
  const objects = entries.flatMap(({ object }) => object ?? []);
  const records = await Promise.all(
    objects.map((object) => catalog.objects.get(layout.publicObject(object.hash), object)),
  );
  const json = `{"count":${records.length},"scores":[${records.join(",")}],"notFound":${JSON.stringify(notFound)}}`;
  return { snapshotId: commit.snapshotId, json: Buffer.from(json) };
}

/** The path from the record of a protocol's score to a checkpoint of the log (snapshots/SPEC.md, "Proofs"). */
export async function proveScore(
  catalog: Catalog,
  slug: string,
  ...[commit, prove]: Logged
): Promise<ScoreProof> {
  const name = scoreNamed(catalog, "records", slug);
  const source = await findScoreAsOf(catalog, commit, name);
  const score = await readScore(catalog, source, name);
  const lines = scoreLines(source.manifest.scores);
  const leaves = lines.map((line) => leafHash(Buffer.from(line)));
  const { inclusion, ...proven } = await prove();
  const place = lines.indexOf(`score ${slug} ${source.object.hash}`);
  return { score: score.toString(), ...proven, proof: { score: levelOf(place, leaves), inclusion } };
}

// Reading the list of some thousand protocols fills a round of the event loop, and so does its manifest.
const stepsPerList = 20;
const readAtOnce = 4;

/** Only these members are parsed: more would take several times as long. */
const { slug, forgeScale, bri } = ScoreListEntry.shape;
const TierList = z.object({ scores: z.array(z.object({ slug, forgeScale, bri })) });

type Scored = ReadonlyMap<string, Pick<TierChange, "to" | "bri">>;

interface TierAnswer {
  json: Buffer;
  hash: string;
}

/**
 * The tiers of the current snapshot, and how they came to differ from those of 30 days before. They follow from the
 * snapshots that are kept, so every process gives the same answer.
 */
export function tierLog(catalog: Catalog) {
  /** By the digests of commits. */
  const scoredAt = new Memo<Scored>(budgets.tiers, ({ size }) => size + 1);
  /** By the digests of both commits. */
  const stepsBetween = new Memo<readonly TierChange[]>(budgets.tiers, ({ length }) => length + 1);
  /** The last answer, by the digests of its commits. */
  const answers = new Memo<TierAnswer>(budgets.tierAnswers);

  /** `kept` has the newest commit first. */
  async function tell(kept: readonly LogEntry[], newest: LogEntry): Promise<TierAnswer> {
    const pairs = kept.slice(1).map((older, index) => [older, kept[index]!] as const);
    await inParallel(pairs, ([older, newer]) => changesBetween(older, newer), readAtOnce);
    const changes: TierChange[] = [];
    let scored: Scored | undefined;
    let after: LogEntry | undefined;
    for (const commit of kept) {
      // A collection may delete a snapshot meanwhile; the log is then as if it had never been.
      const steps = after ? await changesBetween(commit, after) : [];
      if (!after) scored = await unless(MissingObjectError, () => scoresOf(commit));
      if (!steps || !scored) continue;
      for (const change of steps) changes.push(change);
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
  function changesBetween(older: LogEntry, newer: LogEntry): Promise<readonly TierChange[] | undefined> {
    const compare = async () => {
      const [now, before] = [await scoresOf(newer), await scoresOf(older)];
      const changes = [...now].flatMap(([slug, { to, bri }]): TierChange[] => {
        const from = before.get(slug)?.to ?? to;
        return from === to ? [] : [{ slug, from, to, bri, at: newer.publishedAt }];
      });
      return changes.reverse();
    };
    return unless(MissingObjectError, () => stepsBetween.get(`${older.digest} ${newer.digest}`, compare));
  }

  function scoresOf(commit: LogEntry): Promise<Scored> {
    return scoredAt.get(commit.digest, async () => {
      const { list } = (await catalog.listed(commit)).manifest.scores;
      const key = layout.publicObject(list.hash);
      const bytes = await catalog.objects.get(key, list);
      await awaitBudget(stepsPerList);
      const { scores } = parseObject(key, bytes, TierList);
      return new Map(scores.map(({ slug, forgeScale: to, bri }) => [slug, { to, bri }]));
    });
  }

  return async (): Promise<TierAnswer & { snapshotId: string }> => {
    const { commit } = catalog.requireCurrent();
    const oldest = oldestTold(commit.publishedAt);
    const kept = (await catalog.log.readable()).filter(
      (one) => one.commit <= commit.commit && one.publishedAt >= oldest,
    );
    const of = kept.map(({ digest }) => digest).join();
    const answer = await answers.get(of, () => tell(kept, commit));
    return { ...answer, snapshotId: commit.snapshotId };
  };
}
