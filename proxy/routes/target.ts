import { type Endpoint, type EndpointId, endpoints } from "../../schemas/endpoints.ts";

/** One row of the endpoint table. */
export type Route = { [Id in EndpointId]: { id: Id; endpoint: Endpoint } }[EndpointId];

/** A request target that names an address of the service, whatever the method. */
export interface Target {
  /** The pattern of the endpoint table; safe to log. */
  path: string;
  /** What stands in the pattern's place: the path as it was asked for. */
  address: string;
  routes: readonly Route[];
  slug: string | undefined;
  /** The raw query text behind the `?`, or "". */
  search: string;
}

const routes = Object.entries(endpoints).map(([id, endpoint]) => ({ id, endpoint }) as Route);

const groups = [...Map.groupBy(routes, (route) => route.endpoint.path)].map(([path, routes]) => ({
  path,
  routes,
}));
const fixed = new Map(groups.flatMap((group) => addressesOf(group).map((address) => [address, group])));
const patterns = groups
  .filter(({ path }) => path.includes(":slug"))
  .map((group) => ({ ...group, pattern: patternOf(group.path) }));

/** The addresses of a path that has only so many: its files, or itself. */
function addressesOf({ path, routes }: { path: string; routes: readonly Route[] }): string[] {
  if (path.includes(":slug")) return [];
  const files = routes.flatMap(({ endpoint }) => endpoint.files ?? []);
  return path.includes(":file") ? files.map((file) => path.replace(":file", file)) : [path];
}

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
  const address = cut < 0 ? raw : raw.slice(0, cut);
  const search = cut < 0 ? "" : raw.slice(cut + 1);
  // A fixed path wins: `batch` is no slug (SPEC 4.3).
  const found = fixed.get(address);
  if (found) return { ...found, address, slug: undefined, search };
  for (const { pattern, path, routes } of patterns) {
    const slug = pattern.exec(address)?.[1];
    if (slug !== undefined) return { path, routes, address, slug, search };
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
