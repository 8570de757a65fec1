import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import { marketIdPattern } from "../../schemas/market.ts";
import { exportNamePattern, logFilePattern } from "../../schemas/primitives.ts";
import { digestPattern } from "../../schemas/shapes.ts";
import { apiRootOf } from "../../schemas/sharing.ts";

const all: readonly Endpoint[] = Object.values(endpoints);

const variable = /\\?[:*](slug|id|hash|snapshotId|name|logFile|share|schema|table|changes)/g;

/** Addresses without a variable part, and those of all files. */
const fixed = new Set(
  all
    .filter(({ path }) => path.search(variable) < 0)
    .flatMap(({ path, files }) => files?.map((file) => path.replace(":file", file)) ?? [path]),
);

// A segment that has one spelling only: nothing percent-encoded, no backslash, no fragment, no dot segment.
const segment = "(?!\\.{1,2}(?:/|$))[^/%\\\\#]+";
/** A pattern without its ends. */
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

/** A target without an endpoint ends so; where only a slash at the end is wrong, `slash` follows. */
const [nowhere, slash] = ["/-", "/slash"] as const;

/**
 * Returns a raw request target if it is, byte for byte, an address of the endpoint table, and else a target that no
 * endpoint has. Other spellings are not normalised: two readers could normalise them differently and then disagree on
 * who may have what. Only this function sees the client's own spelling.
 */
export function canonicalTarget(raw: string): string {
  const path = pathOf(raw);
  if (isKnown(path)) return raw;
  const near = isKnown(path.endsWith("/") ? path.slice(0, -1) : `${path}/`) ? slash : "";
  return (apiRootOf(path) ?? "") + nowhere + near;
}

const isKnown = (path: string) => fixed.has(path) || patterns.some((pattern) => pattern.test(path));

/** What to say of the path of a target that no endpoint has. */
export function detailOf(path: string): string {
  const hint = path.endsWith(nowhere + slash) ? " One differs from this in a slash at its end only." : "";
  return `There is no such address; paths are matched byte for byte.${hint}`;
}

/** A target without its query. */
export const pathOf = (target: string): string => target.split("?", 1)[0]!;

/** The query text of a target, without its question mark; "" when there is none. */
export const searchOf = (target: string): string => target.slice(pathOf(target).length + 1);
