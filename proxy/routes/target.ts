import { isAddress } from "../../schemas/addresses.ts";
import { apiRootOf } from "../../schemas/sharing.ts";

/** Every target without an endpoint ends with `nowhere`. `slash` follows where only a slash at the end is wrong. */
const [nowhere, slash] = ["/-", "/slash"] as const;

/**
 * Returns a raw request target if it is, byte for byte, an address of the endpoint table, and else a target that no
 * endpoint has. Other spellings are not normalised: two readers could normalise them differently and then disagree on
 * who may have what. Only this function sees the client's own spelling.
 */
export function canonicalTarget(raw: string): string {
  const path = pathOf(raw);
  if (isAddress(path)) return raw;
  const near = isAddress(path.endsWith("/") ? path.slice(0, -1) : `${path}/`) ? slash : "";
  return (apiRootOf(path) ?? "") + nowhere + near;
}

/** The message for a target that no endpoint has. */
export function detailOf(path: string): string {
  const hint = path.endsWith(nowhere + slash) ? " One differs from this in a slash at its end only." : "";
  return `There is no such address; paths are matched byte for byte.${hint}`;
}

export const pathOf = (target: string): string => target.split("?", 1)[0]!;

/** The query text of a target, without its question mark; "" when there is none. */
export const searchOf = (target: string): string => target.slice(pathOf(target).length + 1);
