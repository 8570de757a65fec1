import { publishedSite } from "../../../proxy/site/files.ts";
import { isFault } from "../../../schemas/errors.ts";
import type { PublishReport } from "../../../snapshots/publish/commit-snapshot.ts";
import type { Allowance } from "../../../snapshots/publish/guards.ts";
import { planParts } from "../../../snapshots/publish/parts/plan-parts.ts";
import { joinParts, publishPart } from "../../../snapshots/publish/parts/publish-parts.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";

/** Runs, and once more with what a guard prints. */
async function allowing(run: (allowed: { allow?: Allowance }) => Promise<PublishReport>) {
  try {
    return await run({});
  } catch (error) {
    if (isFault(error, "GUARD_REFUSED")) return run({ allow: error.extras.needed! });
    throw error;
  }
}

/** Publishes, with the site, as an operator does who means every change, also one to a store without signatures. */
export function publishFreely(options: PublishOptions): Promise<PublishReport> {
  const freely = { site: publishedSite, ...options, signing: { unsigned: true, ...options.signing } };
  return allowing((allowed) => publish({ ...freely, ...allowed }));
}

/** Publishes in so many parts, the last one first, and lets pass what the guards print. */
export async function publishInParts(
  options: PublishOptions,
  count: number,
  run = "run",
): Promise<PublishReport> {
  await planParts(options, run, count);
  for (let part = count; part > 0; part -= 1) await publishPart(options, run, part);
  return allowing((allowed) => joinParts({ site: publishedSite, ...options, ...allowed }, run));
}
