import { z } from "zod";
import { type AnyErrorCode, type ErrorCode, errors } from "./errors.ts";
import { Nearest } from "./primitives.ts";

export const isPublic = (code: string): code is ErrorCode => "status" in errors[code as AnyErrorCode];

export const errorCodes = Object.keys(errors).filter(isPublic);

/** Body of every error on every path, `application/problem+json` (RFC 9457, INTERFACE 7). */
export const Problem = z.strictObject({
  type: z.string().describe("urn:prs:error: and the code."),
  title: z.string().describe("What the code means."),
  status: z.int().min(400).max(599),
  code: z
    .enum(errorCodes)
    .describe(errorCodes.map((code) => `${code} (${errors[code].status}): ${errors[code].title}.`).join(" ")),
  detail: z.string().describe("What is wrong with this request, and what to do about it."),
  requestId: z.string().describe("As in X-Request-Id."),
  parameter: z.string().optional().describe("The query parameter that was refused."),
  nearest: Nearest.optional().describe(
    "Only with SNAPSHOT_EXPIRED: the snapshots that can be read which were published before and after that one.",
  ),
  resumeCursor: z
    .string()
    .nullable()
    .optional()
    .describe(
      "Only with CURSOR_EXPIRED: cursor of the same place in the current snapshot; null when nothing follows.",
    ),
});
export type Problem = z.infer<typeof Problem>;
