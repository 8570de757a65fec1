/**
 * The view that the address selects. It is in the part behind the `#`, so that any static file server can serve the
 * site.
 */
export type Route =
  | { name: "scores" | "archive"; query: URLSearchParams }
  | { name: "protocol"; slug: string; query: URLSearchParams }
  | { name: "compare"; slugs: string[] }
  | { name: "market"; id: string; query: URLSearchParams }
  | { name: "meanings"; key?: string }
  | { name: "dimension"; key: string }
  | { name: "week" | "nowhere" };

/** Parses the part of the address from the `#` on. */
export function routeOf(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const query = new URLSearchParams(search);
  if (path === "" || path === "/") return { name: "scores", query };
  if (path === "/archive") return { name: "archive", query };
  // The patterns of MarketId and ProtocolSlug. Any other text could change the path of the request to the service.
  const id = /^\/markets\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/.exec(path)?.[1];
  if (id !== undefined) return { name: "market", id, query };
  const slugs = /^\/compare\/((?:[a-z0-9][a-z0-9._-]{0,99}(?:,|$))*)$/.exec(path)?.[1];
  if (slugs !== undefined) return { name: "compare", slugs: [...new Set(slugs.split(",").filter(Boolean))] };
  const [meaning, key] = /^\/meanings(?:\/([a-z_]+))?$/.exec(path) ?? [];
  if (meaning !== undefined) return { name: "meanings", ...(key !== undefined && { key }) };
  const dimension = /^\/dimensions\/([a-z_]+)$/.exec(path)?.[1];
  if (dimension !== undefined) return { name: "dimension", key: dimension };
  if (path === "/week") return { name: "week" };
  const slug = /^\/protocols\/([a-z0-9][a-z0-9._-]{0,99})$/.exec(path)?.[1];
  return slug === undefined ? { name: "nowhere" } : { name: "protocol", slug, query };
}

/** Addresses with the same key are one view, which stays when the address changes from one to the other. */
export function keyOf(route: Route): string {
  if (route.name === "scores" || route.name === "archive") return route.name;
  const { query, ...others } = { query: "", ...route };
  return JSON.stringify({ ...others, query: `${query}` });
}
