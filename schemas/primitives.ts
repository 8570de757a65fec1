import { z } from "zod";

/** Times as they are published: UTC, exactly three decimals, `2026-02-02T08:21:59.229Z`. */
export const Timestamp = z.iso.datetime({ precision: 3 });

/** SHA-256 in 64 lower-case hex digits. */
export const Digest = z.string().regex(/^[0-9a-f]{64}$/);

/** An integer of JSON that JavaScript can hold exactly. */
export const Count = z.int().min(0);

/** Slugs of protocols; `batch` is an address of its own (INTERFACE 4.3). */
export const ProtocolSlug = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,99}$/)
  .refine((slug) => slug !== "batch", "batch is reserved");

/** INTERFACE 4.5: both integers of JSON; a bound is inclusive. */
export function integerBetween(min: number, max: number) {
  return z.int().min(min).max(max);
}

export const HttpUrl = z.string().regex(/^https?:\/\//);

/**
 * The longest text that a filter compares whole, in bytes of UTF-8. A cursor carries such texts percent-encoded and in
 * base64, which makes four bytes of one, and it has to fit into the head of a response.
 */
export const maxLabelBytes = 256;

/** A text that a filter compares whole. */
export const Label = z
  .string()
  .max(maxLabelBytes)
  .refine((text) => new TextEncoder().encode(text).length <= maxLabelBytes);

/** Passed through as the source has it. A schema of JSON would refer to itself, which some generators of types cannot do. */
export const AnyJson = z.unknown().describe("Any JSON, as the source has it.");
