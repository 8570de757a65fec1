import { createHmac, timingSafeEqual } from "node:crypto";
import type { KeyRecord } from "../../schemas/store/keys.ts";

/** How long a signed address is good, in seconds. */
export const addressSeconds = 15 * 60;

/**
 * The signature of an address that its holder may read without a header until `expires` (epoch seconds). It follows
 * from the key's record, so every process checks it, and nothing but the end of the key is needed to end it.
 */
export function addressSignature({ secretHash }: KeyRecord, path: string, expires: number): string {
  const text = `address ${path} ${expires}`;
  return createHmac("sha256", Buffer.from(secretHash, "hex")).update(text).digest("base64url");
}

/** Whether a signature is the one of an address. Takes as long whatever is wrong with it. */
export function isAddressSignature(
  signature: string,
  record: KeyRecord,
  path: string,
  expires: number,
): boolean {
  const [given, expected] = [signature, addressSignature(record, path, expires)].map((text) =>
    Buffer.from(text),
  );
  return given!.length === expected!.length && timingSafeEqual(given!, expected!);
}
