import { endpoints } from "../../schemas/endpoints.ts";
import type { Alive, Ready, Status, Usage } from "../../schemas/envelopes.ts";
import type { LogEntry } from "../../snapshots/read/commit-log.ts";
import { listSnapshots } from "../../snapshots/read/snapshot-list.ts";
import { sha256 } from "../../snapshots/store/sha256.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { AppParts } from "../parts.ts";
import { encode, tagsOf } from "../reply/coding.ts";
import { type Answer, momentary } from "../reply/reply.ts";

/** Answers about the service (INTERFACE 4.6). */
export function serviceAnswers(parts: AppParts) {
  const { catalog, keys, quota, listening, pollAge, staleAfterSeconds, now } = parts;

  function freshness({ publishedAt }: LogEntry) {
    const checkedAt = catalog.checkedAt() ?? publishedAt;
    const ageSeconds = Math.max(0, Math.floor((now() - Date.parse(checkedAt)) / 1000));
    return { checkedAt, ageSeconds, stale: ageSeconds > staleAfterSeconds };
  }

  /** Why the process should get no requests, or undefined. */
  async function unready(): Promise<string | undefined> {
    if (!listening()) return "The process is ending.";
    if (!keys.ready()) return "The keys are not loaded yet.";
    return (await quota.ready()) ? undefined : "Requests cannot be counted.";
  }

  return {
    status: () => {
      const { commit, manifest } = catalog.requireCurrent();
      const { snapshotId } = manifest;
      const status: Status = {
        snapshotId,
        commit: commit.commit,
        publishedAt: commit.publishedAt,
        ...freshness(commit),
        counts: { markets: manifest.counts.markets, protocols: manifest.counts.protocols },
        newestResolvedAt: manifest.newestResolvedAt,
        newestUpdatedAt: manifest.newestUpdatedAt,
      };
      return momentary(status, snapshotId);
    },

    checkpoint: async () => {
      const { commit } = catalog.requireCurrent();
      const { snapshotId } = commit;
      const checkpoint = await catalog.checkpointOf(commit);
      if (checkpoint === null)
        throw new ServiceError("NOT_FOUND", "The publisher of this snapshot does not sign.");
      const text = Buffer.from(checkpoint);
      return {
        snapshotId,
        cacheControl: "no-cache",
        etag: tagsOf(sha256(text)),
        bodyHeaders: { "Content-Type": endpoints.checkpoint.media },
        body: async (coding) => [await encode(text, coding)],
      };
    },

    listSnapshots: async () =>
      momentary(await listSnapshots(catalog), catalog.requireCurrent().manifest.snapshotId),

    usage: async (_request, { locals: { caller } }) => {
      const { limit, remaining, resetAt } = await quota.standing(caller!);
      const usage: Usage = { plan: caller!.plan, limit, remaining, reset: resetAt / 1000 };
      return momentary(usage);
    },

    healthz: () => momentary({ status: "alive" } satisfies Alive),

    readyz: async () => {
      const { commit } = catalog.requireCurrent();
      const reason = await unready();
      if (reason !== undefined) throw new ServiceError("SNAPSHOT_UNAVAILABLE", reason);
      const { snapshotId, commit: number } = commit;
      const { checkedAt: _, ...age } = freshness(commit);
      const ready: Ready = {
        status: "ready",
        snapshotId,
        commit: number,
        ...age,
        pollAgeSeconds: Math.floor(pollAge()),
        quotaStore: quota.failing() ? "failing" : "ok",
      };
      return momentary(ready, snapshotId);
    },
  } satisfies Record<string, Answer>;
}
