import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Target } from "./target.ts";

// A corpus is a file of one line an input: the number of a seed, how many of its bytes stand before and after, and what
// stands between them, in base64. Most inputs were made of a seed, and are short so.

const fileOf = (name: string) => new URL(`corpus/${name}.txt`, import.meta.url);

/** The seeds of a target, as bytes. */
export async function seedsOf(target: Target): Promise<Buffer[]> {
  return (await target.seeds()).map((seed) => Buffer.from(seed as Uint8Array));
}

/** The inputs that are kept of a target, without its seeds. */
export function readCorpus(name: string, seeds: readonly Buffer[]): Buffer[] {
  const text = existsSync(fileOf(name)) ? readFileSync(fileOf(name), "utf8") : "";
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [number, before, after, between = ""] = line.split(" ");
      const seed = seeds[Number(number)] ?? Buffer.alloc(0);
      const end = seed.subarray(Math.max(0, seed.length - Number(after)));
      return Buffer.concat([seed.subarray(0, Number(before)), Buffer.from(between, "base64"), end]);
    });
}

/** Keeps these inputs of a target. */
export function writeCorpus(name: string, seeds: readonly Buffer[], inputs: readonly Buffer[]): void {
  const lines = inputs.map((input) => lineOf(seeds, input)).sort((a, b) => a.length - b.length);
  writeFileSync(fileOf(name), lines.map((line) => `${line}\n`).join(""));
}

/** The shortest line for an input. */
export function lineOf(seeds: readonly Buffer[], input: Buffer): string {
  const lines = seeds.map((seed, number) => {
    const most = Math.min(seed.length, input.length);
    let before = 0;
    while (before < most && seed[before] === input[before]) before += 1;
    let after = 0;
    while (after < most - before && seed.at(-1 - after) === input.at(-1 - after)) after += 1;
    const between = input.toString("base64", before, input.length - after);
    return `${number} ${before} ${after} ${between}`;
  });
  return lines.reduce((a, b) => (b.length < a.length ? b : a));
}
