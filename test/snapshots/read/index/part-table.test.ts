import { expect, test } from "vitest";
import { type Part, PartTable } from "../../../../snapshots/read/index/index-parts.ts";

const hashOf = (first: number, rest: number) =>
  Buffer.concat([Buffer.alloc(4, first), Buffer.alloc(28, rest)]);

test("a table finds parts by their whole hashes, also where these begin alike", () => {
  const hashes = [hashOf(1, 1), hashOf(2, 1), hashOf(1, 2), hashOf(1, 3)] as const;
  const sources = ["segment", "ids", "words", "page"] as const;
  const parts = sources.map((source, n): Part => ({ source, offset: 10 * n, bytes: 100 + n }));
  // Some come in hexadecimal.
  const table = new PartTable(hashes.map((hash, n) => [n === 2 ? hash.toString("hex") : hash, parts[n]!]));
  expect(hashes.map((hash) => table.find(hash))).toEqual(parts);
  for (const none of [hashOf(1, 4), hashOf(3, 1), hashOf(2, 2)]) expect(table.find(none)).toBeUndefined();
  expect(table.bytes).toBe(4 * (32 + 4 + 3 * 4));
  expect(new PartTable([]).find(hashOf(0, 0))).toBeUndefined();
});
