import type { AvailableId } from "../schemas/endpoints.ts";
import type { Status } from "../schemas/envelopes.ts";
import { ServiceError } from "../schemas/errors.ts";
import { type Plan, plans } from "../schemas/plans.ts";
import { ProtocolSlug } from "../schemas/primitives.ts";
import { parseArchiveQuery } from "../schemas/query.ts";
import type { ObjectRef } from "../schemas/snapshot.ts";
import type { Catalog, Snapshot } from "../snapshots/catalog.ts";
import { planPage } from "../snapshots/paging.ts";
import type { PublicObjects } from "./public-objects.ts";
import { momentary, type Reply } from "./reply.ts";

/** What a handler may know of a request; credentials, quota and the names in the query are settled before. */
export interface Call {
  slug: string | undefined;
  search: string;
  plan: Plan;
  /** Whether the caller presented a key. */
  keyed: boolean;
}

export type Handler = (call: Call) => Promise<Reply> | Reply;

/** What the handlers answer from. */
export interface HandlerSources {
  catalog: Catalog;
  objects: PublicObjects;
  staleAfterSeconds: number;
  /** Whether the process can answer requests, its snapshot aside. */
  ready: () => boolean;
  /** Epoch milliseconds. */
  now: () => number;
}

/** One handler per available endpoint; a missing one does not compile. They throw ServiceError. */
export function createHandlers({ catalog, objects, staleAfterSeconds, ready, now }: HandlerSources) {
  function current(): Snapshot {
    const snapshot = catalog.current();
    if (snapshot) return snapshot;
    throw new ServiceError("SNAPSHOT_UNAVAILABLE", "No snapshot is loaded yet; try again in a few seconds.");
  }

  /** A public object; its tags differ by coding, since they are strong and the bytes differ. */
  const publicReply = ({ manifest }: Snapshot, object: ObjectRef, { keyed }: Call): Reply => ({
    snapshotId: manifest.snapshotId,
    etag: (coding) => (coding === "gzip" ? `"${object.hash}-gzip"` : `"${object.hash}"`),
    cacheControl: keyed ? "private, no-cache" : "private, max-age=60, stale-while-revalidate=600",
    body: (coding) => objects.get(object, coding),
  });

  return {
    listScores: (call) => {
      const snapshot = current();
      return publicReply(snapshot, snapshot.manifest.scores.list, call);
    },

    getScore: (call) => {
      const slug = call.slug ?? "";
      if (!ProtocolSlug.safeParse(slug).success) throw unknownSlug();
      const snapshot = current();
      const { records } = snapshot.manifest.scores;
      // Own members only: "constructor" is a slug too.
      const object = Object.hasOwn(records, slug) ? records[slug] : undefined;
      if (!object) throw unknownSlug();
      return publicReply(snapshot, object, call);
    },

    marketsHistorical: async ({ search, plan }) => {
      const page = await planPage(catalog, parseArchiveQuery(search));
      const envelope = { tier: plans[plan].tier, timestamp: new Date(now()).toISOString() };
      return {
        etag: () => page.etag,
        cacheControl: "private, no-cache",
        snapshotId: page.snapshot.manifest.snapshotId,
        body: (coding) => page.body({ ...envelope, gzip: coding === "gzip" }),
      };
    },

    status: () => {
      const { commit, manifest } = current();
      const checkedAt = catalog.checkedAt() ?? commit.publishedAt;
      const ageSeconds = Math.max(0, Math.floor((now() - Date.parse(checkedAt)) / 1000));
      const { snapshotId } = manifest;
      const status: Status = {
        snapshotId,
        commit: commit.commit,
        publishedAt: commit.publishedAt,
        checkedAt,
        ageSeconds,
        stale: ageSeconds > staleAfterSeconds,
        counts: { markets: manifest.counts.markets, protocols: manifest.counts.protocols },
        newestResolvedAt: manifest.newestResolvedAt,
        newestUpdatedAt: manifest.newestUpdatedAt,
      };
      return momentary(status, snapshotId);
    },

    healthz: () => momentary({ status: "alive" }),

    readyz: () => {
      const { snapshotId } = current().manifest;
      if (!ready()) throw new ServiceError("SNAPSHOT_UNAVAILABLE", "The process is starting or ending.");
      return momentary({ status: "ready", snapshotId }, snapshotId);
    },
  } satisfies Record<AvailableId, Handler>;
}

function unknownSlug(): ServiceError {
  return new ServiceError(
    "PROTOCOL_NOT_FOUND",
    "No protocol of this slug is scored; GET /api/v1/scores lists all.",
  );
}
