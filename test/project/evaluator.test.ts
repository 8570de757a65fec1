import { readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
const read = (file: string) => readFileSync(join(root, file), "utf8");

/** What evaluates a query over sections, and what checks the sections, in the proxy as in a reader's hands. */
const evaluator = [
  "snapshots/read/query/filter.ts",
  "snapshots/read/archive/match-columns.ts",
  "snapshots/read/archive/count-facets.ts",
  "snapshots/index/column-sections.ts",
  "snapshots/index/word-table.ts",
  "snapshots/index/index-header.ts",
];
/** The one module that a reader without Node has another of. */
const edge = "snapshots/format/sha256.ts";

/** What a source loads when it runs. Imports of types leave nothing behind. */
const loadedBy = (text: string) =>
  [...text.matchAll(/^(?:import|export) (?!type )[^;]*?"([^"]+)";$/gm)].map(([, specifier]) => specifier!);

/** Names of Node that a source's code uses, and modules of Node that it loads. */
function nodeIn(text: string): string[] {
  const code = text.replace(/\/\*.*?\*\/|^\s*\/\/[^\n]*$/gms, "");
  const names = code.match(/\bBuffer\b|\bprocess\.|\bsetImmediate\b/g) ?? [];
  return [...names, ...loadedBy(text).filter((specifier) => specifier.startsWith("node:"))];
}

/** All that these sources load, and they themselves, but not what the edge loads. */
function reachedFrom(files: readonly string[]): Set<string> {
  const reached = new Set(files);
  for (const file of reached) {
    if (file === edge) continue;
    for (const specifier of loadedBy(read(file)))
      if (specifier.startsWith(".")) reached.add(posix.join(dirname(file), specifier));
  }
  return reached;
}

test("the evaluator runs where there is no Node, but for the module that hashes", () => {
  const wrong =
    'import { hash } from "node:crypto";\nimport type { X } from "node:fs";\nBuffer.alloc(process.pid);';
  expect(nodeIn(wrong)).toEqual(["Buffer", "process.", "node:crypto"]);
  const reached = reachedFrom(evaluator);
  const ofNode = [...reached].filter((file) => nodeIn(read(file)).length > 0);
  expect(ofNode).toEqual([edge]);
  expect(reached).toContain("snapshots/index/slice-kernel.ts");
  expect(reached.size).toBeGreaterThan(20);
});
