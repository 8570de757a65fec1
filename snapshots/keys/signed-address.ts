import { createHmac, timingSafeEqual } from "node:crypto";
import type { KeyRecord } from "../../schemas/store/keys.ts";

/** How long a signed address is good, in seconds. */
export const addressSeconds = 15 * 60;

/**
 * The query that makes an address readable without a header until `expires` (epoch seconds). It follows from the key's
 * record, so every process checks it, and nothing but the end of the key is needed to end it.
 */
export function addressQuery({ id, secretHash }: KeyRecord, path: string, expires: number): string {
  const text = `address ${path} ${expires}`;
  const signature = createHmac("sha256", Buffer.from(secretHash, "hex")).update(text).digest("base64url");
  // delta-kernel-rs takes an address for signed by one of a few names, of which `sp` is the permission.
  return `key=${id}&expires=${expires}&sp=r&sig=${signature}`;
}

/** Whether a query is, byte for byte, the one of an address. Takes as long whatever is wrong with it. */
export function isAddressQuery(query: string, record: KeyRecord, path: string, expires: number): boolean {
  const [given, expected] = [query, addressQuery(record, path, expires)].map((text) => Buffer.from(text));
  return given!.length === expected!.length && timingSafeEqual(given!, expected!);
}
