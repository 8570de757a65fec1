import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readCorpus, seedsOf } from "./corpus.ts";
import { groups } from "./groups.ts";

// What fuzzing has kept so far, without the fuzzer: each input once.

const all = Object.values(groups).flatMap((targets) => Object.entries(targets));

test.each(all)("%s: what is kept is read as documented", async (name, target) => {
  const seeds = await seedsOf(target);
  expect(seeds.length).toBeGreaterThan(0);
  try {
    for (const input of [...seeds, ...readCorpus(name, seeds)]) await target.run(input);
  } finally {
    await target.end?.();
  }
});

test("every target is fuzzed each night, and every corpus is of one", () => {
  const workflow = readFileSync(new URL("../../.github/workflows/fuzz.yml", import.meta.url), "utf8");
  const names = all.map(([name]) => name);
  expect(parse(workflow).jobs.fuzz.strategy.matrix.target).toEqual(names);
  const corpora = readdirSync(new URL("corpus", import.meta.url));
  expect(names.map((name) => `${name}.txt`)).toEqual(expect.arrayContaining(corpora));
});
