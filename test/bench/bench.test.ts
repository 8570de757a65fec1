import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { processShell } from "../../scripts/shell.ts";
import { nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";
import { median, quantile, summarise } from "./run/measurement.ts";
import { readOptions } from "./run/options.ts";
import { missingPrograms } from "./run/programs.ts";

const folder = testFolder();
const root = join(import.meta.dirname, "../..");
const missing = missingPrograms();
if (missing.length > 0) {
  if (process.env.CI) throw new Error(missing.join(" "));
  console.warn(`The run of the bench is skipped: ${missing.join(" ")}`);
}

/** Runs the bench as npm does. */
async function bench(args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
  const child = spawn(process.execPath, [...nodeOptions, "test/bench/bench.ts", ...args], {
    cwd: root,
    env: { ...env, INIT_CWD: folder, NODE_ENV: undefined },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}

describe("figures", () => {
  test("are medians and quantiles", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([10, 1, 2, 3])).toBe(2.5);
    const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);
    expect([0.5, 0.99, 1].map((share) => quantile(hundred, share))).toEqual([50, 99, 100]);
    expect(quantile([7], 0.01)).toBe(7);
    expect(() => median([])).toThrow(RangeError);
    expect(() => quantile([], 0.5)).toThrow(RangeError);
  });

  test.for([
    ["ratio", "least", 2, true],
    ["ratio", "least", 2.1, false],
    ["ratio", "most", 2, true],
    ["ratio", "most", 1.9, false],
    ["difference", "most", 5, true],
    ["difference", "most", 4.9, false],
    ["value", "most", 10, true],
    ["value", "least", 10.1, false],
  ] as const)("10 against 5 meet a goal or not: %s at %s %s", ([of, at, limit, met]) => {
    const peer = { name: "five", rounds: [4, 5, 9] };
    const goal = { of, at, limit };
    const summary = summarise({ row: 1, work: "w", unit: "ms", ours: [1, 10, 12], peer, goal });
    expect(summary).toEqual({ ours: 10, peer: 5, ratio: 2, met });
  });

  test("that cannot be told meet nothing", () => {
    const goal = { of: "ratio", at: "most", limit: 2 } as const;
    expect(summarise({ row: 1, work: "w", unit: "ms", ours: [1], goal }).met).toBe(false);
    const peer = { name: "nothing", rounds: [0] };
    expect(summarise({ row: 1, work: "w", unit: "ms", ours: [0], peer, goal }).met).toBe(false);
    expect(summarise({ row: 1, work: "w", unit: "ms", ours: [Number.NaN], peer, goal }).met).toBe(false);
  });
});

test("a wrong command line is refused as usage", async () => {
  const { code, stderr } = await bench(["--rows", "1,99"]);
  expect(code).toBe(2);
  expect(stderr).toContain("--rows takes numbers of");
  expect(stderr).toContain("Usage: npm run bench");
  expect(() => readOptions(processShell(), { markets: "many" })).toThrow("--markets must be an integer");
});

describe.skipIf(missing.length > 0)("a tiny run", () => {
  test("compares the walk and facets with their peers, and keeps every round", {
    timeout: 300_000,
  }, async () => {
    const args = ["--quick", "--markets", "2000", "--rows", "1,11", "--json", "figures.json"];
    const { code, stdout, stderr } = await bench(args);
    expect(code, stderr).toBe(0);
    const { rows, machine } = JSON.parse(await readFile(join(folder, "figures.json"), "utf8"));
    expect(Object.keys(machine.facts)).toContain("load at start");
    expect([...new Set(rows.map(({ row }: { row: number }) => row))]).toEqual([1, 11]);
    for (const { ours, peer, medians } of rows) {
      expect(ours.length).toBeGreaterThan(0);
      expect(ours.every((figure: number) => figure > 0)).toBe(true);
      expect(peer.rounds).toHaveLength(ours.length);
      expect(medians.ours).toBeGreaterThan(0);
    }
    expect(rows[0].ours).toHaveLength(3);
    expect(stdout).toMatch(/^1 {2,}unfiltered walk/m);
  });
});
