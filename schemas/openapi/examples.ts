import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import type { EndpointId } from "../endpoints.ts";
import { type ErrorCode, Problem } from "../errors.ts";
import { FeedMessage } from "../feed.ts";

// Real answers over a sample; test/schemas/openapi-examples.test.ts compares them, and writes them anew when run with -u.
const folder = new URL("examples/", import.meta.url);

function stored(name: string): unknown {
  const file = new URL(`${name}.json`, folder);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
}

/** Body of a 200 of an endpoint. */
export const answerExample = (id: EndpointId): unknown => stored(id);

// What no longer fits the contract is left out rather than thrown at, or it could not be written anew.

const Example = z.strictObject({ endpoint: z.string(), problem: Problem });

/** The same in NDJSON, as text. */
export function linesExample(id: EndpointId): string | undefined {
  const file = new URL(`${id}.ndjson`, folder);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

/** Errors by their codes, each with the endpoint it was met at; not every code has one. */
export const problemExamples =
  z.partialRecord(Problem.shape.code, Example).safeParse(stored("problems")).data ?? {};

// Their text speaks of the address they were met at.
const ofOneAddress: readonly ErrorCode[] = ["INVALID_PARAMETER", "API_KEY_REQUIRED"];

/** Whether the example of a code tells what an endpoint answers. */
export function hasProblemExample(code: ErrorCode, id: EndpointId): boolean {
  const { endpoint } = problemExamples[code] ?? {};
  return endpoint === id || (endpoint !== undefined && !ofOneAddress.includes(code));
}

/** Messages of the live feed. */
export const feedExamples = z.array(FeedMessage).safeParse(stored("scoreFeed")).data ?? [];
