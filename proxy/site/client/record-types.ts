import { z } from "zod";
import { components } from "../../../schemas/components.ts";
import { Problem, ProofLevel } from "../../../schemas/envelopes.ts";
import { Filters } from "../../../schemas/query.ts";

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
