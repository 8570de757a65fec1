import { describe, expect, test } from "vitest";
import { foldCase } from "../snapshots/index/fold.ts";

/** Every character that UTF-8 can hold. */
const characters = Array.from({ length: 0x110000 }, (_, code) => code)
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code));
const blockSize = 16;
const blockOf = (character: string) => Math.floor(character.codePointAt(0)! / blockSize);

describe("foldCase(text), against the RegExp flags iu over all of Unicode", () => {
  test("makes of every character one that is equal to it", () => {
    const equal = /^(.)\1$/isu;
    const wrong = characters.filter((character) => !equal.test(character + foldCase(character)));
    expect(wrong).toEqual([]);
  });

  // With the test above: what folds to different characters is not equal.
  test("makes one character of all that are equal", () => {
    const kept = characters.filter((character) => foldCase(character) === character);
    expect(characters.filter((character) => foldCase(foldCase(character)) !== foldCase(character))).toEqual(
      [],
    );

    const blocks = Map.groupBy(kept, blockOf);
    const equalWithin = [...blocks.values()].filter((block) => /(.).*\1/isu.test(block.join("")));
    expect(equalWithin).toEqual([]);

    // Two that are in different blocks are in blocks whose numbers differ in some bit.
    for (let bit = 1; bit <= 0x110000 / blockSize; bit *= 2) {
      const [without, having] = [0, bit].map((value) =>
        kept.filter((character) => (blockOf(character) & bit) === value),
      );
      const equalAcross = having!.join("").match(new RegExp(classOf(without!), "giu"));
      expect(equalAcross).toBeNull();
    }
  });

  test("folds texts character by character", () => {
    expect(foldCase("STRASSE ẞ ΣΊΣΥΦΟΣ")).toBe(foldCase("strasse ß σίσυφος"));
    expect(foldCase("ß")).not.toBe(foldCase("ss"));
    expect(foldCase("")).toBe("");
  });
});

/** A class of these characters, in their order, as ranges. */
function classOf(ascending: readonly string[]): string {
  let ranges = "";
  let [first, last] = [-1, -2];
  const close = () => {
    if (first >= 0) ranges += `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
  };
  for (const code of ascending.map((character) => character.codePointAt(0)!)) {
    if (code !== last + 1) {
      close();
      first = code;
    }
    last = code;
  }
  close();
  return `[${ranges}]`;
}
