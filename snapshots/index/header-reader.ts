import { digestPattern, maxLabelBytes } from "../../schemas/shapes.ts";
import { cuts } from "../format/cuts.ts";
import { maxHeaderBytes, maxObjectBytes } from "../format/maxima.ts";
import { CorruptObjectError, FormatError } from "../store/errors.ts";
import { JsonValue, parseJson } from "../store/json.ts";
import { wordsFor } from "./bitmap.ts";
import { type ColumnHeader, columnsIn, fieldOf, frequentOf } from "./columns.ts";
import { epochsIn, maxTime, sliceCount, type TimeColumn } from "./number-columns.ts";

/** The version of the encoding of an index and its header. */
export const indexVersion = 1;

/** `unicode` is the version of Unicode that the words were made with. */
export interface WordsRef {
  unicode: string;
  hash: string;
  bytes: number;
}

/** The index header of a segment (snapshots/SPEC.md, "Index root"). */
export interface IndexHeader {
  /** The key of its object, for errors. */
  key: string;
  markets: number;
  /** The root of the tree over its pages, in hexadecimal. */
  root: string;
  epochs: TimeColumn["epochs"];
  /** Epoch milliseconds. */
  oldest: number;
  newest: number;
  columns: readonly ColumnHeader[];
  sections: Readonly<Record<string, readonly [bytes: number, root: string]>>;
  words: WordsRef;
}

/**
 * Sections must have the sizes that the markets and columns allow, so that nobody fetches more than that. Throws
 * CorruptObjectError, and FormatError when the header is of another version.
 */
export function parseIndexHeader(key: string, bytes: Uint8Array): IndexHeader {
  if (bytes.length > maxHeaderBytes)
    throw new CorruptObjectError(key, `it has ${bytes.length} bytes, more than ${maxHeaderBytes}`);
  const json = new JsonValue(key, parseJson(key, bytes));
  const version = json.member("version").integer();
  if (version !== indexVersion)
    throw new FormatError(
      key,
      `it is of version ${version}, which this program does not know: use a newer one`,
    );
  const markets = json.member("markets").integer(1, cuts.segmentMax);
  const oldest = json.member("oldest").integer(0, maxTime);
  const words = json.member("words");
  const header = {
    key,
    markets,
    root: digestIn(json.member("root")),
    epochs: epochsIn(json, markets),
    oldest,
    newest: json.member("newest").integer(oldest, maxTime),
    columns: columnsIn(json.member("columns")),
    sections: sectionsIn(json.member("sections")),
    words: {
      unicode: words.member("unicode").text(),
      hash: digestIn(words.member("hash")),
      bytes: words.member("bytes").integer(1, maxObjectBytes),
    },
  };
  for (const [name, isSize] of sizesOf(header)) {
    const [size] = header.sections[name] ?? [];
    if (size === undefined) throw new CorruptObjectError(key, `it has no section ${name}`);
    if (!isSize(size)) throw new CorruptObjectError(key, `its section ${name} cannot have ${size} bytes`);
  }
  return header;
}

function digestIn(json: JsonValue): string {
  const text = json.text();
  return digestPattern.test(text) ? text : json.refuse();
}

function sectionsIn(json: JsonValue): IndexHeader["sections"] {
  const sections = json.members().map(([name, member]) => [name, sectionIn(member)]);
  // Without a prototype, names such as `constructor` are not found.
  return Object.assign(Object.create(null), Object.fromEntries(sections));
}

function sectionIn(json: JsonValue): [bytes: number, root: string] {
  const [bytes, root, ...others] = json.items();
  if (!bytes || !root || others.length > 0) json.refuse();
  return [bytes.integer(0), digestIn(root)];
}

function* sizesOf({ markets, columns, sections }: IndexHeader) {
  const words = wordsFor(markets) * 4;
  const only = (size: number) => (bytes: number) => bytes === size;
  const pages = (sections.pageMarkets?.[0] ?? 0) / 2;
  yield ["pageMarkets", () => Number.isInteger(pages) && pages >= 1 && pages <= markets] as const;
  yield ["pageRoots", only(pages * 32)] as const;
  yield ["times", only(markets * 4)] as const;
  for (const column of columns) {
    const row = fieldOf(column);
    if (row?.kind === "integer") yield [row.field, only(words * sliceCount(row.max - row.min))] as const;
    if (row?.kind !== "label") continue;
    const codes = frequentOf(column).length;
    const [postings = 0] = sections[`${row.field}.postings`] ?? [];
    const places = postings / 2;
    // Code 0 exists only beside rare labels.
    const highest = places > 0 ? codes : Math.max(0, codes - 1);
    yield [`${row.field}.codes`, only(words * sliceCount(highest))] as const;
    yield [`${row.field}.postings`, (bytes: number) => bytes % 2 === 0 && bytes <= markets * 2] as const;
    yield [`${row.field}.starts`, only(wordsFor(places) * 4)] as const;
    // JSON takes at most six bytes for a byte of a label: \u0001.
    const most = 2 + places * (maxLabelBytes * 6 + 3);
    yield [`${row.field}.rare`, (bytes: number) => bytes >= 2 && bytes <= most] as const;
  }
}
