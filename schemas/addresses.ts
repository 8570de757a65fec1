import { type Endpoint, endpoints } from "./endpoints.ts";
import { foreignAt } from "./foreign.ts";
import { marketIdPattern } from "./market.ts";
import { exportNamePattern, logFilePattern } from "./primitives.ts";
import { digestPattern } from "./shapes.ts";

const all: readonly Endpoint[] = Object.values(endpoints);

const variable = /\\?[:*](slug|id|hash|snapshotId|name|logFile|share|schema|table|changes)/g;

/** Addresses without a variable part, and those of all files. */
const fixed = new Set(
  all
    .filter(({ path }) => path.search(variable) < 0)
    .flatMap(({ path, files }) => files?.map((file) => path.replace(":file", file)) ?? [path]),
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
const spelling = (_: string, name: string) => spelt[name] ?? segment;
const literal = (text: string) => text.replace(/[^A-Za-z0-9/_-]/g, "\\$&");
const patterns = all
  .filter(({ path }) => path.search(variable) >= 0)
  .map(({ path }) => new RegExp(`^${literal(path).replaceAll(variable, spelling)}$`));

/** Whether a path is, byte for byte, an address of the endpoint table. */
export const isAddress = (path: string): boolean =>
  fixed.has(path) || patterns.some((pattern) => pattern.test(path));
