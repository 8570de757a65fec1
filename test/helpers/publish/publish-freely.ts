import { publishedSite } from "../../../proxy/site/files.ts";
import { GuardRefusal } from "../../../snapshots/publish/guards.ts";
import { type PublishOptions, type PublishReport, publish } from "../../../snapshots/publish/publish.ts";

/**
 * Publishes, with the site, as an operator does who means every change: what a guard prints is allowed in a second run.
 */
export async function publishFreely(options: PublishOptions): Promise<PublishReport> {
  try {
    return await publish({ site: publishedSite, ...options });
  } catch (error) {
    if (error instanceof GuardRefusal)
      return publish({ site: publishedSite, ...options, allow: error.needed });
    throw error;
  }
}
