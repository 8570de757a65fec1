import { type FilterField, feedFields } from "../../schemas/filters.ts";
import { type Market, type MarketMember, marketIn } from "../../schemas/market.ts";
import { fitsIn, oneOf, type Shape, struct } from "../../schemas/shapes.ts";
import { feedVersions } from "../../schemas/versions.ts";
import { bufferOf, type Outline } from "../format/market-line.ts";

// A regular expression for the text of a market, made of the table of its members. It takes a fifth of the time of
// JSON.parse and the schema, and matches only texts that both accept. The caller judges other texts.

/** Each byte is read as one character. */
const plain = '[^"\\\\\\x00-\\x1f]*';
const string = `"${plain}(?:\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4})${plain})*"`;
const integer = "-?(?:0|[1-9][0-9]{0,14})";
const number = `${integer}(?:\\.[0-9]{1,15})?`;
/** Days of any year; 29 February is left to the schema. */
const day = "(?:0[1-9]|1[0-9]|2[0-8]|(?<!02-)(?:29|30)|(?<=(?:0[13578]|1[02])-)31)";
const time = `"[0-9]{4}-(?:0[1-9]|1[0-2])-${day}T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}\\.[0-9]{3}Z"`;
const nothing = "(?!)";

/** Items with commas between them, and what closes their list. */
const itemsPattern = (item: string, close: string) => `(?:${item}(?:,(?!${close})|(?=${close})))*${close}`;

/** Nothing is nested deeper. */
function anyPattern(depth: number): string {
  const leaf = `${string}|${number}|true|false|null`;
  if (depth === 0) return `(?:${leaf})`;
  const inner = anyPattern(depth - 1);
  return `(?:${leaf}|\\[${itemsPattern(inner, "\\]")}|\\{${itemsPattern(`${string}:${inner}`, "\\}")})`;
}

/** A value that is wanted, or that only a look at it can judge. */
interface Group {
  shape: MarketMember;
  /** The member or, within a dimension, its place and the member there. */
  path: readonly (string | number)[];
}

/** Letters, digits and classes of them, repeated or in groups: it never runs over the end of a text. */
const isPlain = ({ source, flags }: RegExp) =>
  flags === "" && /^\^?(?:[-\w:{}()|?]|\\\/|\[[-\w]+\])*\$?$/.test(source);

/** What comes any number of times has no `groups`: they would have only the last. */
function patternOf(shape: MarketMember, groups?: Group[], path: Group["path"] = []): string {
  const grouped = (pattern: string) => {
    if (!groups || (path.length > 1 && typeof path[0] === "string")) return nothing;
    groups.push({ shape, path });
    return `(${pattern})`;
  };
  switch (shape.kind) {
    case "text": {
      const { values, pattern = /^/, notEmpty, maxBytes, reserved } = shape;
      // The beginning of a text is the same as it is spelled, unless it is escaped, and then this does not match.
      const begins = pattern.source
        .replace(/\((?!\?)/g, "(?:")
        .replace(/^\^/, '"')
        .replace(/\$$/, '"');
      const text = `${notEmpty ? '(?!"")' : ""}(?=${begins})${values ? `"(?:${values.join("|")})"` : string}`;
      if (reserved || !isPlain(pattern) || values?.some((value) => !/^\w*$/.test(value))) return nothing;
      return maxBytes || shape.filter || ["id", "question"].includes(String(path)) ? grouped(text) : text;
    }
    case "integer":
      return grouped(integer);
    case "double":
      return shape.min === undefined ? number : grouped(number);
    case "boolean":
      return groups ? grouped("true|false") : "(?:true|false)";
    case "time":
      return groups ? grouped(time) : time;
    case "any":
      return anyPattern(2);
    case "struct": {
      const members = Object.entries(shape.members);
      const patterns = members.map(
        ([name, member]) => `"${name}":${patternOf(member, groups, [...path, name])}`,
      );
      return `\\{${patterns.join()}\\}`;
    }
    case "list": {
      const { of, each } = shape;
      if (!each || of.kind !== "struct") return `\\[${itemsPattern(patternOf(of), "\\]")}`;
      const items = each.values.map((value, place) => {
        const members = { ...of.members, [each.member]: oneOf([value]) };
        return patternOf(struct(members), groups, [place]);
      });
      return `\\[${items.join()}\\]`;
    }
  }
}

/** Undefined for one that is not of the shape. A time is in epoch milliseconds. */
function readValue(shape: Shape, json: string): string | number | boolean | undefined {
  if (shape.kind === "boolean") return json === "true";
  if (shape.kind === "time") return Date.parse(json.slice(1, -1));
  if (shape.kind === "integer" || shape.kind === "double") {
    const [value, { min = 0, max = 0 }] = [Number(json), shape];
    return value >= min && value <= max ? value : undefined;
  }
  // A slice would keep the whole line in memory.
  const text: string = JSON.parse(/[^ -~]/.test(json) ? String(Buffer.from(json, "latin1")) : json);
  return shape.kind === "text" && shape.maxBytes && !fitsIn(text, shape.maxBytes) ? undefined : text;
}

// Scores and labels come again and again, so this many of each member are remembered. Only somebody who wants to
// fill the memory sends a longer spelling.
const [mostRemembered, longestRemembered] = [4096, 512];

function remembering<Value>(read: (json: string) => Value | undefined): (json: string) => Value | undefined {
  const cache = new Map<string, Value>();
  return (json) => {
    const before = cache.get(json);
    if (before !== undefined) return before;
    const value = read(json);
    if (value === undefined || json.length > longestRemembered) return value;
    if (cache.size === mostRemembered) cache.clear();
    // A copy, since a part of a match keeps the whole text of its market in memory.
    cache.set(Buffer.from(json, "latin1").toString("latin1"), value);
    return value;
  };
}

/** Reads an outline off a market's text of a known version; undefined where the schema may refuse the text. */
function outlinerOf(version: string): (line: Uint8Array) => Outline | undefined {
  const groups: Group[] = [];
  const members = marketIn(version);
  const pattern = new RegExp(`^${patternOf(struct(members), groups)}$`);
  const readers = groups.map(({ shape, path: [first, second] }) => {
    if (shape.kind === "time" || first === "id" || first === "question")
      return { head: first, read: (json: string) => readValue(shape, json) };
    const key = typeof first === "number" ? members.dimensions.each.values[first] : undefined;
    const isOf = ({ field, member }: FilterField) =>
      key ? field === key && second === "score" : member === first;
    const row = feedFields(version).find(isOf);
    const read = (json: string) => {
      const value = readValue(shape, json);
      const market = key ? { dimensions: [{ key, score: value }] } : { [first!]: value };
      return row && value !== undefined ? row.of(market as Market) : value;
    };
    return { field: row?.field, read: remembering(read) };
  });
  return (line) => {
    const match = pattern.exec(bufferOf(line).toString("latin1"));
    if (!match) return undefined;
    const values: Record<string, unknown> = {};
    const outline: Record<string, unknown> = { id: "", question: "", resolvedAt: 0, values };
    for (let place = 0; place < readers.length; place += 1) {
      const { head, field, read } = readers[place]!;
      const value = read(match[place + 1]!);
      if (value === undefined) return undefined;
      if (field) values[field] = value;
      else if (head) outline[head] = value;
    }
    return outline as unknown as Outline;
  };
}

export const outliners: ReadonlyMap<string, ReturnType<typeof outlinerOf>> = new Map(
  feedVersions.map((version) => [version, outlinerOf(version)]),
);
