import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { foldCase } from "../../../schemas/filters.ts";
import { hasBit, rangeBitmap } from "../../../snapshots/index/bitmap.ts";
import { checkWords, encodeWords } from "../../../snapshots/index/encode-words.ts";
import { isSettled, settledWordsOf, WordTable, wordsOf } from "../../../snapshots/index/word-table.ts";
import { decodeWords } from "../../helpers/archive/index-rows.ts";

// That all settled characters fold as in Python is in test/conformance/unicode.test.ts.
test("texts are folded character by character", () => {
  expect(foldCase("STRASSE ẞ ΣΊΣΥΦΟΣ")).toBe(foldCase("strasse ß σίσυφος"));
  expect(foldCase("ß")).not.toBe(foldCase("ss"));
  // Not all versions of Unicode have these, so that no other test looks at them.
  expect(foldCase("\u1fd3\u1fe3")).toBe("\u0390\u03b0");
  expect(foldCase("\u{e000}\u{2fffe}")).toBe("\u{e000}\u{2fffe}");
});

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

// What a search through texts finds is compared in test/snapshots/read/archive/filters.test.ts.
describe("a table of words", () => {
  test("gives others their turn while it looks through many words or many markets", async () => {
    const words = Array.from({ length: 4_000 }, (_, n) => `ab${n.toString(36)}`);
    const tableOf = (texts: readonly string[]) => new WordTable("words", encodeWords(texts.map(wordsOf)));
    const each = tableOf(words);
    const same = tableOf(words.map((_, n) => (n % 3 ? "ab" : "no")));
    const turns = async (table: WordTable, asked: string[]) => {
      let counted = 0;
      const wanted = asked.map((text) => ({ text, prefix: true }));
      const result = rangeBitmap(4_000, 0, 4_000);
      await table.keepWords(wanted, result, async () => {
        counted += 1;
      });
      return counted;
    };
    const one = await turns(each, ["ab"]);
    expect(one).toBeGreaterThan(4_000 / 128);
    expect(await turns(each, ["ab", "ab"])).toBe(2 * one);
    // A bitmap is read at once.
    expect(await turns(same, ["ab"])).toBe(1);
  });

  test("refuses a posting that is longer than a bitmap", async () => {
    const stored = encodeWords(Array.from({ length: 400 }, (_, n) => (n < 40 ? ["some"] : [])));
    const told = stored.indexOf('"markets":400');
    const find = async () => {
      const table = new WordTable("words", stored);
      await table.keepWords(
        [{ text: "some", prefix: false }],
        rangeBitmap(table.markets, 0, 40),
        async () => {},
      );
    };
    await find();
    stored.write('"markets":64 ', told);
    await expect(find()).rejects.toThrow("words: its section dictionary has too long a posting");
  });

  test("refuses a word that repeats one of another block: millions could repeat the same megabytes", () => {
    const stored = encodeWords([Array.from({ length: 17 }, (_, n) => `w${n + 10}`)]);
    expect(decodeWords(new WordTable("words", stored))[0]).toHaveLength(17);
    // It shares nothing, has three bytes, and a posting of one.
    const last = stored.indexOf(Buffer.from("\0\x03\x01w26"));
    stored[last] = 1;
    expect(() => decodeWords(new WordTable("words", stored))).toThrow("dictionary is cut off");
  });

  test("is compared no further than to a word that is longer than any of its market's question", () => {
    const questions = ["short", "Will \u{2fffe} it be a little longer?"];
    const long = Array.from({ length: 9 }, (_, n) => `${"long".repeat(1000)}${n}`);
    const { words } = WordTable.prototype;
    let read = 0;
    const counted = vi.spyOn(WordTable.prototype, "words").mockImplementation(function* (this: WordTable) {
      for (const word of words.call(this)) {
        read += 1;
        yield word;
      }
    });
    onTestFinished(() => counted.mockRestore());
    const compare = (table: string[][]) =>
      checkWords("words", encodeWords(table, "15.0"), { segment: "segment", questions });
    expect(compare(questions.map(wordsOf))).toBe("right");
    expect(() => compare([wordsOf(questions[0]!), long])).toThrow("does not match the questions");
    expect(read).toBe(1);
  });

  test("has a word in markets at any distance, around those that take another byte", async () => {
    const gaps = [0, 126, 127, 128, 129, 16_383, 16_384, 16_385];
    const ordinals = gaps.map((gap, n) => gaps.slice(0, n).reduce((sum, other) => sum + other + 1, gap));
    const words: string[][] = Array.from({ length: ordinals.at(-1)! + 1 }, () => []);
    for (const ordinal of ordinals) words[ordinal] = ["far"];
    const table = new WordTable("words", encodeWords(words));
    expect(decodeWords(table)).toEqual(words);
    const result = rangeBitmap(words.length, 0, words.length);
    await table.keepWords([{ text: "far", prefix: false }], result, async () => {});
    expect([...words.keys()].filter((n) => hasBit(result, n))).toEqual(ordinals);
  });
});
