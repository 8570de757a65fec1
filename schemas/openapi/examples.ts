import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import type { EndpointId } from "../endpoints.ts";
import type { ErrorCode } from "../errors.ts";
import { FeedMessage } from "../feed.ts";
import { Problem } from "../problem.ts";

// Real answers over a sample. test/schemas/openapi-examples.test.ts compares them, and updates them when run with -u.
const folder = new URL("examples/", import.meta.url);

function stored(name: string): unknown {
  const file = new URL(`${name}.json`, folder);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
}

export const answerExample = (id: EndpointId): unknown => stored(id);

// An example that no longer fits its schema is left out. If it threw, the test that updates examples could not run.

const Example = z.strictObject({ endpoint: z.string(), problem: Problem });

/** The example of an answer with all rows, as text. */
export function rowsExample(id: EndpointId, extension: "ndjson" | "csv"): string | undefined {
  const file = new URL(`${id}.${extension}`, folder);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

/** Examples of errors by code, each with the endpoint that gave it. Not every code has one. */
export const problemExamples =
  z.partialRecord(Problem.shape.code, Example).safeParse(stored("problems")).data ?? {};

// The texts of these errors name the endpoint that answered, so they fit no other one.
const ofOneAddress: readonly ErrorCode[] = ["INVALID_PARAMETER", "API_KEY_REQUIRED"];

export function hasProblemExample(code: ErrorCode, id: EndpointId): boolean {
  const { endpoint } = problemExamples[code] ?? {};
  return endpoint === id || (endpoint !== undefined && !ofOneAddress.includes(code));
}

/** Examples of messages of the live feed. */
export const feedExamples = z.array(FeedMessage).safeParse(stored("scoreFeed")).data ?? [];
