import { endpoints } from "../../schemas/endpoints.ts";
import type { Alive, Ready, Usage } from "../../schemas/envelopes.ts";
import { listSnapshots } from "../../snapshots/read/catalog/snapshot-list.ts";
import { statusOf } from "../../snapshots/read/catalog/status.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { AppParts } from "../parts.ts";
import { type Answer, momentary, textReply } from "../reply/reply.ts";

/** Answers about the service (INTERFACE 4.6). */
export function serviceAnswers(parts: AppParts) {
  const { catalog, keys, quota, listening, pollAge } = parts;

  /** Why the process should get no requests, or undefined. */
  async function unready(): Promise<string | undefined> {
    if (!listening()) return "The process is ending.";
    if (!keys.ready()) return "The keys are not loaded yet.";
    return (await quota.ready()) ? undefined : "Requests cannot be counted.";
  }

  return {
    status: () => {
      const status = statusOf(catalog, parts);
      return momentary(status, status.snapshotId);
    },

    checkpoint: async () => {
      const { commit } = catalog.requireCurrent();
      const checkpoint = await catalog.checkpointOf(commit);
      if (checkpoint === null)
        throw new ServiceError("NOT_FOUND", "The publisher of this snapshot does not sign.");
      return {
        ...textReply(Buffer.from(checkpoint), commit.snapshotId),
        cacheControl: "no-cache",
        bodyHeaders: { "Content-Type": endpoints.checkpoint.media },
      };
    },

    listSnapshots: async () =>
      momentary(await listSnapshots(catalog), catalog.requireCurrent().manifest.snapshotId),

    usage: async (_request, { locals: { caller } }) => {
      const { limit, remaining, resetAt } = await quota.standing(caller!);
      return momentary({ plan: caller!.plan, limit, remaining, reset: resetAt / 1000 } satisfies Usage);
    },

    healthz: () => momentary({ status: "alive" } satisfies Alive),

    readyz: async () => {
      const { snapshotId, commit, ageSeconds, stale } = statusOf(catalog, parts);
      const reason = await unready();
      if (reason !== undefined) throw new ServiceError("SNAPSHOT_UNAVAILABLE", reason);
      const ready: Ready = {
        status: "ready",
        snapshotId,
        commit,
        ageSeconds,
        stale,
        pollAgeSeconds: Math.floor(pollAge()),
        quotaStore: quota.failing() ? "failing" : "ok",
      };
      return momentary(ready, snapshotId);
    },
  } satisfies Record<string, Answer>;
}
