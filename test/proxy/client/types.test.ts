import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compile } from "json-schema-to-typescript";
import { expect, test } from "vitest";
import { z } from "zod";
import { clientFiles } from "../../../proxy/site/static-files.ts";
import { endpoints } from "../../../schemas/endpoints.ts";
import {
  ExportList,
  LabelFacet,
  MarketFacets,
  MarketPage,
  MarketProof,
  MonthFacet,
  Problem,
  ProofLevel,
  ScoreBatch,
  ScoreDimensions,
  ScoreFacet,
  ScoreHistory,
  ScoreList,
  ScoreProof,
  SnapshotList,
  Status,
  Usage,
} from "../../../schemas/envelopes.ts";
import { archiveParameters, asOfParameter } from "../../../schemas/query.ts";
import {
  AnyJson,
  EvidenceItem,
  ForgeTier,
  HistoricalMarket,
  MarketDimension,
  Nearest,
  ProtocolScore,
  ScoreListEntry,
  ScorePoint,
} from "../../../schemas/records.ts";
import { Tiers } from "../../../schemas/store/stored-objects.ts";

const root = new URL("../../..", import.meta.url).pathname;
const program = (name: string) => join(root, "node_modules/.bin", name);

/** What the filters of the archive may be, by the table of its parameters. */
const Filters = z
  .object(
    Object.fromEntries(
      [...archiveParameters, asOfParameter].map(({ name, schema }) => [name, schema.optional()]),
    ),
  )
  .describe("Filters of the archive, and where to begin.");

const records = {
  Filters,
  HistoricalMarket,
  MarketFacets,
  MarketPage,
  MarketProof,
  Problem,
  ProtocolScore,
  ScoreBatch,
  ScoreDimensions,
  ScoreHistory,
  ScoreList,
  ScoreProof,
  ExportList,
  SnapshotList,
  Status,
  Tiers,
  Usage,
};

/** What several of these have in common, or what is long. */
const parts = {
  ErrorCode: Problem.shape.code,
  EvidenceItem,
  ForgeTier,
  LabelFacet,
  MarketDimension,
  MonthFacet,
  Nearest,
  ProofLevel,
  ScoreFacet,
  ScoreListEntry,
  ScorePoint,
};

/** Records that have members of another one, and which one that is. */
const bases = { ScorePoint: "ScoreListEntry", ProtocolScore: "ScoreListEntry", ScoreProof: "MarketProof" };

/** Declares the members that a record has of its base no second time. */
function derived(text: string, [name, base]: [name: string, base: string]): string {
  const membersOf = (of: string): readonly string[] => {
    const body = new RegExp(`export interface ${of} \\{\\n(.*?)^\\}`, "ms").exec(text)?.[1] ?? "";
    return body.match(/^(?: {2}\/\*\*[^\n]*\n)? {2}\w+\??: (?:\{\n.*?^ {2}\}[^\n]*|[^\n]*)\n/gms) ?? [];
  };
  const [own, others] = [membersOf(name), membersOf(base)];
  const names = own.flatMap((member) => (others.includes(member) ? /^ {2}(\w+)/m.exec(member)![1] : []));
  const rest = own.filter((member) => !others.includes(member));
  const picked = `Pick<${base}, ${names.map((each) => `"${each}"`).join(" | ")}>`;
  const type =
    rest.length > 0
      ? `interface ${name} extends ${picked} {\n${rest.join("")}}`
      : `type ${name} = ${picked};`;
  return text.replace(new RegExp(`interface ${name} \\{\\n.*?^\\}`, "ms"), type);
}

/** The records that the service answers with, as they follow from its schemas. */
async function recordTypes(): Promise<string> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries({ ...records, ...parts })) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, {
    io: "input",
    uri: (id) => `#/$defs/${id}`,
    override({ zodSchema, jsonSchema }) {
      if (zodSchema === AnyJson) Object.assign(jsonSchema, { tsType: "unknown" });
      delete jsonSchema.minItems;
      delete jsonSchema.maxItems;
    },
  });
  const names = Object.keys({ ...records, ...parts });
  const defined = Object.entries(schemas).map(([name, { $id: _, $schema: __, ...schema }]) => [
    name,
    { ...schema, title: name },
  ]);
  const document = {
    title: "Records",
    anyOf: names.map((name) => ({ $ref: `#/$defs/${name}` })),
    $defs: JSON.parse(JSON.stringify(Object.fromEntries(defined)), namedType),
  };
  const compiled = await compile(document as Parameters<typeof compile>[0], "Records", {
    bannerComment: "",
    additionalProperties: false,
  });
  const text = formatted(`${compiled.replace(/export type Records\b[^;]*;/, "").trim()}\n`);
  return Object.entries(bases).reduce(derived, text);
}

/** A reference as the name of its type: the compiler would give one that has words of its own a type of its own, too. */
function namedType(_key: string, schema: { $ref?: string }) {
  if (typeof schema?.$ref !== "string") return schema;
  const { $ref, ...words } = schema;
  return { ...words, tsType: $ref.slice($ref.lastIndexOf("/") + 1) };
}

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

/** The modules of the client, in the order of their declarations. */
const modules = ["client", "answers", "errors", "proofs", "trees"];

/** What tsc declares of these modules, without their imports. */
function declared(): string {
  const folder = mkdtempSync(join(tmpdir(), "prs-client-types-"));
  try {
    const emit = [
      "--noEmit",
      "false",
      "--declaration",
      "--emitDeclarationOnly",
      "--stripInternal",
      "--rootDir",
      root,
      "--outDir",
      folder,
    ];
    // It also writes when there are faults, as after a record was added here. `npm run types` reports those.
    spawnSync(program("tsc"), ["-p", join(root, "proxy/site/client"), ...emit]);
    const texts = modules.map((name) => readFileSync(join(folder, `proxy/site/client/${name}.d.ts`), "utf8"));
    return formatted(
      texts.join("").replaceAll(/^(?:import|export) (?:type )?(?:\{[^}]*\}|\*)(?: from "[^"]+")?;\n/gm, ""),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function formatted(text: string): string {
  const how = ["format", "--stdin-file-path=client.d.ts"];
  const input = text.replaceAll(/ *\/\*\*.*?\*\/\n?/gs, withoutTypes);
  const lines = execFileSync(program("biome"), how, { cwd: root, input, encoding: "utf8" });
  return lines.replaceAll("\n\n", "\n").replaceAll(/(?:\n +\| "\w+")+;/g, sideBySide);
}

/** Many literals of a type, as many on a line as fit. */
function sideBySide(union: string): string {
  const indent = union.match(/^\n( +)/)?.[1] ?? "";
  const lines: string[] = [];
  for (const literal of union.match(/\| "\w+"/g) ?? []) {
    const line = `${lines.at(-1) ?? ""} ${literal}`;
    if (lines.length > 0 && indent.length + line.length <= 120) lines[lines.length - 1] = line;
    else lines.push(literal);
  }
  return `\n${lines.map((line) => `${indent}${line}`).join("\n")};`;
}

/** What the head of a generated file says of it. It is not served. */
const headOf = (source: string, how: string) =>
  `// Generated from ${source} by test/proxy/client/types.test.ts, with \`vitest -u\`.\n// ${how}\n\n`;

// After a change of the client or of a schema, `vitest -u` with this file writes the declarations anew.
test("the client's declarations are those of its source and of the service's schemas", async () => {
  const client = "../../../proxy/site/client";
  const methods = headOf("the client's modules", "A new method goes into client.ts.");
  const fields = headOf("schemas/", "A new field goes there.");
  await expect(methods + declared()).toMatchFileSnapshot(`${client}/declarations.d.ts`);
  await expect(fields + (await recordTypes())).toMatchFileSnapshot(`${client}/records.d.ts`);
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
