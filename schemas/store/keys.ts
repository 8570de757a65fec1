import { z } from "zod";
import { KeyPlan } from "../plans.ts";
import { Digest, Timestamp } from "../primitives.ts";

/** The form of an API key (INTERFACE 5.1): `prs_live_`, 32 random base62 digits and 6 base62 digits of checksum. */
export const keyPattern = /^prs_live_[0-9A-Za-z]{38}$/;
export const KeyId = z.string().regex(/^[0-9a-f]{16}$/);

/** `keys/<id>.json`: all that the store keeps about a key. `secretHash` is the SHA-256 of the whole key. */
export const KeyRecord = z.strictObject({
  id: KeyId,
  owner: z.string().min(1).max(200),
  plan: KeyPlan,
  secretHash: Digest,
  quota: z.int().min(1).optional(),
  issuedAt: Timestamp,
  expiresAt: Timestamp.optional(),
  digest: Digest,
});
export type KeyRecord = z.infer<typeof KeyRecord>;

/**
 * `keys/<id>.revoked.json`, or `keys/<id>.revoked.<ms>.json` beside it: the key ends at `revokedAt`, which may be in
 * the future. When a key has several revocations, the earliest counts.
 */
export const KeyRevocation = z.strictObject({
  id: KeyId,
  revokedAt: Timestamp,
  digest: Digest,
});
export type KeyRevocation = z.infer<typeof KeyRevocation>;
