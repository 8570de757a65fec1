import { readFileSync } from "node:fs";
import { z } from "zod";

const OneOrMore = z.union([z.string(), z.array(z.string())]);
const Condition = z.record(z.string(), z.record(z.string(), OneOrMore));
const Principal = z.union([
  z.literal("*"),
  z.partialRecord(z.enum(["AWS", "Service", "Federated"]), OneOrMore),
]);

/** As much of the language of IAM policies as the project's policies use; strict, so that nothing is passed over. */
const PolicySchema = z.strictObject({
  Version: z.literal("2012-10-17"),
  Statement: z.array(
    z.strictObject({
      Sid: z.string().regex(/^[A-Za-z0-9]+$/),
      Effect: z.enum(["Allow", "Deny"]),
      Principal: Principal.optional(),
      Action: OneOrMore,
      Resource: OneOrMore.optional(),
      Condition: Condition.optional(),
    }),
  ),
});
export type Policy = z.infer<typeof PolicySchema>;
type Statement = Policy["Statement"][number];

/** Who asks: a role by its ARN, a service of AWS, someone vouched for by an identity provider, or nobody known. */
export type Caller = { kind: "AWS" | "Service" | "Federated"; name: string } | { kind: "anonymous" };

/** One request, as policies see it. `context` holds its condition keys. */
export interface AccessRequest {
  caller: Caller;
  action: string;
  /** An ARN. */
  resource: string;
  context: Record<string, string>;
}

/** Parses a policy file with the names filled in. Throws ZodError when it is more than this evaluator understands. */
export function readPolicy(file: URL, names: Record<string, string>): Policy {
  let text = readFileSync(file, "utf8");
  for (const [placeholder, name] of Object.entries(names)) text = text.replaceAll(placeholder, name);
  return PolicySchema.parse(JSON.parse(text));
}

/**
 * Decides as IAM does within one account: a Deny of any policy wins, then an Allow of any, else no.
 * `identity` is the policy of the caller's role, `resource` that of what is asked for.
 */
export function isAllowed(
  { identity, resource }: { identity?: Policy | undefined; resource?: Policy | undefined },
  request: AccessRequest,
): boolean {
  const statements = [
    ...(identity?.Statement ?? []),
    ...(resource?.Statement ?? []).filter((statement) => namesCaller(statement, request.caller)),
  ];
  const effects = statements.filter((statement) => applies(statement, request)).map(({ Effect }) => Effect);
  return !effects.includes("Deny") && effects.includes("Allow");
}

function namesCaller({ Principal: principal, Sid }: Statement, caller: Caller): boolean {
  if (principal === undefined) throw new Error(`${Sid}: a policy of a resource must name a principal`);
  if (principal === "*") return true;
  return caller.kind !== "anonymous" && listOf(principal[caller.kind]).includes(caller.name);
}

function applies({ Action, Resource, Condition = {} }: Statement, request: AccessRequest): boolean {
  const { caller, action, resource } = request;
  const context = new Map(Object.entries(request.context).map(([key, value]) => [key.toLowerCase(), value]));
  if (caller.kind === "AWS") context.set("aws:principalarn", caller.name);
  return (
    listOf(Action).some((pattern) => like(pattern.toLowerCase(), action.toLowerCase())) &&
    (Resource === undefined || listOf(Resource).some((pattern) => like(pattern, resource))) &&
    Object.entries(Condition).every(([operator, keys]) =>
      Object.entries(keys).every(([key, values]) =>
        holds(operator, context.get(key.toLowerCase()), listOf(values)),
      ),
    )
  );
}

/** One condition. A key that the request lacks fails every operator but the negated ones and Null. */
function holds(operator: string, actual: string | undefined, expected: string[]): boolean {
  const some = (matches: (value: string) => boolean) => actual !== undefined && expected.some(matches);
  switch (operator) {
    case "StringEquals":
      return some((value) => value === actual);
    case "StringLike":
    case "ArnEquals":
      return some((value) => like(value, actual!));
    case "ArnNotEquals":
      return !some((value) => like(value, actual!));
    case "Bool":
      return some((value) => value === actual);
    case "Null":
      return expected.some((value) => value === String(actual === undefined));
    default:
      throw new Error(`the condition operator ${operator} is not known here`);
  }
}

/** Wildcards as IAM has them: `*` for any text, `?` for any one character. */
function like(pattern: string, text: string): boolean {
  const expression = pattern
    .replace(/[\\^$.|+()[\]{}]/g, "\\$&")
    .replaceAll("*", ".*")
    .replaceAll("?", ".");
  return new RegExp(`^${expression}$`, "s").test(text);
}

function listOf(value: string | string[] | undefined): string[] {
  if (value === undefined) return [];
  return typeof value === "string" ? [value] : value;
}
