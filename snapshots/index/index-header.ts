import { type FilterField, type FilterValues, filterFields } from "../../schemas/filters.ts";
import { isKnownFeed } from "../../schemas/versions.ts";
import { bytesOf, chunkBytes, chunksOf, textOf } from "../format/bytes.ts";
import { type Digest, hexOf, leafHash, rootOf, rootOver, type Subtree } from "../format/tree.ts";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";
import { JsonValue, parseJson } from "../store/json.ts";
import { buildIntegerColumn, buildLabelColumn, buildTimeColumn, type TimeColumn } from "./columns.ts";
import {
  columnsIn,
  fieldsIn,
  foreignIn,
  holds,
  indexVersion,
  type KnownColumn,
  type WordsRef,
} from "./index-reader.ts";
import type { SectionData } from "./sections.ts";

// The index root covers what follows from a segment's markets, not how it is stored (snapshots/SPEC.md, "Index root").

/** The header's content, with the sections that it covers in its order. */
export interface BuiltIndex {
  markets: number;
  /** The root of the tree over its pages, in hexadecimal. */
  root: string;
  times: TimeColumn;
  columns: readonly KnownColumn[];
  sections: ReadonlyMap<string, Uint8Array>;
}

export interface IndexRow {
  /** Epoch milliseconds. */
  resolvedAt: number;
  values: FilterValues;
}

/** What the index has of a segment's markets, by ordinal. */
export interface IndexColumns {
  /** Epoch milliseconds. */
  times: readonly number[];
  values<Name extends keyof FilterValues>(name: Name): ArrayLike<FilterValues[Name]>;
}

export const columnsOf = (rows: readonly IndexRow[]): IndexColumns => ({
  times: rows.map(({ resolvedAt }) => resolvedAt),
  values: (name) => rows.map(({ values }) => values[name]),
});

/** Pages and markets come oldest first. Throws RangeError when a value is outside the range of its field. */
export function buildIndex(
  pages: readonly Subtree[],
  index: IndexColumns,
  fields: readonly FilterField[] = filterFields,
): BuiltIndex {
  const sections = new Map<string, Uint8Array>();
  const add = (name: string, data: SectionData) =>
    sections.set(name, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  const times = buildTimeColumn(index.times);
  add(
    "pageMarkets",
    Uint16Array.from(pages, ({ markets }) => markets),
  );
  add("pageRoots", Buffer.from(pages.map(({ root }) => root).join(""), "hex"));
  add("times", times.low);
  const columns = fields.map((row): KnownColumn => {
    const name = row.field;
    if (row.kind === "integer") {
      const { min, max } = row;
      add(name, buildIntegerColumn(index.values(row.field), min, max).slices);
      return { name, kind: "integer", min, max };
    }
    const column = buildLabelColumn(index.values(row.field));
    add(`${name}.codes`, column.codes.slices);
    add(`${name}.postings`, column.postings);
    add(`${name}.starts`, column.starts);
    add(`${name}.rare`, Buffer.from(JSON.stringify(column.rare)));
    return { name, kind: "label", frequent: column.frequent };
  });
  const root = rootOver("segment", pages).toString("hex");
  return { markets: index.times.length, root, times, columns, sections };
}

/** The leaves of the tree over a section, or over ids with chunks of their size. */
export const chunkLeaves = (section: Uint8Array, size: number = chunkBytes.section): Digest[] =>
  chunksOf(section, size).map((chunk) => leafHash(chunk));

/** Hexadecimal. */
export const sectionRootOf = (section: Uint8Array, size?: number): string =>
  hexOf(rootOf("section", section.length, chunkLeaves(section, size)));

/** The canonical header, whose SHA-256 the index root covers. */
export function indexHeader(index: BuiltIndex, words: WordsRef): Uint8Array {
  const { markets, root, times, columns } = index;
  const sections = Array.from(index.sections, ([name, section]) => {
    return [name, [section.length, sectionRootOf(section)]] as const;
  });
  const header = {
    version: indexVersion,
    markets,
    root,
    epochs: times.epochs,
    oldest: times.oldest,
    newest: times.newest,
    columns,
    sections: Object.fromEntries(sections),
    words: { unicode: words.unicode, hash: words.hash, bytes: words.bytes },
  };
  return bytesOf(JSON.stringify(header));
}

/** Whether this version can read the sections that an index header tells of. */
export const isKnownIndex = (key: string, header: Uint8Array): boolean =>
  new JsonValue(key, parseJson(key, header)).member("version").integer() === indexVersion;

export const isSame = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Nothing but the spelling is checked. */
export function openHeader(key: string, header: Uint8Array): JsonValue {
  const value = parseJson(key, header);
  // Readers could disagree on a member that comes twice. JSON.stringify throws RangeError where it is nested too deep.
  if (unlessSync(RangeError, () => JSON.stringify(value)) !== textOf(header))
    throw new CorruptObjectError(key, "its index header is not in the spelling of the format");
  return new JsonValue(key, value);
}

/** What was found of an index header: what is wrong, and what was not judged; all else is right. */
export interface HeaderCheck {
  wrong: string[];
  /** What this version cannot compute: the whole header of another version, or columns that it does not know. */
  unchecked: "version" | "columns" | undefined;
}

/** The fields of which a market has a value that they cannot hold. */
export const fieldsBeyond = (fields: readonly FilterField[], rows: readonly IndexRow[]): FilterField[] =>
  fields.filter((row) => rows.some(({ values }) => !holds(row, values[row.field])));

/** What the index of a segment is made from. */
interface IndexSource {
  pages: readonly Subtree[];
  rows: readonly IndexRow[];
  words: WordsRef;
}

/**
 * Judges the index header of a segment by its markets, for verify and sync. Of a later version of the feed, columns are
 * not judged where a market has a value that this one does not know.
 */
export function judgeHeader(key: string, header: Uint8Array, source: IndexSource, feed: string): HeaderCheck {
  if (!isKnownIndex(key, header)) return { wrong: [], unchecked: "version" };
  const json = openHeader(key, header);
  const columns = columnsIn(json.member("columns"));
  const fields = fieldsIn(columns);
  const unknown = fieldsBeyond(fields, source.rows);
  const judged = fields.filter((row) => !unknown.includes(row));
  const own = indexHeader(buildIndex(source.pages, columnsOf(source.rows), judged), source.words);
  const [stored, right] = [partsOf(json), partsOf(openHeader(key, own))];
  const wrong = [...right].flatMap(([name, value]) => (isSame(stored.get(name), value) ? [] : name));
  const others = [...stored.keys()].filter((name) => !right.has(name) && /^(?:column|section) /.test(name));
  if (isKnownFeed(feed)) {
    const foreign = foreignIn(columns).map((name) => `column ${name}`);
    wrong.push(...others.filter((name) => name.startsWith("column ") && !foreign.includes(name)));
  }
  const more = others.length > 0;
  if (wrong.length === 0 && !more && textOf(own) !== textOf(header)) wrong.push("order of its members");
  return { wrong, unchecked: more ? "columns" : undefined };
}

/** The members of a header by their names, and its columns and sections by theirs. */
function partsOf(header: JsonValue): Map<string, unknown> {
  const columns = header.member("columns").items();
  const sections = header.member("sections").members();
  // Beside these a header has no member whose name looks like that of a column or a section.
  const others = header
    .members()
    .filter(([name]) => !/^(?:columns|sections|(?:column|section) .*)$/s.test(name));
  return new Map([
    ...others.map(([name, { value }]): [string, unknown] => [name, value]),
    ...columns.map((column): [string, unknown] => [`column ${column.member("name").text()}`, column.value]),
    ...sections.map(([name, { value }]): [string, unknown] => [`section ${name}`, value]),
  ]);
}
