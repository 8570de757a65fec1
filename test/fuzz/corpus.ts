import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { Target } from "./target.ts";

// A corpus is a file of one line an input: the number of the seed that is most like it, and the input itself,
// compressed with the seed as what came before and in base64. Most inputs were made of a seed, and take some dozen
// bytes so.

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
    .slice(0, -1)
    .map((line) => {
      const [number, compressed = ""] = line.split(" ");
      return inflateRawSync(Buffer.from(compressed, "base64"), optionsOf(seeds[Number(number)]));
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
    const compressed = deflateRawSync(input, { ...optionsOf(seed), level: 9 });
    return `${number} ${compressed.toString("base64")}`;
  });
  return lines.reduce((a, b) => (b.length < a.length ? b : a));
}

const dictionaryBytes = 2 ** 14;

/** Of one length, so that an input can be read when its seed has become shorter, though it is another one then. */
const optionsOf = (seed: Uint8Array = Buffer.alloc(0)) => ({
  dictionary: Buffer.concat([Buffer.alloc(dictionaryBytes), seed]).subarray(-dictionaryBytes),
});
