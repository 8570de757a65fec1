import { readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
const read = (file: string) => readFileSync(join(root, file), "utf8");

/** What answers a query over sections, in the proxy as in a reader's hands. */
const evaluator = "snapshots/read/evaluator.ts";

/** What a source loads when it runs. Imports of types leave nothing behind. */
const loadedBy = (text: string) =>
  [...text.matchAll(/^(?:import|export) (?!type )(?:[^;"]* from )?"([^"]+)";$/gm)].map(
    ([, specifier]) => specifier!,
  );

/** Names of Node that a source's code uses, and modules of Node that it loads. */
function nodeIn(text: string): string[] {
  const code = text.replace(/\/\*.*?\*\/|^\s*\/\/[^\n]*$/gms, "");
  const names = code.match(/\bBuffer\b|\bprocess\.|\bsetImmediate\b/g) ?? [];
  return [...names, ...loadedBy(text).filter((specifier) => specifier.startsWith("node:"))];
}

/** A source and all that it loads: sources by their path, and modules by their name. */
function reachedFrom(file: string): Set<string> {
  const reached = new Set([file]);
  for (const one of reached) {
    if (!one.endsWith(".ts")) continue;
    for (const specifier of loadedBy(read(one)))
      reached.add(specifier.startsWith(".") ? posix.join(dirname(one), specifier) : specifier);
  }
  return reached;
}

test("the evaluator needs neither Node nor a library", () => {
  const wrong =
    'import { hash } from "node:crypto";\nimport type { X } from "node:fs";\nBuffer.alloc(process.pid);';
  expect(nodeIn(wrong)).toEqual(["Buffer", "process.", "node:crypto"]);
  const reached = [...reachedFrom(evaluator)];
  expect(reached.filter((name) => !name.endsWith(".ts"))).toEqual([]);
  expect(reached.filter((file) => nodeIn(read(file)).length > 0)).toEqual([]);
  expect(reached).toContain("snapshots/index/slice-kernel.ts");
});
