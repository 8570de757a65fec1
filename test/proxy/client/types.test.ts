import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compile } from "json-schema-to-typescript";
import { expect, test } from "vitest";
import { z } from "zod";
import { recordRegistry, records } from "../../../proxy/site/client/record-types.ts";
import { clientFiles } from "../../../proxy/site/static-files.ts";
import { endpoints } from "../../../schemas/endpoints.ts";
import { AnyJson } from "../../../schemas/records.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const root = new URL("../../..", import.meta.url).pathname;
const program = (name: string) => join(root, "node_modules/.bin", name);

/** A comment without what its tags say of types, which the declaration beside it says again; "" when nothing is left. */
function withoutTypes(comment: string): string {
  const [words = "", ...tags] = comment
    .replaceAll(/^ *\/\*\*|\*\/\n?$/g, "")
    .replaceAll(/^ *\* ?/gm, "")
    .split(/(?:^|\s)(?=@[a-z]+)/);
  const told = tags.flatMap((tag) => {
    // A type in braces, which may have braces within.
    const [, name, text] = /^@param (?:\{(?:[^{}]|\{[^{}]*\})*\}) (\S+)\s+(.+)$/s.exec(tag.trim()) ?? [];
    if (tag.startsWith("@internal")) return ["@internal"];
    return text ? [`@param ${name} ${text}`] : [];
  });
  const lines = [words.trim(), ...told].filter((text) => text !== "").flatMap((text) => text.split("\n"));
  if (lines.length <= 1) return lines.map((line) => `/** ${line} */\n`).join("");
  return `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join("\n")}\n */\n`;
}

const modules = ["client", "answers", "errors", "proofs", "trees"];

/** What tsc declares of these modules, without their imports. */
function declared(): string {
  const emit = "--noEmit false --declaration --emitDeclarationOnly --stripInternal".split(" ");
  const where = ["--rootDir", root, "--outDir", folder];
  // It also writes when there are faults, as after a record was added here. `npm run types` reports those.
  spawnSync(program("tsc"), ["-p", join(root, "proxy/site/client"), ...emit, ...where]);
  const texts = modules.map((name) => readFileSync(join(folder, `proxy/site/client/${name}.d.ts`), "utf8"));
  return formatted(
    texts.join("").replaceAll(/^(?:import|export) (?:type )?(?:\{[^}]*\}|\*)(?: from "[^"]+")?;\n/gm, ""),
  );
}

function formatted(text: string): string {
  const how = ["format", "--stdin-file-path=client.d.ts"];
  const input = text.replaceAll(/ *\/\*\*.*?\*\/\n?/gs, withoutTypes);
  return execFileSync(program("biome"), how, { cwd: root, input, encoding: "utf8" }).replaceAll("\n\n", "\n");
}

/** What the head of the generated file says of it. It is not served. */
const head = `// Generated from the client's modules by test/proxy/client/types.test.ts, with \`vitest -u\`.
// A new method goes into client.ts.

`;

test("the client's declarations are those of its source", async () => {
  const file = "../../../proxy/site/client/declarations.d.ts";
  await expect(head + declared()).toMatchFileSnapshot(file);
});

/** What a library makes of the schemas of the records. */
async function compiledRecords(): Promise<string> {
  const { schemas } = z.toJSONSchema(recordRegistry(), {
    io: "input",
    uri: (id) => `#/$defs/${id}`,
    override({ zodSchema, jsonSchema }) {
      if (zodSchema === AnyJson) Object.assign(jsonSchema, { tsType: "unknown" });
      delete jsonSchema.minItems;
      delete jsonSchema.maxItems;
    },
  });
  const defined = Object.entries(schemas).map(([name, { $id: _, $schema: __, ...schema }]) => [
    name,
    { ...schema, title: name },
  ]);
  const document = {
    anyOf: Object.keys(records).map((name) => ({ $ref: `#/$defs/${name}` })),
    $defs: Object.fromEntries(defined),
  };
  return compile(document as Parameters<typeof compile>[0], "All", { additionalProperties: false });
}

test("the file of types that is served needs no other, and its records are those that a library makes of their schemas", async () => {
  const served = clientFiles.find(({ path }) => path === endpoints.clientTypes.path);
  writeFileSync(join(folder, "served.d.ts"), String(await served?.read()));
  writeFileSync(join(folder, "compiled.d.ts"), await compiledRecords());
  const lines = [
    'import type * as served from "./served.d.ts";',
    'import type * as compiled from "./compiled.d.ts";',
    `import type { Filters as Asked } from ${JSON.stringify(join(root, "schemas/filters.ts"))};`,
    "type Same<A, B> = [A, B] extends [B, A] ? true : false;",
    // The client itself takes any text for a tier.
    "export const asked: Same<keyof served.Filters, keyof Asked> = true;",
    "export const taken: (filters: served.Filters) => Asked = (filters) => filters;",
    ...Object.keys(records).map(
      (name) => `export const ${name}: Same<served.${name}, compiled.${name}> = true;`,
    ),
  ];
  writeFileSync(join(folder, "same.ts"), lines.join("\n"));
  const strict = "--strict --exactOptionalPropertyTypes --noEmit --allowImportingTsExtensions";
  const how = `${strict} --target es2024 --module nodenext same.ts`.split(" ");
  const { stdout } = spawnSync(program("tsc"), how, { cwd: folder, encoding: "utf8" });
  expect(stdout).toBe("");
});
