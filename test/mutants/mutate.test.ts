import { stripTypeScriptTypes } from "node:module";
import { compileFunction } from "node:vm";
import { expect, test } from "vitest";
import { explainedIn, nameOf } from "./explained.ts";
import { mutate } from "./mutate.ts";

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

test("a list explains mutants by the text of their line and of the change, the second like it by its number", () => {
  const code = "const readAtOnce = 8;\nfunction f(a: number) {\n  a += 2;\n  return a + 1 + 1;\n}\n";
  const { mutants } = mutate("answer.ts", code, 1);
  const list = `What this is.

answer.ts: return a + 1 + 1;
  1 -> 1 + 1
  1 -> 1 + 1 (2)
answer.ts: a += 2;
  2 ± 1
They do not matter.
`;
  const explained = explainedIn(list);
  const told = mutants.filter((mutant) => explained.has(nameOf(mutant)));
  expect(told.map(({ line, change }) => `${line}: ${change}`)).toEqual([
    "1: 8 -> 8 + 1",
    "1: 8 -> 8 - 1",
    "3: 2 -> 2 + 1",
    "3: 2 -> 2 - 1",
    "4: 1 -> 1 + 1",
    "4: 1 -> 1 + 1 (2)",
  ]);
  expect(explained.names.size).toBe(4);
  expect(new Set(mutants.map(nameOf)).size).toBe(mutants.length);
});
