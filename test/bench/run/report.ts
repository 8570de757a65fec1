import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Machine } from "./machine.ts";
import { type Goal, type Measurement, summarise } from "./measurement.ts";

const head = ["row", "work", "ours", "peer", "ratio", "goal", "met"];

/** The table as lines of text; lost comparisons stand in it like won ones. */
export function tableOf(measurements: readonly Measurement[]): string[] {
  const rows = measurements.map((measurement) => {
    const { ours, peer, ratio, met } = summarise(measurement);
    const { row, work, unit, goal, peer: other } = measurement;
    return [
      String(row),
      work,
      `${spell(ours)} ${unit}`,
      peer === undefined ? "-" : `${spell(peer)} ${unit} (${other?.name})`,
      ratio === undefined ? "-" : spell(ratio),
      goal ? spellGoal(goal, unit) : "-",
      met === undefined ? "-" : met ? "met" : "NOT MET",
    ];
  });
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((cells) => cells[column]!.length)));
  const padded = (cells: string[]) => cells.map((cell, column) => cell.padEnd(widths[column]!)).join("  ");
  const lines = all.map((cells) => padded(cells).trimEnd());
  const notes = measurements.flatMap(({ row, work, note }) => (note ? [`${row} ${work}: ${note}`] : []));
  return [lines[0]!, widths.map((width) => "-".repeat(width)).join("  "), ...lines.slice(1), "", ...notes];
}

function spellGoal({ of, at, limit }: Goal, unit: string): string {
  const sign = at === "least" ? ">=" : "<=";
  if (of === "ratio") return `ratio ${sign} ${limit}`;
  return `${of === "difference" ? "ours - peer " : ""}${sign} ${limit} ${unit}`;
}

/** Three digits that count, and no more. */
function spell(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

/** Facts that a reader needs to judge the figures. */
export function machineLines(machine: Machine): string[] {
  const lines = Object.entries(machine.facts).map(([name, fact]) => `${name}: ${fact}`);
  return machine.warning === undefined ? lines : [...lines, `WARNING: ${machine.warning}`];
}

/** Everything that was measured, for later comparison. */
export function jsonOf(machine: Machine, options: object, measurements: readonly Measurement[]): string {
  const rows = measurements.map((measurement) => {
    const { ours, peer, ratio, met } = summarise(measurement);
    return { ...measurement, medians: { ours, peer }, ratio, met };
  });
  return `${JSON.stringify({ machine, options, rows }, null, 1)}\n`;
}

/** Puts results in the place of those before, whole at any moment. */
export async function writeResults(path: string, json: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.new`, json);
  await rename(`${path}.new`, path);
}
