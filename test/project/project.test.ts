import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { describe, expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
const git = (...parameters: string[]) => execFileSync("git", parameters, { cwd: root, encoding: "utf8" });
const deleted = new Set(git("ls-files", "--deleted", "-z").split("\0"));
const files = git("ls-files", "-z")
  .split("\0")
  .filter((file) => file !== "" && !deleted.has(file));
const read = (file: string) => readFileSync(join(root, file), "utf8");
const sources = files.filter((file) => /\.tsx?$/.test(file));

/** Files at the root of proxy/: what the whole proxy is put together from and runs by. */
const proxyRoot = ["README.md", "config.ts", "exchange.ts", "server.ts", "services.ts", "start.ts"];

/** What a source imports or exports from, types included. */
const specifiersOf = (text: string) =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g)].map(([, specifier]) => specifier!);

type Graph = ReadonlyMap<string, readonly string[]>;

/** The first cycle found, as the nodes along it with the first one repeated at the end; none when there is none. */
function cycleIn(graph: Graph): string[] {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (node: string): string[] => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (done.has(node)) return [];
    path.push(node);
    for (const next of graph.get(node) ?? []) {
      const cycle = visit(next);
      if (cycle.length > 0) return cycle;
    }
    path.pop();
    done.add(node);
    return [];
  };
  for (const node of graph.keys()) {
    const cycle = visit(node);
    if (cycle.length > 0) return cycle;
  }
  return [];
}

/** The sources that a source imports from. */
const targetsOf = (file: string) =>
  specifiersOf(read(file))
    .filter((specifier) => specifier.startsWith("."))
    .map((specifier) => posix.join(dirname(file), specifier));

// That imports run one way is seen by .biome.json.
describe("imports", () => {
  test("form no cycle, not even of types", () => {
    const found = cycleIn(new Map(Object.entries({ a: ["b", "d"], b: ["c"], c: ["b"] })));
    expect(found).toEqual(["b", "c", "b"]);
    expect(cycleIn(new Map(sources.map((file) => [file, targetsOf(file)])))).toEqual([]);
  });

  test("between folders of proxy/ form no cycle either", () => {
    // Files at its root put the folders together and hold the types that all of them share.
    const inFolders = sources.filter((file) => /^proxy\/[\w-]+\//.test(file));
    const graph = new Map<string, string[]>();
    for (const [folder, members] of Map.groupBy(inFolders, dirname)) {
      const others = members.flatMap(targetsOf).map((target) => dirname(target));
      graph.set(
        folder,
        others.filter((other) => other.startsWith("proxy/") && other !== folder),
      );
    }
    expect(cycleIn(graph)).toEqual([]);
    expect(graph.size).toBeGreaterThan(8);
  });

  test("lead from the proxy to no DuckDB, which would take 20 MiB of every process", () => {
    const reached = new Set(["scripts/proxy.ts"]);
    for (const file of reached)
      for (const target of targetsOf(file)) if (sources.includes(target)) reached.add(target);
    expect(reached.size).toBeGreaterThan(100);
    expect([...reached].filter((file) => /"@duckdb\//.test(read(file)))).toEqual([]);
  });
});

describe("sources", () => {
  test("below the proxy know nothing of how it answers errors", () => {
    const below = sources.filter((file) => /^snapshots\//.test(file));
    const problem = /import [^;]*\bProblem\b[^;]*from "[./]*schemas\/envelopes\.ts"/;
    expect(below.filter((file) => problem.test(read(file)))).toEqual([]);
    expect(read("proxy/reply/problem.ts")).toMatch(problem);
    expect(below.length).toBeGreaterThan(50);
  });

  test("silence no tool and put nothing off", () => {
    // In pieces, or this file would find itself.
    const marks = [
      `@ts-${"ignore"}`,
      `@ts-${"expect-error"}`,
      `@ts-${"nocheck"}`,
      `biome-${"ignore"}`,
      `TO${"DO"}`,
      `FIX${"ME"}`,
    ];
    const pattern = new RegExp(marks.join("|"));
    expect(files.filter((file) => pattern.test(read(file)))).toEqual([]);
  });

  test("spell the keys of stored objects only in snapshots/store/layout.ts", () => {
    const spelled = /["'`](?:commits|manifests|private|keys|public)\/|["'`](?:head|checked|probe|hold)\.json/;
    const code = sources.filter((file) => /^(schemas|snapshots|proxy|scripts)\//.test(file));
    const spelling = code.filter((file) => spelled.test(read(file).replace(/^\s*(\/\/|\*|\/\*).*$/gm, "")));
    expect(spelling).toEqual(["snapshots/store/layout.ts"]);
  });
});

describe("lines of code", () => {
  /** How many the sources have whose names match. */
  function linesIn(names: RegExp): number {
    const lines = sources.filter((file) => names.test(file)).flatMap((file) => read(file).split("\n"));
    return lines.filter((line) => !/^\s*($|\/\/|\/\*|\*)/.test(line)).length;
  }

  const otherProtocols = ["agents", "delta-sharing", "feed"];

  test("the gate, which is proxy/ without the site, its documents and other protocols, has less than 2,800", () => {
    const lines = linesIn(new RegExp(`^proxy/(?!(?:site|docs|${otherProtocols.join("|")})/)`));
    expect(lines).toBeLessThan(2800);
    expect(lines).toBeGreaterThan(2000);
  });

  test.each(otherProtocols)("proxy/%s/, which uses what the gate has, has at most 300", (folder) => {
    const lines = linesIn(new RegExp(`^proxy/${folder}/`));
    expect(lines).toBeLessThanOrEqual(300);
    expect(lines).toBeGreaterThan(100);
  });
});

describe("the repository", () => {
  test("holds only what belongs to its top level", () => {
    const allowed = [
      "README.md",
      "package-lock.json",
      "package.json",
      "tsconfig.json",
      ...["schemas", "snapshots", "proxy", "scripts", "test"],
    ];
    const entries = new Set(files.map((file) => file.split("/")[0]!));
    expect([...entries].filter((entry) => !entry.startsWith(".") && !allowed.includes(entry))).toEqual([]);
  });

  test("keeps in folders what snapshots/ and proxy/ consist of", () => {
    const loose = (room: string) =>
      files.filter((file) => dirname(file) === room).map((file) => posix.basename(file));
    expect(loose("snapshots")).toEqual(["PUBLISHING.md", "SPEC.md"]);
    expect(loose("proxy").filter((file) => !proxyRoot.includes(file))).toEqual([]);
  });

  test("names no place of one machine, no registry and no planning file", () => {
    // In pieces, or this file would find itself.
    const names = [
      `/work${"/"}`,
      `/root${"/"}`,
      `/home/${"[a-z]"}`,
      `registry\\.${"npmjs"}`,
      `deb\\.${"debian"}`,
      `(?:CONTRACT|ARCHITECTURE|QUALITY)${"\\.md"}`,
    ];
    const pattern = new RegExp(names.join("|"));
    const faults = files.flatMap((file) => {
      const found = pattern.exec(read(file));
      return found ? [`${file}: ${found[0]}`] : [];
    });
    expect(faults).toEqual([]);
    // One test may look for real data beside the repository; it is skipped where there is none.
    const beside = files.filter((file) => read(file).includes(`../${"shared"}`));
    expect(beside.length).toBeLessThanOrEqual(1);
    expect(beside.filter((file) => !file.startsWith("test/"))).toEqual([]);
  });
});

describe("dependencies", () => {
  test("have exact versions", () => {
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read("package.json"));
    const versions = Object.entries<string>({ ...dependencies, ...devDependencies, ...optionalDependencies });
    expect(versions.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([]);
    expect(versions.length).toBeGreaterThan(10);
  });

  test("have licences that ask for no more than their own text", () => {
    const inService = ["0BSD", "Apache-2.0", "BSD-3-Clause", "BlueOak-1.0.0", "ISC", "MIT"];
    const inTools = [...inService, "MIT OR Apache-2.0", "MPL-2.0", "PSF-2.0", "Python-2.0"];
    const { "": _, ...packages }: Record<string, { license?: string; dev?: true }> = JSON.parse(
      read("package-lock.json"),
    ).packages;
    const others = Object.entries(packages).filter(
      ([, { license = "none", dev }]) => !(dev ? inTools : inService).includes(license),
    );
    expect(others).toEqual([]);
  });

  test("are locked by integrity, not by an address", () => {
    const { packages } = JSON.parse(read("package-lock.json"));
    const entries = Object.entries<{
      resolved?: string;
      integrity?: string;
      optionalDependencies?: Record<string, string>;
    }>(packages);
    expect(entries.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
    const unlocked = entries.filter(
      ([name, { integrity }]) => name !== "" && !integrity?.startsWith("sha512-"),
    );
    expect(unlocked).toEqual([]);
    // `npm ci` wants the binaries of every platform to be there, whichever this one is.
    const optional = entries.flatMap(([, entry]) => Object.keys(entry.optionalDependencies ?? {}));
    expect(optional.filter((name) => !packages[`node_modules/${name}`])).toEqual([]);
    expect(optional.length).toBeGreaterThan(30);
  });
});
