import type { Problem } from "./problem.ts";
import { agentProtocol } from "./rooms/agent-messages.ts";
import { sharingProtocol } from "./rooms/sharing.ts";

/** A protocol of others, which the service speaks at an address, or at all below it. */
export interface ForeignProtocol {
  root: string;
  /** Addresses below the root belong to it as well. */
  below: boolean;
  /** A problem in the form of the protocol. */
  problemOf: (problem: Problem) => object;
}

const protocols: Record<string, ForeignProtocol> = {
  agents: agentProtocol,
  sharing: sharingProtocol,
};

/** The protocol that is spoken at a path; undefined where that is our own. */
export const foreignAt = (path: string): ForeignProtocol | undefined =>
  Object.values(protocols).find(({ root, below }) => path === root || (below && path.startsWith(`${root}/`)));
