import { Fault } from "../../schemas/errors.ts";
import { sharingRoot } from "../../schemas/rooms/sharing.ts";
import type { KeyRing } from "../../snapshots/keys/ring.ts";
import { addressQuery, addressSeconds, isAddressQuery } from "../../snapshots/keys/signed-address.ts";
import type { FileAddress } from "../../snapshots/read/sharing/sharing.ts";
import { holderOf, type Identity } from "../access/identity.ts";
import type { Check } from "../exchange.ts";
import type { AppServices } from "../services.ts";

/** Makes addresses of files that need no header and are counted to the caller. `base` is the service's own address. */
export function fileAddresses(
  keys: KeyRing,
  { keyId = "" }: Identity,
  { base, now }: { base: string; now: number },
): (hash: string, changes?: string) => FileAddress {
  const verdict = keys.judgeId(keyId);
  // The key may have ended since it was checked.
  if (verdict.state !== "active") throw refused("The key has ended.");
  const expires = Math.floor(now / 1000) + addressSeconds;
  return (hash, changes) => {
    const path = `${sharingRoot}/files/${changes === undefined ? "" : `${changes}/`}${hash}.parquet`;
    const query = addressQuery(verdict.record, path, expires);
    return { url: `${base}${path}?${query}`, expirationTimestamp: expires * 1000 };
  };
}

/**
 * Identifies the sender of a request by the key that signed its address. Headers do not count. The address must be
 * valid when the request arrives, and the key until it ends.
 */
export function requireAddress({ keys, now }: Pick<AppServices, "keys" | "now">): Check {
  return ({ url = "" }, exchange) => {
    const [path = ""] = url.split("?", 1);
    exchange.identify = holderOfAddress(path, exchange.search, keys, now());
    exchange.caller = exchange.identify();
  };
}

function holderOfAddress(path: string, query: string, keys: KeyRing, now: number): () => Identity {
  const parameters = new URLSearchParams(query);
  const key = parameters.get("key") ?? "";
  const expires = Number(parameters.get("expires"));
  const identify = () => holderOf(keys, keys.judgeId(key));
  identify();
  const verdict = keys.judgeId(key);
  // Another spelling of the query is another text, and was not signed.
  const sound = verdict.state === "active" && isAddressQuery(query, verdict.record, path, expires);
  if (!sound) throw refused("This address was not given out by the service as it is.");
  if (expires * 1000 <= now) throw refused("This address has expired.");
  return identify;
}

const refused = (reason: string) =>
  new Fault("INVALID_FILE_ADDRESS", `${reason} Query the table again for its files.`);
