import { createHash } from "node:crypto";
import { filterValuesOf } from "../../schemas/filters.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { compareKeys } from "../../snapshots/format/market-line.ts";
import type { RenderedMarket, Sources } from "../../snapshots/sources/sources.ts";
import { segmentedMarkets } from "../helpers/publish/drawn-rows.ts";
import { market, score, scoreRowsOf, sourceFileOf } from "../helpers/publish/records.ts";

/** One state of the sources: its markets, newest first, and what a run reads. */
export interface Content {
  name: string;
  markets: readonly HistoricalMarket[];
  lines: readonly string[];
  slugs: readonly string[];
  /** Of each of its protocols. */
  bri: number;
  sources: () => Sources;
}

/** A page has 32 markets at least: after so many begins another one, and another segment. */
const older = 33;
/** Its id ends a segment. */
const cut = segmentedMarkets(39, 40)[0]!.id;

function marketOf(place: number, version: number): HistoricalMarket {
  const made = market(place);
  const id = place === older - 1 ? cut : made.id;
  const dimensions = made.dimensions.map((each) => ({ ...each, description: "", score: (place * 7) % 101 }));
  return { ...made, id, dimensions, composite: 300 + ((place * 37 + version * 101) % 701) };
}

/** Which markets a content lacks, and which of them are of another version. */
interface Edits {
  without: readonly number[];
  changed: readonly number[];
  slugs: readonly string[];
  bri: number;
}

const edits: readonly Edits[] = [
  { without: [], changed: [], slugs: ["aave", "curve.fi"], bri: 700 },
  { without: [38], changed: [37], slugs: ["aave", "curve.fi"], bri: 700 },
  { without: [36, 37, 38], changed: [], slugs: ["aave"], bri: 650 },
  { without: [], changed: [3, 35], slugs: ["aave", "curve.fi"], bri: 610 },
  { without: [0, 34], changed: [33], slugs: ["aave", "constructor"], bri: 700 },
  { without: [35], changed: [34, 36, 38], slugs: ["curve.fi"], bri: 690 },
];

/** What publishers of a world publish: so few contents that an earlier one often comes back. */
export type Contents = readonly Content[];
/** Archives of one page, which cost little. */
export const small: Contents = edits.map((each, name) => contentOf(each, name, 32));
/** Archives of two pages, each a segment of its own, of which most runs change one. */
export const large: Contents = edits.map((each, name) => contentOf(each, name, 0));

function contentOf({ without, changed, slugs, bri }: Edits, name: number, from: number): Content {
  const places = Array.from({ length: older + 6 - from }, (_, place) => from + place);
  const made = places
    .filter((place) => !without.includes(place))
    .map((place) => marketOf(place, changed.includes(place) ? 1 : 0));
  const rendered = made.map((each): RenderedMarket => {
    const line = Buffer.from(JSON.stringify(each));
    const digest = createHash("sha256").update(line).digest().readBigUInt64LE();
    const { id, resolvedAt } = each;
    return { id, resolvedAt: Date.parse(resolvedAt), digest, file: 1, line, values: filterValuesOf(each) };
  });
  rendered.sort((a, b) => compareKeys(b, a));
  const lines = rendered.map(({ line }) => String(line));
  const files = [sourceFileOf(made)];
  const scores = scoreRowsOf(slugs.map((slug) => score(slug, bri)));
  const sources = (): Sources => ({
    files,
    scoreFiles: [],
    marketCount: made.length,
    warnings: [],
    rowDigests: "world",
    cutPoints: async () => [],
    async *keys() {},
    async *markets(known) {
      const ordinals = new Map<bigint, number>();
      for await (const { start, digests } of known?.digests ?? [])
        for (const [place, digest] of digests.entries()) ordinals.set(digest, start + place);
      yield rendered.filter(({ digest }) => {
        const ordinal = ordinals.get(digest);
        if (ordinal !== undefined) known!.kept[ordinal] = 1;
        return ordinal === undefined;
      });
    },
    scores: async () => scores,
    async close() {},
  });
  return {
    name: `content ${name}`,
    markets: lines.map((line) => JSON.parse(line)),
    lines,
    slugs,
    bri,
    sources,
  };
}
