import { publishedSite } from "../../../proxy/site/files.ts";
import { isFault } from "../../../schemas/errors.ts";
import type { PublishReport } from "../../../snapshots/publish/commit-snapshot.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";

/**
 * Publishes, with the site, as an operator does who means every change, also one to a store without signatures: what a
 * guard prints is allowed in a second run.
 */
export async function publishFreely(options: PublishOptions): Promise<PublishReport> {
  const freely = { site: publishedSite, ...options, signing: { unsigned: true, ...options.signing } };
  try {
    return await publish(freely);
  } catch (error) {
    if (isFault(error, "GUARD_REFUSED")) return publish({ ...freely, allow: error.extras.needed! });
    throw error;
  }
}
