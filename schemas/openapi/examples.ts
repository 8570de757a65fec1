import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import type { EndpointId } from "../endpoints.ts";
import { Problem } from "../errors.ts";
import { FeedMessage } from "../feed.ts";

// Real answers over a sample; test/openapi-examples.test.ts compares them, and writes them anew when run with -u.
const folder = new URL("examples/", import.meta.url);

function stored(name: string): unknown {
  const file = new URL(`${name}.json`, folder);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
}

/** Body of a 200 of an endpoint. */
export const answerExample = (id: EndpointId): unknown => stored(id);

// What no longer fits the contract is left out rather than thrown at, or it could not be written anew.

/** Errors by their codes; not every code has one. */
export const problemExamples =
  z.partialRecord(Problem.shape.code, Problem).safeParse(stored("problems")).data ?? {};

/** Messages of the live feed. */
export const feedExamples = z.array(FeedMessage).safeParse(stored("scoreFeed")).data ?? [];
