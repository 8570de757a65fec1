import { endpoints } from "./endpoints.ts";
import type { Problem } from "./problem.ts";
import { apiRootOf, sharingRoot } from "./sharing.ts";

/** What the protocol that is spoken at a path makes of a problem; undefined where that is ours. */
export function foreignError(path: string, problem: Problem): object | undefined {
  if (path === endpoints.agents.path)
    return { jsonrpc: "2.0", id: null, error: { code: -32000, message: problem.detail, data: problem } };
  if (apiRootOf(path) === sharingRoot) return { errorCode: problem.code, message: problem.detail };
  return undefined;
}
