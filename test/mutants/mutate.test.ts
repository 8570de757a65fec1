import { stripTypeScriptTypes } from "node:module";
import { compileFunction } from "node:vm";
import { expect, test } from "vitest";
import { mutate, nameOf } from "./mutate.ts";

const source = `const seen: number[] = [];
function answer(n: number, { even = false } = {}): unknown {
  seen.push(n);
  if (n < 3 && !even) return [(n as number) * 2, seen.length];
  return n - 1 === 4 ? -n : { even, n };
}`;

/** What a program's answers are, or its error. */
function answersOf(program: string, asks = (_id: number) => false): string {
  const call = compileFunction(
    `${stripTypeScriptTypes(program)}\nreturn [0, 1, 2, 3, 4, 5].map((n) => answer(n));`,
    ["__mutant"],
  );
  try {
    return JSON.stringify(call(asks));
  } catch (error) {
    return String(error);
  }
}

test("each mutant alone changes what the code does, and without any it does the same", () => {
  const { code, mutants } = mutate("answer.ts", source, 10);
  const plain = answersOf(source);
  expect(answersOf(code)).toBe(plain);
  expect(mutants.filter(({ id }) => answersOf(code, (asked) => asked === id) === plain)).toEqual([]);
  const changes = mutants.map(({ line, change }) => `${line}: ${change}`);
  expect(changes).toContain("3: seen.push(n); -> nothing");
  expect(changes).toContain("4: n < 3 -> n <= 3");
  expect(changes).toContain("4: (n as number) * 2 -> (n as number) / 2");
  expect(changes).toContain("5: 4 -> 4 + 1");
  expect(mutants.map(({ id }) => id)).toEqual(mutants.map((_, place) => 10 + place));
});

test("a mutant is named by the text of its line and the change, the second like it by its number", () => {
  const code = "function f(a: number) {\n  return a + 1 + 1;\n}\n";
  const names = mutate("answer.ts", code, 1).mutants.map(nameOf);
  expect(names).toContain("answer.ts: return a + 1 + 1;\n  1 -> 1 + 1");
  expect(names).toContain("answer.ts: return a + 1 + 1;\n  1 -> 1 + 1 (2)");
  expect(new Set(names).size).toBe(names.length);
});
