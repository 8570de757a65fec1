import { readFileSync } from "node:fs";
import { z } from "zod";
import { components } from "../../../schemas/components.ts";
import { Problem, ProofLevel } from "../../../schemas/envelopes.ts";
import { Filters } from "../../../schemas/query.ts";

/**
 * The text of /client.d.ts, one file that imports nothing: what the client's modules declare, the types that its source
 * has too, and its records. What types.ts says of itself, in comments of one line, is left out.
 */
export function clientTypes(): string {
  const types = sourceOf("types").replace(/^(?:import [^;]*;|\/\/.*)\n+/gm, "");
  return declarations() + types + recordTypes();
}

const sourceOf = (module: string) => readFileSync(new URL(`${module}.ts`, import.meta.url), "utf8");

/** What tsc declares of the modules with what the client exports, but for what is internal. */
export const declarations = () =>
  ["client", "answers", "errors", "proofs", "trees"].map((name) => declaredIn(sourceOf(name))).join("");

// The source is formatted: a comment ends on the line before what it is about, and a body on the first line with the
// indentation of its head.
const comment = String.raw`^(?<comment> *\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?`;
const bodyAt = (indent: string) => String.raw` \{\n(?<body>[\s\S]*?)^${indent}\}`;
const exported = new RegExp(
  String.raw`${comment}export (?:async )?(?<kind>type(?= \w+ =)|class|function)\*? (?<head>[\s\S]*?)(?:;|${bodyAt("")};?)\n`,
  "gm",
);
const member = new RegExp(
  String.raw`${comment} {2}(?:(?:override|declare|async) )*\*?(?<head>[#\w[][\s\S]*?)(?:;|${bodyAt("  ")})\n`,
  "gm",
);

function declaredIn(source: string): string {
  const found = publicIn(source, exported).map(({ about, kind, head, body }) => {
    if (kind === "type") return `${about}export type ${head};\n`;
    if (kind === "function") return `${about}export declare function ${withoutDefaults(head)};\n`;
    const own = /^ {2}(?:async )?\*?#/m.test(body) ? "  #private;\n" : "";
    const members = publicIn(body, member).map((each) => `${each.about}  ${withoutDefaults(each.head)};\n`);
    return `${about}export declare class ${head} {\n${own}${members.join("")}}\n`;
  });
  return found.join("");
}

function publicIn(source: string, pattern: RegExp) {
  return [...source.matchAll(pattern)].flatMap(({ groups }) => {
    const { comment = "", kind = "", head = "", body = "" } = groups!;
    if (comment.includes("@internal") || head.startsWith("#")) return [];
    // The types say what parameters are.
    return { about: comment.replace(/^ *\* @param [\s\S]*?(?=^ *\*\/)/m, ""), kind, head, body };
  });
}

/** The head of a function or member with question marks and types in the place of values. */
const withoutDefaults = (head: string) =>
  head
    .replace(/^(\w+) = (.*)$/, (_, name, value) => `${name}: ${typeof JSON.parse(value)}`)
    .replaceAll(/(\w+|\})(: [^=,()]*?) = \{\}/g, "$1?$2")
    .replaceAll(/(\w+) = [^,}]+?(?=,| \})/g, "$1")
    .replace(/\(\{\n([^}]*),\n *\}/, (_, names) => `({ ${names.trim().split(/,\s*/).join(", ")} }`);

/** The records that /client.d.ts declares: those of the API's description, and what calls take besides. */
export const records = { ...components, ErrorCode: Problem.shape.code, Filters, ProofLevel };

/** The records as types of TypeScript, which follow from their schemas. */
export function recordTypes(): string {
  const { schemas } = z.toJSONSchema(recordRegistry(), { io: "input", uri: (id) => id });
  const declared = Object.entries(schemas).map(([name, schema]) => {
    const type = typeOf(schema, "");
    const head = schema.type === "object" ? `interface ${name} ${type}` : `type ${name} = ${type};`;
    return `${commentOf(schema, "")}export ${head}\n`;
  });
  return declared.join("");
}

export function recordRegistry() {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(records)) registry.add(schema, { id });
  return registry;
}

type JsonSchema = z.core.JSONSchema.JSONSchema;

function typeOf(schema: JsonSchema, indent: string): string {
  if (schema.$ref) return schema.$ref;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return either.map((one) => typeOf(one as JsonSchema, indent)).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.join(" | ").replace("integer", "number");
  switch (schema.type) {
    case "object":
      return objectOf(schema, indent);
    case "array": {
      const items = schema.items as JsonSchema;
      const item = typeOf(items, indent);
      return items.type === "object" || /^\w+$/.test(item) ? `${item}[]` : `(${item})[]`;
    }
    case "integer":
      return "number";
    case "string":
    case "number":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

function objectOf(schema: JsonSchema, indent: string): string {
  const { properties = {}, required = [], additionalProperties: others } = schema;
  const inner = `${indent}  `;
  const members = Object.entries(properties as Record<string, JsonSchema>).map(([name, schema]) => {
    const optional = required.includes(name) ? "" : "?";
    return `${commentOf(schema, inner)}${inner}${name}${optional}: ${typeOf(schema, inner)};\n`;
  });
  if (typeof others === "object") members.push(`${inner}[name: string]: ${typeOf(others, inner)};\n`);
  return `{\n${members.join("")}${indent}}`;
}

const commentOf = ({ description }: JsonSchema, indent: string) =>
  description === undefined ? "" : `${indent}/** ${description} */\n`;
