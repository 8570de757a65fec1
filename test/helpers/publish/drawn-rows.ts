import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { filterValuesOf } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { cuts } from "../../../snapshots/format/bytes.ts";
import { compareKeys, type MarketKey } from "../../../snapshots/format/market-line.ts";
import type { KeyRange, RenderedMarket, Sources } from "../../../snapshots/sources/sources.ts";
import { isIn, market, sourceFileOf, sourcesOf } from "./records.ts";

/** A market as tests of archives need it: its place, and what tells one content from another. */
export interface Row extends MarketKey {
  content: number;
}

const values = filterValuesOf(market(1));

/** The same sources, which find those rows that are known by their digests. */
export const skipKnown = (sources: Sources): Sources => ({
  ...sources,
  async *markets(known, range) {
    const ordinals = new Map<bigint, number>();
    for await (const { start, digests } of known?.digests ?? [])
      for (const [place, digest] of digests.entries()) ordinals.set(digest, start + place);
    for await (const rows of sources.markets(undefined, range))
      yield rows.filter(({ digest }) => {
        const ordinal = ordinals.get(digest);
        if (ordinal !== undefined) known!.kept[ordinal] = 1;
        return ordinal === undefined;
      });
  },
});

/** Sources of these rows; those that are known are found by their digests. */
export function sourcesOfRows(rows: readonly Row[]): Sources {
  return skipKnown({
    ...sourcesOf([], 700),
    files: [sourceFileOf(rows)],
    marketCount: rows.length,
    async *keys() {
      yield rows.toSorted(compareKeys).map(({ id, resolvedAt }) => ({ id, resolvedAt, file: 1 }));
    },
    async *markets(_, range: Partial<KeyRange> = {}) {
      yield rows.filter((row) => isIn(range, row)).map(rendered);
    },
  });
}

function rendered({ id, resolvedAt, content }: Row): RenderedMarket {
  const question = `Is "${content}" said of ${id.slice(-2)}?`;
  const told = { category: "x", composite: 500, tier: "CAST", content };
  const time = new Date(resolvedAt).toISOString();
  const line = Buffer.from(JSON.stringify({ id, question, ...told, resolvedAt: time, formulaVersion: "f" }));
  const digest = createHash("sha256").update(line).digest().readBigUInt64LE();
  return { id, resolvedAt, digest, line, values, file: 1 };
}

const endsPage = (id: string) => crc32(id) % cuts.pageModulus === 0;
export const endsSegment = (id: string) =>
  endsPage(id) && Math.floor(crc32(id) / cuts.pageModulus) % cuts.segmentModulus === 0;

/** Ids of one kind, each once; `from` keeps kinds apart. */
export function idsOf(count: number, from: number, wanted: (id: string) => boolean): string[] {
  const ids: string[] = [];
  for (let number = from; ids.length < count; number += 1) {
    const id = String(number).padStart(36, "0"); // as long as a UUID, which pages rely on
    if (wanted(id)) ids.push(id);
  }
  return ids;
}

const pool = [
  ...idsOf(900, 0, (id) => !endsPage(id)),
  ...idsOf(60, 1_000_000, (id) => endsPage(id) && !endsSegment(id)),
  ...idsOf(12, 2_000_000, endsSegment),
];

/** Markets `first` to `last` (exclusive), from the oldest; a segment ends after every 40th. */
export function segmentedMarkets(first: number, last: number): HistoricalMarket[] {
  return Array.from({ length: last - first }, (_, n) => {
    const index = first + n;
    if (index % 40 !== 39) return market(index);
    for (let number = index * 1e7; ; number += 1) {
      const id = `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
      if (endsSegment(id)) return { ...market(index), id };
    }
  });
}

/** Rows of the pool before and after some edits. Many are of few moments, so that ids decide the order. */
export function drawn({ seed, moments, share }: { seed: number; moments: number; share: number }) {
  const draw = (what: string, id: string, range: number) => crc32(`${seed} ${what} ${id}`) % range;
  const at = (what: string, id: string) => Date.UTC(2025, 0, 1, draw(what, id, moments));
  const taken = (id: string) => draw("taken", id, 100) < share;
  const first = pool.filter(taken).map((id) => ({ id, resolvedAt: at("first", id), content: 0 }));
  const second = pool.flatMap((id) => {
    const edit = draw("edit", id, 600);
    const resolvedAt = at(edit === 0 ? "second" : "first", id);
    if (edit === 1) return taken(id) ? [] : [{ id, resolvedAt, content: 0 }];
    return taken(id) ? [{ id, resolvedAt, content: edit === 2 ? 1 : 0 }] : [];
  });
  return { first, second };
}
