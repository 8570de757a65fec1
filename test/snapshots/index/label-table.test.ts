import { expect, test } from "vitest";
import { LabelTable, retained } from "../../../snapshots/index/label-table.ts";

test("a table finds labels in any letter case when it is told to, also after it has forgotten some", () => {
  let table = new LabelTable(true);
  const labels = [
    "Crypto",
    "CRYPTO",
    "crypto ",
    "Straße",
    "STRASSE",
    ...Array.from({ length: 200 }, (_, n) => `x${n}`),
  ];
  const ids = Uint32Array.from(labels, (label) => table.intern(label));
  const found = (value: string) => table.matching(value).map((id) => table.label(id));
  const check = () => {
    expect(found("cRYPTO")).toEqual(["Crypto", "CRYPTO"]);
    expect(found("STRAßE")).toEqual(["Straße"]);
    expect(found("nothing")).toEqual([]);
  };
  check();
  expect(found("X199")).toEqual(["x199"]);
  table = retained(table, [ids.slice(0, 5)]);
  check();
  expect(found("X199")).toEqual([]);
  expect(table.residentBytes).toBeGreaterThan(new LabelTable().residentBytes);

  const exact = new LabelTable();
  exact.intern("Crypto");
  expect([exact.matching("Crypto"), exact.matching("crypto")]).toEqual([[0], []]);
});

test("a table forgets labels that no row has now, and renumbers the others in place", () => {
  let table = new LabelTable();
  const label = (n: number) => `label ${n}`;
  const all = Uint32Array.from({ length: 5000 }, (_, n) => table.intern(label(n)));
  const live = [all.slice(10, 20), all.slice(15, 30)];
  // Whoever keeps ids can tell.
  expect(retained(table, [all])).toBe(table);
  expect(table.size).toBe(5000);
  table = retained(table, live);
  expect(table.size).toBe(20);
  expect(live.map((ids) => [...ids].map((id) => table.label(id)))).toEqual([
    Array.from({ length: 10 }, (_, n) => label(n + 10)),
    Array.from({ length: 15 }, (_, n) => label(n + 15)),
  ]);
  expect(table.find(label(9))).toBeUndefined();
  expect(table.find(label(29))).toBe(live[1]![14]);
});

test("labels of any length and letters come back as they were", () => {
  const long = ["é".repeat(600), "x".repeat(5_000), "漢".repeat(9_000), "y".repeat(1_000_000)];
  const labels = ["", ...long, "\x7f", "\x80", "\ud800"];
  const table = new LabelTable();
  const ids = [...labels.keys()];
  for (let time = 0; time < 2; time += 1) expect(labels.map((label) => table.intern(label))).toEqual(ids);
  // Lone surrogates become U+FFFD in UTF-8, in the table as in every response.
  expect(ids.map((id) => table.label(id))).toEqual(labels.map((label) => label.toWellFormed()));
  expect(labels.map((label) => table.find(label))).toEqual(ids);
  expect(table.size).toBe(labels.length);
  expect(table.find("漢".repeat(9_001))).toBeUndefined();
});
