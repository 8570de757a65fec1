import { afterEach, expect, test, vi } from "vitest";
import { rangeBitmap } from "../../../snapshots/index/bitmap.ts";
import { buildLabelColumn, inLabels, loadLabels } from "../../../snapshots/index/columns.ts";
import { LabelTable } from "../../../snapshots/index/label-table.ts";
import { sliceKernel } from "../../../snapshots/index/slice-kernel.ts";

afterEach(() => vi.restoreAllMocks());

/** FNV-1a as everybody knows it. */
function fnv1a(text: string, start = 0x811c9dc5): number {
  let hash = start;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

/** Two texts of which the same hash follows. */
function pairBehind(start: number): [string, string] {
  const seen = new Map<number, string>();
  for (let n = 0; ; n += 1) {
    // Texts one after the other would take longer to meet.
    const text = (Math.imul(n, 0x9e3779b1) >>> 0).toString(36).padStart(7, "0");
    const hash = fnv1a(text, start);
    const other = seen.get(hash);
    if (other) return [other, text];
    seen.set(hash, text);
  }
}

test("labels of one hash do not make a table slow", () => {
  let labels = [""];
  let hash = fnv1a("");
  // Each of them looked up among all others would take two billion steps.
  for (let pairs = 0; pairs < 16; pairs += 1) {
    const pair = pairBehind(hash);
    labels = labels.flatMap((label) => pair.map((more) => label + more));
    hash = fnv1a(pair[0], hash);
  }
  expect(new Set(labels.slice(0, 1000).map((label) => fnv1a(label)))).toEqual(new Set([hash]));
  const table = new LabelTable();
  for (const label of labels) table.intern(label);
  expect(table.size).toBe(2 ** 16);
  expect(table.find(labels[7_777]!)).toBe(7_777);
});

test("labels of any length and letters come back as they were", () => {
  const labels = ["", "é".repeat(600), "x".repeat(5_000), "漢".repeat(9_000), "y".repeat(1_000_000), "z"];
  const table = new LabelTable();
  expect(labels.map((label) => table.intern(label))).toEqual([0, 1, 2, 3, 4, 5]);
  expect(labels.map((_, id) => table.label(id))).toEqual(labels);
  expect(labels.map((label) => table.find(label))).toEqual([0, 1, 2, 3, 4, 5]);
  expect(table.find("漢".repeat(9_001))).toBeUndefined();
});

test("labels that differ in letter case alone are found together, in one pass", () => {
  const spell = (n: number) =>
    Array.from("abcdefghijkl", (letter, bit) => ((n >>> bit) & 1 ? letter.toUpperCase() : letter)).join("");
  const values = Array.from({ length: 4096 }, (_, n) => (n % 3 ? spell(n) : `other ${n % 9}`));
  const table = new LabelTable(true);
  const column = loadLabels(buildLabelColumn(values), values.length, table);
  const look = vi.spyOn(Uint32Array.prototype, "indexOf");
  const condition = inLabels(column, new Set(table.matching("ABCDEFGHIJKL")))!;
  expect(look).not.toHaveBeenCalled();
  const { bits } = sliceKernel.select(values.length, 0, values.length, [condition]);
  const expected = rangeBitmap(values.length, 0, 0);
  for (let n = 0; n < values.length; n += 1) if (n % 3) expected[n >>> 5]! |= 1 << (n & 31);
  expect(bits).toEqual(expected);
});
