import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { types } from "node:util";
import { readCorpus, seedsOf, writeCorpus } from "./corpus.ts";
import { groups } from "./groups.ts";
import type { Target } from "./target.ts";

// Fuzzes a target, guided by coverage:
//
//   FUZZ_JAZZER=DIR node --import ./scripts/installed.js test/fuzz/fuzz.ts TARGET SECONDS [keep]
//
// DIR is what test/servers/jazzer-install.sh made. With `keep`, the smallest inputs that reach all that was reached are
// kept in test/fuzz/corpus. An input that breaks something ends the run, and is left in the folder that is named.

const [name = "", seconds = "60", keep] = process.argv.slice(2);
const [group, plain] = targetNamed();
const jazzer = createRequire(join(process.env.FUZZ_JAZZER ?? "", "package.json"));
const core = jazzer("@jazzer.js/core");
const { registerEsmLoaderHooks } = jazzer("@jazzer.js/instrumentor");
const { coverageTracker } = jazzer("@jazzer.js/fuzzer").fuzzer;

function targetNamed(): [group: string, target: Target] {
  for (const [group, targets] of Object.entries(groups)) if (targets[name]) return [group, targets[name]];
  const names = Object.values(groups).flatMap((targets) => Object.keys(targets));
  throw new Error(`there is no target ${name}, but ${names.join(", ")}`);
}

/** The group and all sources that it imports, as one module of JavaScript, which Jazzer.js can instrument. */
async function bundled(): Promise<string> {
  const esbuild = createRequire(import.meta.resolve("tsx"))("esbuild");
  const outfile = new URL(`../../node_modules/.cache/fuzz/${group}.mjs`, import.meta.url).pathname;
  // Sources find files beside them.
  const textAt = (path: string) =>
    readFileSync(path, "utf8").replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href));
  const load = ({ path }: { path: string }) => ({ contents: textAt(path), loader: "ts" });
  const setup = (build: { onLoad: (which: object, by: typeof load) => void }) =>
    build.onLoad({ filter: /\.(ts|m?js)$/ }, load);
  await esbuild.build({
    entryPoints: [join(import.meta.dirname, `${group}.ts`)],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node24",
    packages: "external",
    plugins: [{ name: "sources", setup }],
  });
  return outfile;
}

const work = mkdtempSync(join(tmpdir(), "prs-fuzz-"));
const [corpus, dictionary] = [join(work, "corpus"), join(work, "words")];
mkdirSync(corpus);
// Whatever targets leave behind goes with it.
process.env.TMPDIR = work;
const seeds = await seedsOf(plain);
for (const [index, input] of [...seeds, ...readCorpus(name, seeds)].entries())
  writeFileSync(join(corpus, String(index)), input);
const escaped = (word: string) => `"${Buffer.from(word).toString("hex").replace(/../g, "\\x$&")}"\n`;
const inSeeds = seeds.flatMap((seed) => seed.toString("latin1").match(/[a-z_]{2,24}/gi) ?? []);
writeFileSync(dictionary, [...new Set([...inSeeds, ...(plain.words ?? [])])].map(escaped).join(""));

const { OptionsManager, OptionSource } = core;
const options = new OptionsManager(OptionSource.DefaultCLIOptions).merge(
  {
    includes: [".cache/fuzz/"],
    excludes: ["/packages/"],
    disableBugDetectors: [".*"],
    sync: !types.isAsyncFunction(plain.run),
    // Of one input, in milliseconds, also on a busy machine.
    timeout: 30_000,
    fuzzerOptions: [
      corpus,
      `-max_total_time=${seconds}`,
      `-max_len=${plain.maxBytes ?? 4096}`,
      `-dict=${dictionary}`,
      `-artifact_prefix=${work}/`,
      "-print_final_stats=1",
    ],
  },
  OptionSource.CommandLineArguments,
);
core.registerGlobals(options);
const instrumentor = await core.initFuzzing(options);
registerEsmLoaderHooks(instrumentor);
instrumentor.sendHooksToLoader();
const { targets } = await import(pathToFileURL(await bundled()).href);
const target: Target = targets[name];
// What targets set up comes with their seeds.
await seedsOf(target);
const { error } = await core.startFuzzingNoInit(
  core.asFindingAwareFuzzFn((input: Buffer) => target.run(input)),
  options,
);
if (error) process.exit(77);

/** The counters of the places in the sources. An execution adds to those that it reaches. */
const counters: Buffer[] = coverageTracker.moduleCounters;

/** The places that an input reaches. */
async function reachedBy(input: Buffer): Promise<number[]> {
  for (const each of counters) each.fill(0);
  await target.run(input);
  return counters.flatMap((each, module) =>
    [...each.entries()].flatMap(([place, count]) => (count > 0 ? module * 2 ** 24 + place : [])),
  );
}

const reached = new Set<number>();
for (const input of seeds) for (const place of await reachedBy(input)) reached.add(place);
const bySeeds = reached.size;
const kept: Buffer[] = [];
const found = readdirSync(corpus).map((file) => readFileSync(join(corpus, file)));
for (const input of found.sort((a, b) => a.length - b.length)) {
  const places = await reachedBy(input);
  if (places.every((place) => reached.has(place))) continue;
  for (const place of places) reached.add(place);
  kept.push(input);
}
const all = `${name}: ${reached.size} places reached, ${bySeeds} of them by ${seeds.length} seeds`;
console.log(`${all}; ${kept.length} of ${found.length} inputs do.`);
if (keep) writeCorpus(name, seeds, kept);
rmSync(work, { recursive: true });
process.exit(0);
