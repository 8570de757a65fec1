import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faults } from "./faults.ts";

/** Runs worlds in a process of their own: they take over time, chance and threads of Node. */
function run(...options: string[]) {
  const args = ["--import", "./scripts/installed.js", "test/world/run.ts", ...options];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return { status, told: stdout + stderr };
}

const { SEED } = process.env;

test("none of sixty worlds breaks a rule, or of as many as a minute allows", () => {
  // Always the same ones: what makes one of them fail is a change. Every night plays others.
  const options = SEED ? ["--seed", SEED] : ["--count", "60", "--seconds", "60"];
  const { status, told } = run(...options);
  console.info(told);
  expect(status, told).toBe(0);
});

test("the same seed is the same world to the last operation", () => {
  const [first, second] = [run("--seed", "20"), run("--seed", "20")];
  expect(first.told.split("\n").length).toBeGreaterThan(100);
  expect(second.told).toBe(first.told);
});

test.each(faults)("there is a place to plant: $name", ({ file, text }) => {
  const whole = readFileSync(join(import.meta.dirname, "../..", file), "utf8");
  expect(whole.split(text)).toHaveLength(2);
});
