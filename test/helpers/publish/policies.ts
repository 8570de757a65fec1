import { readFileSync } from "node:fs";
import { z } from "zod";

const OneOrMore = z.union([z.string(), z.array(z.string())]).transform((value) => [value].flat());
const Policy = z.strictObject({
  Version: z.literal("2012-10-17"),
  Statement: z.array(
    z.strictObject({
      Sid: z.string().regex(/^[A-Za-z0-9]+$/),
      Effect: z.enum(["Allow", "Deny"]),
      Principal: z.unknown().optional(),
      Action: OneOrMore,
      Resource: OneOrMore.optional(),
      Condition: z.record(z.string(), z.record(z.string(), OneOrMore)).optional(),
    }),
  ),
});

/** The statements of a policy, with lists for single values. Throws ZodError for members that are not known here. */
export function statementsOf(name: string) {
  const file = new URL(`../../../.github/deploy/${name}.json`, import.meta.url);
  return Policy.parse(JSON.parse(readFileSync(file, "utf8"))).Statement;
}
