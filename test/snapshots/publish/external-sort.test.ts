import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import { compareKeys } from "../../../snapshots/format/market-line.ts";
import { ExternalSort } from "../../../snapshots/publish/external-sort.ts";
import type { RenderedMarket } from "../../../snapshots/sources/sources.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();

/** In no order; several share a time. */
const marketsOf = (count: number, bytes: number) =>
  Array.from({ length: count }, (_, place): RenderedMarket => {
    const number = (place * 7919) % count;
    const id = `${String(number).padStart(8, "0")}-0000-4000-8000-000000000000`;
    const line = Buffer.from(`{"id":"${id}","question":"${"é".repeat(bytes / 2)}"}`);
    const values = { outcome: `outcome ${number}` } as RenderedMarket["values"];
    return { id, resolvedAt: number >> 2, digest: BigInt(number), file: number, line, values };
  });

test.each([
  { name: "none", count: 0, bytes: 0, cuts: 0 },
  { name: "a few in one bucket", count: 100, bytes: 1000, cuts: 0 },
  { name: "as many as fill the buffers of several buckets", count: 12_000, bytes: 400, cuts: 7 },
  { name: "a few that are each larger than a buffer", count: 12, bytes: 300_000, cuts: 3 },
])("sorts markets by time and id, and leaves no file: $name", async ({ count, bytes, cuts }) => {
  const markets = marketsOf(count, bytes);
  const expected = markets.toSorted(compareKeys);
  const points = Array.from(
    { length: cuts },
    (_, cut) => expected[Math.floor(((cut + 1) * count) / (cuts + 1))]!,
  );
  const sort = await ExternalSort.create(folder, points);
  for (let first = 0; first < count; first += 256) sort.add(markets.slice(first, first + 256));
  const sorted: RenderedMarket[] = [];
  for await (const bucket of sort.sorted()) sorted.push(...bucket);
  expect(sorted.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
  expect(sorted.slice(0, 3)).toEqual(expected.slice(0, 3));
  await sort.close();
  expect(await readdir(folder)).toEqual([]);
});
