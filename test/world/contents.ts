import type { HistoricalMarket } from "../../schemas/records.ts";
import type { Sources } from "../../snapshots/sources/sources.ts";
import { segmentedMarkets, skipKnown } from "../helpers/publish/drawn-rows.ts";
import { inArchiveOrder, market, score, scoreRowsOf, sourcesOf } from "../helpers/publish/records.ts";

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
  const markets = inArchiveOrder(made);
  const scores = scoreRowsOf(slugs.map((slug) => score(slug, bri)));
  const sources = skipKnown({ ...sourcesOf(markets, bri), scores: async () => scores });
  return {
    name: `content ${name}`,
    markets,
    lines: markets.map((each) => JSON.stringify(each)),
    slugs,
    bri,
    sources: () => sources,
  };
}
