import { z } from "zod";

/** A published time: UTC with exactly three decimals, `2026-02-02T08:21:59.229Z`. */
export const Timestamp = z.iso.datetime({ precision: 3 });

export const digestPattern = /^[0-9a-f]{64}$/;

/** SHA-256 in 64 lower-case hex digits. */
export const Digest = z.string().regex(digestPattern);

/** An integer from 0 to 2^53-1, which JavaScript can represent exactly. */
export const Count = z.int().min(0);

/** Slug of a protocol. `batch` is reserved for an endpoint (INTERFACE 4.3). */
export const ProtocolSlug = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,99}$/)
  .refine((slug) => slug !== "batch", "batch is reserved");

export const marketIdPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The id of a market: a UUID in lower case. */
export const MarketId = z.string().regex(marketIdPattern);

export const exportNamePattern = /^markets-[0-9]{4,}\.parquet$/;

/** The name of a file of an export. The names of an export are in the order of its files. */
export const ExportName = z.string().regex(exportNamePattern);

/** An integer from `min` to `max`, both included. */
export function integerBetween(min: number, max: number) {
  return z.int().min(min).max(max);
}

export const HttpUrl = z.string().regex(/^https?:\/\//);

/**
 * The most bytes of UTF-8 in a label (INTERFACE 8.3). A cursor carries labels percent-encoded and then in base64, which
 * makes four bytes of one, and the cursor has to fit into the head of a response.
 */
export const maxLabelBytes = 256;

/** A text that a filter compares whole, or a version (INTERFACE 8.3). */
export const Label = z
  .string()
  .max(maxLabelBytes)
  .refine((text) => new TextEncoder().encode(text).length <= maxLabelBytes);

/** JSON that is passed through unchanged. A precise schema would refer to itself, which some type generators do not support. */
export const AnyJson = z.unknown().describe("Any JSON, as the source has it.");
