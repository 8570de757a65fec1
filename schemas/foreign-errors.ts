import { endpoints } from "./endpoints.ts";
import type { Problem } from "./problem.ts";
import { apiRootOf, sharingRoot } from "./sharing.ts";

/** A problem in the form of the protocol that is spoken at a path; undefined where that protocol is our own. */
export function foreignError(path: string, problem: Problem): object | undefined {
  if (path === endpoints.agents.path)
    return { jsonrpc: "2.0", id: null, error: { code: -32000, message: problem.detail, data: problem } };
  if (apiRootOf(path) === sharingRoot) return { errorCode: problem.code, message: problem.detail };
  return undefined;
}
