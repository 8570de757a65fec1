import { type Endpoint, endpoints } from "./endpoints.ts";
import type { Problem } from "./envelopes.ts";
import { marketIdPattern } from "./market.ts";
import { exportNamePattern, logFilePattern } from "./records.ts";
import { agentProtocol } from "./rooms/agents.ts";
import { sharingProtocol } from "./rooms/sharing.ts";
import { digestPattern } from "./shapes.ts";

const all: readonly Endpoint[] = Object.values(endpoints);

const variable = /\\?[:*](slug|id|hash|snapshotId|name|logFile|share|schema|table|changes)/g;

/** The path of an endpoint's row, and the values that an address has for the names in it. */
export interface Address {
  path: string;
  params: Readonly<Record<string, string>>;
}

/** Addresses without a variable part, and those of all files. */
const fixed = new Map<string, Address>(
  all
    .filter(({ path }) => path.search(variable) < 0)
    .flatMap(({ path, files }) => {
      const addresses = files?.map((file) => path.replace(":file", file)) ?? [path];
      return addresses.map((address) => [address, { path, params: {} }] as const);
    }),
);

const crossSite = new Set(all.flatMap((endpoint) => (endpoint.crossSite ? endpoint.path : [])));

/** The root of the part of the API that a path belongs to, even if no endpoint has that path. */
export function apiRootOf(path: string): string | undefined {
  if (path === "/api/v1" || path.startsWith("/api/v1/")) return "/api/v1";
  const { root, below } = foreignAt(path) ?? {};
  return below ? root : undefined;
}

/** Whether pages of other sites may read what is answered at a path. */
export const isCrossSite = (path: string): boolean => apiRootOf(path) !== undefined || crossSite.has(path);

// A segment that has one spelling only: nothing percent-encoded, no backslash, no fragment, no dot segment.
const segment = "(?!\\.{1,2}(?:/|$))[^/%\\\\#]+";
const inner = ({ source }: RegExp) => source.slice(1, -1);
const spelt: Record<string, string> = {
  id: inner(marketIdPattern),
  ...Object.fromEntries(["hash", "snapshotId", "changes"].map((name) => [name, inner(digestPattern)])),
  name: inner(exportNamePattern),
  logFile: inner(logFilePattern),
};
const spelling = (_: string, name: string) => `(?<${name}>${spelt[name] ?? segment})`;
const literal = (text: string) => text.replace(/[^A-Za-z0-9/_-]/g, "\\$&");
const patterns = all
  .filter(({ path }) => path.search(variable) >= 0)
  .map(({ path }) => ({ path, pattern: new RegExp(`^${literal(path).replaceAll(variable, spelling)}$`) }));

/** Matches a path with the endpoint table, byte for byte. Undefined where it is none of the service's addresses. */
export function addressOf(text: string): Address | undefined {
  // Fixed paths come before patterns: `batch` is not a slug (INTERFACE 4.3).
  const address = fixed.get(text);
  if (address) return address;
  for (const { path, pattern } of patterns) {
    const match = pattern.exec(text);
    if (match) return { path, params: match.groups! };
  }
  return undefined;
}

/** A foreign protocol, which the service speaks at an address, or at all below it. */
interface ForeignProtocol {
  root: string;
  /** Addresses below the root belong to it as well. */
  below: boolean;
  problemOf: (problem: Problem) => object;
}

const foreignProtocols: Record<string, ForeignProtocol> = {
  agents: agentProtocol,
  sharing: sharingProtocol,
};

/** The protocol that is spoken at a path; undefined where that is our own. */
export const foreignAt = (path: string): ForeignProtocol | undefined =>
  Object.values(foreignProtocols).find(
    ({ root, below }) => path === root || (below && path.startsWith(`${root}/`)),
  );
