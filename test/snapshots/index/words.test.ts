import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { foldCase } from "../../../schemas/filters.ts";
import { isSettled, settledWordsOf, wordsOf } from "../../../snapshots/index/word-table.ts";

/** Every character, as it is and folded. What is not assigned, or for private use, has no case: RegExp folds none. */
const codes = Array.from({ length: 0x110000 }, (_, code) => code).filter((code) =>
  /[^\p{Cn}\p{Co}\p{Cs}]/u.test(String.fromCodePoint(code)),
);
const folded = codes.map((code) => foldCase(String.fromCodePoint(code)));
const kept = codes.filter((code, place) => folded[place] === String.fromCodePoint(code));

const blockSize = 16;
const blockOf = (code: number) => Math.floor(code / blockSize);
const textOf = (some: readonly number[]) => some.map((code) => String.fromCodePoint(code)).join("");

describe("foldCase(text), against the RegExp flags iu over all of Unicode", () => {
  test("leaves what is not assigned, or for private use, as it is", () => {
    const others = Array.from({ length: 0x110000 - 0xe000 }, (_, n) => String.fromCodePoint(0xe000 + n));
    const text = others.filter((character) => /[\p{Cn}\p{Co}]/u.test(character)).join("");
    expect(text.length).toBeGreaterThan(1_000_000);
    expect(foldCase(text) === text).toBe(true);
  });

  test("makes of every character one that is equal to it, and stays as it is", () => {
    const equal = /^(.)\1$/isu;
    expect(codes.filter((code, place) => !equal.test(String.fromCodePoint(code) + folded[place]))).toEqual(
      [],
    );
    const last = new Set(kept.map((code) => String.fromCodePoint(code)));
    expect(folded.filter((character) => !last.has(character))).toEqual([]);
  });

  // With the test above: characters that fold to different ones are not equal.
  test("makes no two characters that are equal", () => {
    const blocks = Map.groupBy(kept, blockOf);
    const equalWithin = [...blocks.values()].filter((block) => /(.).*\1/isu.test(textOf(block)));
    expect(equalWithin).toEqual([]);

    // Two that are in different blocks are in blocks whose numbers differ in some bit.
    for (let bit = 1; bit <= 0x110000 / blockSize; bit *= 2) {
      const without = kept.filter((code) => (blockOf(code) & bit) === 0);
      const having = kept.filter((code) => (blockOf(code) & bit) !== 0);
      expect(textOf(having).match(new RegExp(classOf(without), "giu"))).toBeNull();
    }
  });

  test("folds texts character by character", () => {
    expect(foldCase("STRASSE ẞ ΣΊΣΥΦΟΣ")).toBe(foldCase("strasse ß σίσυφος"));
    expect(foldCase("ß")).not.toBe(foldCase("ss"));
    expect(foldCase("")).toBe("");
  });
});

/** A class of these code points, as ranges. */
function classOf(ascending: readonly number[]): string {
  let ranges = "";
  let [first, last] = [-1, -2];
  const close = () => {
    if (first >= 0) ranges += `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
  };
  for (const code of ascending) {
    if (code !== last + 1) {
      close();
      first = code;
    }
    last = code;
  }
  close();
  return `[${ranges}]`;
}

describe("settled characters", () => {
  test("are those of the specification, and all are assigned", () => {
    const spec = readFileSync(new URL("../../../snapshots/SPEC.md", import.meta.url), "utf8");
    const [, list = ""] = /They\sare\s(U\+0009.*?)\sA\sreader\swhose/s.exec(spec) ?? [];
    const ranges = [...list.matchAll(/(?:U\+)?([0-9A-F]{4,5})(?:–([0-9A-F]{4,5}))?/g)].map(
      ([, from, to = from]) => [from!, to!].map((hex) => Number.parseInt(hex, 16)),
    );
    const inSpec = new Uint8Array(0x110000);
    for (const [from, to] of ranges) inSpec.fill(1, from, to! + 1);
    const settled = inSpec.map((_, code) => Number(isSettled(String.fromCodePoint(code))));
    expect(inSpec.findIndex((each, code) => each !== settled[code])).toBe(-1);
    const listed = [...inSpec.keys()].filter((code) => inSpec[code]);
    expect(listed.filter((code) => /[\p{Cn}\p{Cs}]/u.test(String.fromCodePoint(code)))).toEqual([]);
  });

  test("make words, and others leave those that they touch aside", () => {
    const text = "Will ÅNGSTRÖM reach 東京 🚀 in №５?";
    expect(settledWordsOf(text)).toEqual(wordsOf(text));
    const cut: [string, string[]][] = [
      ["Will\u{2fffe}it rain", ["rain"]],
      ["Will \u{2fffe} it rain", ["will", "it", "rain"]],
      ["\u{2fffe}Will it, rain\u{2fffe}", ["it"]],
      ["ΣΑΣ wins \u{2fffe}", ["σασ", "wins"]],
      ["\ud83dx y", ["y"]],
      ["\u{2fffe}", []],
    ];
    for (const [question, words] of cut)
      expect([question, settledWordsOf(question)]).toEqual([question, words]);
  });
});
