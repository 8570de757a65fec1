import { ApiError } from "../../../client/client.ts";
import { labelOf, labels, ownOf } from "../../model/filters.ts";
import { histograms } from "./answers.ts";

/** A refused value, by the field's parameter. */
export type Problem = { parameter: string; error: unknown } | undefined;

const fields = ["q", ...histograms.flatMap(ownOf)];

/** The problem of a field, if an error is about the value of one that can show it. */
export function problemIn(error: unknown): Problem {
  const named = error instanceof Error && "parameter" in error ? `${error.parameter}` : "";
  return fields.includes(named) ? { parameter: named, error: inLabels(error) } : undefined;
}

/**
 * Replaces parameter names in an error message by field labels. A name is the first or last word of the message, or
 * contains a `_`. Elsewhere a word like "from" is not a name.
 */
export function inLabels(error: unknown) {
  if (!(error instanceof ApiError)) return error;
  const known = [...labels, ...fields, "page", "pageSize"];
  const detail = error.message.replace(/^\w+|\w+_\w+|\w+(?=\.$)/g, (name) =>
    known.includes(name) ? `“${labelOf(name)}”` : name,
  );
  const title = "parameter" in error && error.parameter ? "Check this" : error.title;
  return new ApiError(error.code, detail, { title });
}
