import type { HttpEndpointId } from "../../schemas/endpoints.ts";
import type { Alive, BatchRequest, Ready, Status, Usage } from "../../schemas/envelopes.ts";
import { ServiceError } from "../../schemas/errors.ts";
import { plans } from "../../schemas/plans.ts";
import { ProtocolSlug } from "../../schemas/primitives.ts";
import type { Commit, Manifest, ObjectRef } from "../../schemas/snapshot.ts";
import type { Catalog, Snapshot } from "../../snapshots/read/catalog.ts";
import { planPage, storeFaultsAs503 } from "../../snapshots/read/paging.ts";
import { planRows } from "../../snapshots/read/rows.ts";
import { layout } from "../../snapshots/store/layout.ts";
import type { Identity } from "../access/identity.ts";
import type { PublicObjects } from "../origin/public-objects.ts";
import type { Quota } from "../quota/quota.ts";
import { negotiated, rowsReply } from "../reply/ndjson.ts";
import { encode, momentary, type Reply, tagsOf } from "../reply/reply.ts";

/** What a handler may know of a request; credentials, quota and the names in the query are settled before. */
export interface Call {
  /** The path asked for. */
  address: string;
  slug: string | undefined;
  search: string;
  caller: Identity;
  /** Of endpoints that have one. */
  body: BatchRequest | undefined;
  /** Whether all rows are wanted in one answer, where that can be had. Throws ServiceError. */
  prefersRows: () => boolean;
}

export type Handler = (call: Call) => Promise<Reply> | Reply;

/** Finds an object among what a snapshot has of scores. */
type Find = (scores: Manifest["scores"]) => ObjectRef | undefined;

/** What the handlers answer from. */
export interface HandlerSources {
  catalog: Catalog;
  objects: PublicObjects;
  quota: Quota;
  /** The reply of a static file, by its address. */
  file: (address: string) => Reply;
  staleAfterSeconds: number;
  /** Seconds since the store was read. */
  pollAge: () => number;
  /** Why the process should be sent no requests, its snapshot aside; undefined when it should. */
  unready: () => Promise<string | undefined>;
  /** Hears of every answer from an older snapshot. */
  servedStale: () => void;
  /** Epoch milliseconds. */
  now: () => number;
}

/** One handler per endpoint; a missing one does not compile. They throw ServiceError. */
export function createHandlers(sources: HandlerSources) {
  const { catalog, objects, quota, file, staleAfterSeconds, pollAge, unready, servedStale, now } = sources;

  function current(): Snapshot {
    const snapshot = catalog.current();
    if (snapshot) return snapshot;
    throw new ServiceError("SNAPSHOT_UNAVAILABLE", "No snapshot is loaded yet; try again in a few seconds.");
  }

  /** A public object that `find` finds in a snapshot. */
  function publicReply(find: Find, { keyed }: Identity): Reply {
    const from = ({ manifest }: Snapshot, object: ObjectRef): Reply => ({
      snapshotId: manifest.snapshotId,
      etag: tagsOf(object.hash),
      cacheControl: keyed ? "private, no-cache" : "private, max-age=60, stale-while-revalidate=600",
      body: async (coding) => [await objects.get(object, coding)],
    });
    const snapshot = current();
    const object = find(snapshot.manifest.scores);
    if (!object) throw unknownSlug();
    return { ...from(snapshot, object), instead: () => stale(snapshot) };

    /** The newest one in memory of the snapshots before; it says how long it has been superseded. */
    function stale(newest: Snapshot): Reply | undefined {
      let newer = newest;
      for (const older of catalog.superseded()) {
        const known = find(older.manifest.scores);
        if (known && objects.has(known)) {
          const seconds = Math.max(0, Math.floor((now() - Date.parse(newer.commit.publishedAt)) / 1000));
          servedStale();
          const headers = { Age: seconds, "Cache-Status": `prs; hit; ttl=-${seconds}; detail=origin-away` };
          return { ...from(older, known), cacheControl: "private, no-cache", headers };
        }
        newer = older;
      }
      return undefined;
    }
  }

  /** A private object that `find` finds; it comes from the store itself, never from the origin. */
  function privateReply(find: Find): Reply {
    const { manifest } = current();
    const object = find(manifest.scores);
    if (!object) throw unknownSlug();
    const key = layout.privateObject(object.hash);
    return {
      snapshotId: manifest.snapshotId,
      etag: tagsOf(object.hash),
      cacheControl: "private, no-cache",
      body: async (coding) => [
        await encode(await storeFaultsAs503(() => catalog.objects.get(key, object)), coding),
      ],
    };
  }

  function freshness({ publishedAt }: Commit) {
    const checkedAt = catalog.checkedAt() ?? publishedAt;
    const ageSeconds = Math.max(0, Math.floor((now() - Date.parse(checkedAt)) / 1000));
    return { checkedAt, ageSeconds, stale: ageSeconds > staleAfterSeconds };
  }

  return {
    listScores: ({ caller }) => publicReply(({ list }) => list, caller),

    getScore: ({ slug = "", caller }) => {
      requireSlug(slug);
      return publicReply(({ records }) => ofSlug(records, slug), caller);
    },

    batchScores: async ({ body }) => {
      const { manifest } = current();
      const asked = [...new Set(body?.slugs)].map((slug) => ({
        slug,
        object: ofSlug(manifest.scores.records, slug),
      }));
      const notFound = asked.filter(({ object }) => !object).map(({ slug }) => slug);
      const found = asked.flatMap(({ object }) => object ?? []);
      const records = await Promise.all(found.map((object) => objects.get(object, "identity")));
      const json = `{"count":${records.length},"scores":[${records.join(",")}],"notFound":${JSON.stringify(notFound)}}`;
      return momentary(Buffer.from(json), manifest.snapshotId);
    },

    scoreHistory: ({ slug = "" }) => {
      requireSlug(slug);
      return privateReply(({ histories }) => ofSlug(histories, slug));
    },

    scoreDimensions: ({ slug = "" }) => {
      requireSlug(slug);
      return privateReply(({ dimensions }) => ofSlug(dimensions, slug));
    },

    marketsHistorical: async ({ search, caller, prefersRows }) => {
      if (prefersRows()) return rowsReply(await planRows(catalog, search));
      const page = await planPage(catalog, search);
      const envelope = { tier: plans[caller.plan].tier, timestamp: new Date(now()).toISOString() };
      return {
        etag: () => page.etag,
        cacheControl: "private, no-cache",
        headers: negotiated,
        snapshotId: page.snapshot.manifest.snapshotId,
        body: (coding) => page.body({ ...envelope, gzip: coding === "gzip" }),
      };
    },

    status: () => {
      const { commit, manifest } = current();
      const { checkedAt, ageSeconds, stale } = freshness(commit);
      const { snapshotId } = manifest;
      const status: Status = {
        snapshotId,
        commit: commit.commit,
        publishedAt: commit.publishedAt,
        checkedAt,
        ageSeconds,
        stale,
        counts: { markets: manifest.counts.markets, protocols: manifest.counts.protocols },
        newestResolvedAt: manifest.newestResolvedAt,
        newestUpdatedAt: manifest.newestUpdatedAt,
      };
      return momentary(status, snapshotId);
    },

    usage: async ({ caller }) => {
      const { limit, remaining, resetAt } = await quota.standing(caller);
      const usage: Usage = { plan: caller.plan, limit, remaining, reset: resetAt / 1000 };
      return momentary(usage);
    },

    healthz: () => momentary({ status: "alive" } satisfies Alive),

    readyz: async () => {
      const { commit } = current();
      const reason = await unready();
      if (reason !== undefined) throw new ServiceError("SNAPSHOT_UNAVAILABLE", reason);
      const { snapshotId, commit: number } = commit;
      const { checkedAt: _, ...age } = freshness(commit);
      const pollAgeSeconds = Math.floor(pollAge());
      const quotaStore = quota.failing() ? "failing" : "ok";
      const ready: Ready = {
        status: "ready",
        snapshotId,
        commit: number,
        ...age,
        pollAgeSeconds,
        quotaStore,
      };
      return momentary(ready, snapshotId);
    },

    site: ({ address }) => file(address),
    siteFile: ({ address }) => file(address),
    openapi: ({ address }) => file(address),
    docs: ({ address }) => file(address),
    docsFile: ({ address }) => file(address),
  } satisfies Record<HttpEndpointId, Handler>;
}

/** Own members only: "constructor" is a slug too. */
function ofSlug(objects: Record<string, ObjectRef>, slug: string): ObjectRef | undefined {
  return Object.hasOwn(objects, slug) ? objects[slug] : undefined;
}

/** What cannot be a slug is unknown, whether or not there is a snapshot. */
function requireSlug(slug: string): void {
  if (!ProtocolSlug.safeParse(slug).success) throw unknownSlug();
}

function unknownSlug(): ServiceError {
  return new ServiceError(
    "PROTOCOL_NOT_FOUND",
    "No protocol of this slug is scored; GET /api/v1/scores lists all.",
  );
}
