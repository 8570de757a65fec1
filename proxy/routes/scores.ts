import { ProtocolSlug } from "../../schemas/primitives.ts";
import type { Manifest, ObjectRef } from "../../schemas/snapshot.ts";
import { listedAsOf, whileKept } from "../../snapshots/read/as-of.ts";
import type { Catalog } from "../../snapshots/read/catalog.ts";
import { type AsOf, parseAsOf } from "../../snapshots/read/query.ts";
import type { ListedSnapshot } from "../../snapshots/read/snapshot.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { Request, Response } from "../exchange.ts";
import type { AppParts } from "../parts.ts";
import { encode, tagsOf } from "../reply/coding.ts";
import { type Answer, momentary, type Reply } from "../reply/reply.ts";

/** Finds an object among the scores of a snapshot. */
type Find = (scores: Manifest["scores"]) => ObjectRef | undefined;

/** Answers about scores (INTERFACE 4.1 to 4.4). */
export function scoreAnswers(parts: AppParts) {
  const { catalog } = parts;
  return {
    listScores: (request, response) => {
      const asOf = parseAsOf(response.locals.parameters!);
      const find: Find = ({ list }) => list;
      return asOf
        ? storedReply(catalog, asOf, find, layout.publicObject)
        : publicReply(parts, find, request, response);
    },

    getScore: (request, response) => {
      const asOf = parseAsOf(response.locals.parameters!);
      const slug = slugOf(request);
      const find: Find = ({ records }) => ofSlug(records, slug);
      return asOf
        ? storedReply(catalog, asOf, find, layout.publicObject)
        : publicReply(parts, find, request, response);
    },

    batchScores: async (_request, { locals }) => {
      const { manifest } = catalog.requireCurrent();
      const slugs = [...new Set(locals.body?.slugs)];
      const asked = slugs.map((slug) => ({ slug, object: ofSlug(manifest.scores.records, slug) }));
      const notFound = asked.filter(({ object }) => !object).map(({ slug }) => slug);
      const found = asked.flatMap(({ object }) => object ?? []);
      // From the store, since a forwarded request can fetch only one object.
      const records = await Promise.all(
        found.map((object) => catalog.objects.get(layout.publicObject(object.hash), object)),
      );
      const json = `{"count":${records.length},"scores":[${records.join(",")}],"notFound":${JSON.stringify(notFound)}}`;
      return momentary(Buffer.from(json), manifest.snapshotId);
    },

    scoreHistory: (request, { locals }) => {
      const asOf = parseAsOf(locals.parameters!);
      const slug = slugOf(request);
      return storedReply(catalog, asOf, ({ histories }) => ofSlug(histories, slug), layout.privateObject);
    },

    scoreDimensions: (request, { locals }) => {
      const asOf = parseAsOf(locals.parameters!);
      const slug = slugOf(request);
      return storedReply(catalog, asOf, ({ dimensions }) => ofSlug(dimensions, slug), layout.privateObject);
    },
  } satisfies Record<string, Answer>;
}

/** A public object of the current snapshot or, while the origin is away, of the newest older snapshot that has it in memory. */
function publicReply(parts: AppParts, find: Find, request: Request, response: Response): Reply {
  const { catalog, objects, forwarder } = parts;
  const replyOf = ({ manifest }: ListedSnapshot, object: ObjectRef): Reply => ({
    snapshotId: manifest.snapshotId,
    etag: tagsOf(object.hash),
    cacheControl: response.locals.caller?.keyed
      ? "private, no-cache"
      : "private, max-age=60, stale-while-revalidate=600",
    async body(coding) {
      const body = await objects.get(object, () => forwarder.forward(request, response, object));
      return [body[coding]];
    },
  });
  const snapshot = catalog.requireCurrent();
  const object = find(snapshot.manifest.scores);
  if (!object) throw unknownSlug();
  return { ...replyOf(snapshot, object), instead: () => staleReply(parts, find, snapshot, replyOf) };
}

/** An older answer. Its Age tells how long its snapshot has been superseded. */
function staleReply(
  { catalog, objects, metrics, now }: AppParts,
  find: Find,
  newest: ListedSnapshot,
  replyOf: (snapshot: ListedSnapshot, object: ObjectRef) => Reply,
): Reply | undefined {
  let newer = newest;
  for (const older of catalog.superseded()) {
    const known = find(older.manifest.scores);
    if (known && objects.has(known)) {
      const seconds = Math.max(0, Math.floor((now() - Date.parse(newer.commit.publishedAt)) / 1000));
      metrics.stale.inc();
      const headers = { Age: seconds, "Cache-Status": `prs; hit; ttl=-${seconds}; detail=origin-away` };
      return { ...replyOf(older, known), cacheControl: "private, no-cache", headers };
    }
    newer = older;
  }
  return undefined;
}

/** An object of the current snapshot or of an earlier one, read from the store and never from the origin. */
async function storedReply(
  catalog: Catalog,
  asOf: AsOf | undefined,
  find: Find,
  keyOf: (hash: string) => string,
): Promise<Reply> {
  const { commit, manifest } = asOf ? await listedAsOf(catalog, asOf) : catalog.requireCurrent();
  const object = find(manifest.scores);
  if (!object) throw unknownSlug();
  const read = () => catalog.objects.get(keyOf(object.hash), object);
  return {
    snapshotId: manifest.snapshotId,
    etag: tagsOf(object.hash),
    cacheControl: "private, no-cache",
    body: async (coding) => [await encode(await whileKept(catalog, commit, read), coding)],
  };
}

/** Looks at own members only, since "constructor" is a possible slug. */
function ofSlug(objects: Record<string, ObjectRef>, slug: string): ObjectRef | undefined {
  return Object.hasOwn(objects, slug) ? objects[slug] : undefined;
}

/** The slug of the path. Throws PROTOCOL_NOT_FOUND for text that cannot be one, with or without a snapshot. */
function slugOf({ params }: Request): string {
  const slug = String(params.slug);
  if (!ProtocolSlug.safeParse(slug).success) throw unknownSlug();
  return slug;
}

function unknownSlug(): ServiceError {
  const detail = "No protocol of this slug is scored; GET /api/v1/scores lists all.";
  return new ServiceError("PROTOCOL_NOT_FOUND", detail);
}
