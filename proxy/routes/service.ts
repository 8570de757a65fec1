import type { Alive, Ready, Usage } from "../../schemas/envelopes.ts";
import { Fault } from "../../schemas/errors.ts";
import { listSnapshots, publicStatus, statusOf } from "../../snapshots/read/archive/counts.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { type Answer, type Reply, textReply, uncachedJson } from "../reply/reply.ts";
import type { AppServices } from "../services.ts";

/** Answers about the service (INTERFACE 4.6). */
export function serviceAnswers(services: AppServices) {
  const { catalog, publicLog, keys, quota, listening, pollAge } = services;

  async function requireReady(): Promise<void> {
    if (!listening()) throw new Fault("SNAPSHOT_UNAVAILABLE", "The process is ending.");
    if (!keys.ready()) throw new Fault("SNAPSHOT_UNAVAILABLE", "The keys are not loaded yet.");
    const detail = "Requests cannot be counted: QUOTA_STORE does not answer, and QUOTA_ON_FAILURE is closed.";
    if (!(await quota.ready())) throw new Fault("QUOTA_UNAVAILABLE", detail);
  }

  /** A file of the public log. Throws NOT_FOUND with the message `missing` where the log lacks it. */
  async function logReply(name: string, missing: string): Promise<Reply> {
    const content = await publicLog.file(name);
    const { snapshotId } = catalog.requireCurrent().commit;
    if (!content) throw new Fault("NOT_FOUND", missing);
    const { contentType, cacheControl } = headersOf(layout.logFile(name));
    return {
      ...textReply(content, snapshotId),
      cacheControl,
      // Not compressed, because this endpoint is free.
      coding: "identity",
      content: () => ({ body: [content], headers: { "Content-Type": contentType } }),
    };
  }

  return {
    status: async () => {
      const status = await publicStatus(catalog, services);
      return uncachedJson(status, status.snapshotId);
    },

    checkpoint: () => logReply("checkpoint", "The publisher does not sign."),
    log: ({ params }) => logReply(params.logFile!, "The log does not have this file now."),

    listSnapshots: async () =>
      uncachedJson(await listSnapshots(catalog), catalog.requireCurrent().commit.snapshotId),

    usage: async ({ caller }) => {
      const { limit, remaining, resetAt } = await quota.standing(caller!);
      return uncachedJson({ plan: caller!.plan, limit, remaining, reset: resetAt / 1000 } satisfies Usage);
    },

    healthz: () => uncachedJson({ status: "alive" } satisfies Alive),

    readyz: async () => {
      const { snapshotId, commit, ageSeconds, stale } = statusOf(catalog, services);
      await requireReady();
      const ready: Ready = {
        status: "ready",
        snapshotId,
        commit,
        ageSeconds,
        stale,
        pollAgeSeconds: Math.floor(pollAge()),
        quotaStore: quota.failing() ? "failing" : "ok",
        counting: await quota.counting(),
        heldBack: catalog.heldBack() ?? null,
      };
      return uncachedJson(ready, snapshotId);
    },
  } satisfies Record<string, Answer>;
}
