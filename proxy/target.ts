import { type Endpoint, type EndpointId, endpoints } from "../schemas/endpoints.ts";

/** One row of the endpoint table. */
export type Route = { [Id in EndpointId]: { id: Id; endpoint: Endpoint } }[EndpointId];

/** A request target that names an address of the service, whatever the method. */
export interface Target {
  /** The pattern of the endpoint table; safe to log. */
  path: string;
  routes: readonly Route[];
  slug: string | undefined;
  /** The raw query text behind the `?`, or "". */
  search: string;
}

const routes = Object.entries(endpoints).map(([id, endpoint]) => ({ id, endpoint }) as Route);

const byPath = Map.groupBy(routes, (route) => route.endpoint.path);
const patterns = [...byPath]
  .filter(([path]) => path.includes(":slug"))
  .map(([path, group]) => ({ path, routes: group, pattern: patternOf(path) }));

// One segment in its only spelling: nothing percent-encoded, no backslash, no fragment, no dot segment.
function patternOf(path: string): RegExp {
  const literal = path.split(":slug").map((part) => part.replace(/[^A-Za-z0-9/_-]/g, "\\$&"));
  return new RegExp(`^${literal.join("(?!\\.{1,2}(?:/|$))([^/%\\\\#]+)")}$`);
}

/**
 * Matches a raw request target, byte for byte, against the endpoint table. Undefined for everything else:
 * other spellings of a path are not normalised, because two readers of one path may normalise differently.
 */
export function matchTarget(raw: string): Target | undefined {
  const cut = raw.indexOf("?");
  const path = cut < 0 ? raw : raw.slice(0, cut);
  const search = cut < 0 ? "" : raw.slice(cut + 1);
  // A fixed path wins: `batch` is no slug (SPEC 4.3).
  const fixed = path.includes(":") ? undefined : byPath.get(path);
  if (fixed) return { path, routes: fixed, slug: undefined, search };
  for (const candidate of patterns) {
    const slug = candidate.pattern.exec(path)?.[1];
    if (slug !== undefined) return { path: candidate.path, routes: candidate.routes, slug, search };
  }
  return undefined;
}

/** The row that answers a method, HEAD as GET; a WebSocket begins as a GET. */
export function routeFor(target: Target, method: string): Route | undefined {
  return target.routes.find((route) => methodsOf(route.endpoint).includes(method));
}

/** Every method an address answers, for the Allow header. */
export function allowedMethods(target: Target): string {
  return [...target.routes.flatMap((route) => methodsOf(route.endpoint)), "OPTIONS"].join(", ");
}

function methodsOf(endpoint: Endpoint): string[] {
  if (endpoint.method === "POST") return ["POST"];
  return endpoint.method === "WS" ? ["GET"] : ["GET", "HEAD"];
}
