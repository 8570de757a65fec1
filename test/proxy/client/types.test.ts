import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compile } from "json-schema-to-typescript";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  declarations,
  recordRegistry,
  records,
  recordTypes,
} from "../../../proxy/site/client/declarations.ts";
import { clientFiles } from "../../../proxy/site/static-files.ts";
import { endpoints } from "../../../schemas/endpoints.ts";
import { AnyJson } from "../../../schemas/records.ts";

const root = new URL("../../..", import.meta.url).pathname;
const program = (name: string) => join(root, "node_modules/.bin", name);

/** What tsc declares of the client's modules, without their imports. */
function declaredByTsc(): string {
  const folder = mkdtempSync(join(tmpdir(), "prs-client-types-"));
  try {
    const emit = "--noEmit false --declaration --emitDeclarationOnly --stripInternal".split(" ");
    // It also writes when there are faults, as after a record was added here. `npm run types` reports those.
    spawnSync(program("tsc"), [
      ...["-p", join(root, "proxy/site/client"), ...emit],
      ...["--rootDir", root, "--outDir", folder],
    ]);
    return ["client", "answers", "errors", "proofs", "trees"]
      .map((name) => readFileSync(join(folder, `proxy/site/client/${name}.d.ts`), "utf8"))
      .join("")
      .replaceAll(/^(?:import|export) (?:type )?(?:\{[^}]*\}|\*)(?: from "[^"]+")?;\n/gm, "")
      .replaceAll(/\n *\* @param (?:(?!\n *\*\/)[\s\S])*/g, "");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Declarations as a list, whatever breaks their lines. */
const listed = (text: string) =>
  text
    .replaceAll(/\s+\*?\s*/g, " ")
    .replaceAll(/[,;]? (?=[})>])|(?<=[({<]) /g, "")
    .split(/; |(?=\/\*\*)/);

test("the client's declarations are those that tsc makes of its source", () => {
  expect(listed(declarations())).toEqual(listed(declaredByTsc()));
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

test("the types of records are those that a library makes of their schemas", async () => {
  const folder = mkdtempSync(join(tmpdir(), "prs-client-types-"));
  try {
    writeFileSync(join(folder, "served.d.ts"), recordTypes());
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
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the file of types that is served needs no other", async () => {
  const folder = mkdtempSync(join(tmpdir(), "prs-client-types-"));
  try {
    const served = clientFiles.find(({ path }) => path === endpoints.clientTypes.path);
    writeFileSync(join(folder, "client.d.ts"), String(await served?.read()));
    const how = "--strict --noEmit --target es2024 --module nodenext client.d.ts".split(" ");
    execFileSync(program("tsc"), how, { cwd: folder });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
