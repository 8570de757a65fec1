import { createHmac, timingSafeEqual } from "node:crypto";
import type { KeyRecord } from "../../schemas/store/keys.ts";

/** How long a signed address is good. */
export const addressSeconds = 15 * 60;

/**
 * Makes an address readable without a header until `expires` (epoch seconds). The query follows from the key's record,
 * so every process can check it, and it ends with the key.
 */
export function addressQuery({ id, secretHash }: KeyRecord, path: string, expires: number): string {
  const text = `address ${path} ${expires}`;
  const signature = createHmac("sha256", Buffer.from(secretHash, "hex")).update(text).digest("base64url");
  // delta-kernel-rs recognises a signed address by one of a few names; `sp` is the permission.
  return `key=${id}&expires=${expires}&sp=r&sig=${signature}`;
}

/** Compares byte for byte, and takes as long whatever is wrong. */
export function isAddressQuery(query: string, record: KeyRecord, path: string, expires: number): boolean {
  const [given, expected] = [query, addressQuery(record, path, expires)].map((text) => Buffer.from(text));
  return given!.length === expected!.length && timingSafeEqual(given!, expected!);
}
