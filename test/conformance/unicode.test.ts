import { expect, test } from "vitest";
import { foldCase } from "../../schemas/filters.ts";
import { isSettled, normalised, wordsOf } from "../../snapshots/index/word-table.ts";
import { inPython, python } from "./python.ts";

const script = `
import json, sys
from client import fold
from words import normalised, words_of
texts = json.load(sys.stdin)
json.dump([[fold(text), normalised(text), sorted(words_of(f"1{text}2"))] for text in texts], sys.stdout)
`;

test.skipIf(!python)(
  "settled characters fold, and make words, the same here and in Python, whose Unicode is another",
  async () => {
    const codes = Array.from({ length: 0x110000 }, (_, code) => String.fromCodePoint(code)).filter(isSettled);
    // Each begins a word, and follows a sigma, which may end one.
    const texts = codes.map((character) => `${character} aΣ${character}`);
    const there: [string, string, string[]][] = await inPython(script, texts);
    const here = texts.map((text) => [foldCase(text), normalised(text), wordsOf(`1${text}2`).sort()]);
    const differing = texts.filter((_, n) => JSON.stringify(here[n]) !== JSON.stringify(there[n]));
    expect(differing).toEqual([]);
    expect(codes.length).toBeGreaterThan(45_000);
  },
);
