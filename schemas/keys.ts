import { z } from "zod";
import { KeyPlan } from "./plans.ts";
import { Digest, Timestamp } from "./primitives.ts";

/** A key is `prs_live_`, 32 random base62 digits, and the CRC-32 of all before it in 6 base62 digits. */
export const keyPattern = /^prs_live_[0-9A-Za-z]{38}$/;
export const KeyId = z.string().regex(/^[0-9a-f]{16}$/);

/** `keys/<id>.json`: all that the store keeps of a key. `secretHash` is the SHA-256 of the whole key text. */
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
 * `keys/<id>.revoked.json`, or `keys/<id>.revoked.<ms>.json` beside it: the key ends at `revokedAt`, which may
 * lie ahead. Of several the earliest counts.
 */
export const KeyRevocation = z.strictObject({
  id: KeyId,
  revokedAt: Timestamp,
  digest: Digest,
});
export type KeyRevocation = z.infer<typeof KeyRevocation>;
