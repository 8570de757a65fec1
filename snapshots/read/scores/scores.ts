import type { ScoreProof } from "../../../schemas/envelopes.ts";
import { Fault } from "../../../schemas/errors.ts";
import { ProtocolSlug } from "../../../schemas/primitives.ts";
import type { Manifest, NamedObject } from "../../../schemas/store/snapshot.ts";
import { scoreLines } from "../../format/score-lines.ts";
import { leafHash } from "../../format/tree.ts";
import { layout } from "../../store/layout.ts";
import { whileKept } from "../catalog/as-of.ts";
import type { ListedSnapshot } from "../catalog/caches.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { type Logged, levelOf } from "../catalog/log-proof.ts";
import { didYouMean } from "../query/parameters.ts";

/** The list of all protocols, or an object of one of them. */
export type ScoreName = "list" | { kind: "records" | "histories" | "dimensions"; slug: string };

/** A score object and the snapshot that has it. */
export interface FoundScore extends ListedSnapshot {
  object: NamedObject;
}

/** Throws PROTOCOL_NOT_FOUND for text that cannot be a slug. */
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

/** Throws PROTOCOL_NOT_FOUND when the snapshot has no such protocol. */
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
  const asked = [...new Set(slugs)].map((slug) => {
    return { slug, object: objectOf(manifest, { kind: "records", slug }) };
  });
  const notFound = asked.filter(({ object }) => !object).map(({ slug }) => slug);
  const found = asked.flatMap(({ object }) => object ?? []);
  const records = await Promise.all(
    found.map((object) => catalog.objects.get(layout.publicObject(object.hash), object)),
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
  const found = await findScoreAsOf(catalog, commit, name);
  const score = await readScore(catalog, found, name);
  const lines = scoreLines(found.manifest.scores);
  const leaves = lines.map((line) => leafHash(Buffer.from(line)));
  const { inclusion, ...proven } = await prove();
  const place = lines.indexOf(`score ${slug} ${found.object.hash}`);
  return { score: score.toString(), ...proven, proof: { score: levelOf(place, leaves), inclusion } };
}
