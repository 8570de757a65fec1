import { open, rm } from "node:fs/promises";
import type { KeyPlan } from "../schemas/plans.ts";
import { sharingRoot } from "../schemas/rooms/sharing.ts";
import { apiPlaceAt } from "../snapshots/publish/public/site.ts";
import { messageOf } from "../snapshots/store/errors.ts";
import { type Shell, usageError } from "./cli.ts";
import { text } from "./program.ts";

export const profileOption = text(
  "FILE",
  "also writes a profile for clients of Delta Sharing (mode 0600), which holds the key; API_URL names the service",
);

/** A profile for clients of Delta Sharing, to be written to `path`; undefined without one. */
export function profileTo(shell: Shell, path: string | undefined, plan: KeyPlan) {
  if (path === undefined) return undefined;
  const endpoint = sharingEndpoint(shell, plan);
  const file = shell.path(path);
  return {
    /** Opens a new file that nobody else may read. */
    async open() {
      const handle = await open(file, "wx", 0o600).catch((error: unknown) => {
        throw usageError(`--profile: ${messageOf(error)}`);
      });
      let isWritten = false;
      return {
        async write(bearerToken: string, expirationTime: string | undefined): Promise<void> {
          const profile = { shareCredentialsVersion: 1, endpoint, bearerToken, expirationTime };
          await handle.writeFile(`${JSON.stringify(profile, null, 2)}\n`);
          isWritten = true;
          shell.say(`${file} holds the key; hand it over as you would the key`);
        },
        async [Symbol.asyncDispose]() {
          await handle.close();
          // An empty file would be in the way of the next try.
          if (!isWritten) await rm(file);
        },
      };
    },
  };
}

function sharingEndpoint({ env }: Shell, plan: KeyPlan): string {
  if (plan !== "aegis") throw usageError("--profile is for keys of the aegis plan, which the archive needs");
  const named = "--profile needs the address of the service: set API_URL to https://HOST";
  if (!env.API_URL) throw usageError(named);
  try {
    return `${apiPlaceAt(env.API_URL).replace(/\/api\/v1$/, sharingRoot)}/`;
  } catch {
    throw usageError(named);
  }
}
