import { type FilterValues, feedFields, filterValuesOf } from "../../schemas/filters.ts";
import {
  dimensionKeysIn,
  type Market,
  market,
  marketDimensionKeys,
  marketIn,
  marketMembers,
} from "../../schemas/market.ts";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";

// A market's text is published JSON without spaces, with `id` first and the one member that holds others last. Quotes
// are escaped within texts, so the first `,"name":` is the member's. The order of members is not used, since a later
// version may put another between them. Parsing all of the text would take ten times as long.

const idStart = '{"id":"'.length;
const idEnd = idStart + 36;

export function idOfLine(line: Uint8Array): string {
  return bufferOf(line).toString("latin1", idStart, idEnd);
}

export function keyOfLine(line: Uint8Array): MarketKey {
  return { id: idOfLine(line), resolvedAt: Date.parse(textOf(line, "resolvedAt")) };
}

/** Throws SyntaxError when the market has no such text. */
export function textOf(line: Uint8Array, name: keyof Market): string {
  return JSON.parse(memberOfLine(line, name)?.toString("utf8") ?? "");
}

const marks = Object.fromEntries(marketMembers.map((name) => [name, Buffer.from(`,"${name}":`)])) as Record<
  keyof Market,
  Buffer
>;

/** Not for `id`. Undefined when the market has no such member. */
export function memberOfLine(bytes: Uint8Array, name: keyof Market): Buffer | undefined {
  const line = bufferOf(bytes);
  const mark = marks[name];
  const at = line.indexOf(mark);
  if (at < 0) return undefined;
  const start = at + mark.length;
  return line.subarray(start, endOfValue(line, start));
}

const [quote, backslash, comma, bracket, brace] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b];

function endOfValue(line: Buffer, start: number): number {
  const last = line.length - 1;
  if (line[start] === bracket || line[start] === brace) return last;
  if (line[start] !== quote) {
    const end = line.indexOf(comma, start);
    return end < 0 ? last : end;
  }
  let end = line.indexOf(quote, start + 1);
  while (isEscaped(line, end)) end = line.indexOf(quote, end + 1);
  return end < 0 ? last : end + 1;
}

/** Whether an odd number of backslashes stands before a quote. */
function isEscaped(line: Buffer, at: number): boolean {
  let before = at - 1;
  while (line[before] === backslash) before -= 1;
  return (at - before) % 2 === 0;
}

export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Reads off a market's text, as JSON, the members and dimensions that this version of the feed shares with another. */
export function sharedText(other: string): (line: Uint8Array) => string {
  const members = Object.keys(marketIn(other)).filter((name) => name in market) as (keyof Market)[];
  const own = new Set<string>(marketDimensionKeys);
  const keys = new Set<string>(dimensionKeysIn(other).filter((key) => own.has(key)));
  return (line) => {
    const { dimensions, ...values }: Market = JSON.parse(bufferOf(line).toString("utf8"));
    const shared = { ...values, dimensions: dimensions.filter(({ key }) => keys.has(key)) };
    return JSON.stringify(members.map((name) => shared[name]));
  };
}

/** Its order is that of the archive: by time, then by id. */
export interface MarketKey {
  /** Epoch milliseconds. */
  resolvedAt: number;
  id: string;
}

/** From oldest to newest, as ordinals count. The archive is served in the reverse order. */
export function compareKeys(a: MarketKey, b: MarketKey): number {
  if (a.resolvedAt !== b.resolvedAt) return a.resolvedAt - b.resolvedAt;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}

/** A market's JSON text, with what it says of itself. */
export interface MarketLine extends MarketKey {
  line: Buffer;
}

/** A line of the object with this key. Throws CorruptObjectError where it tells no time that an archive can have. */
export function marketOfLine(key: string, line: Buffer): MarketLine {
  const market = unlessSync(SyntaxError, () => ({ ...keyOfLine(line), line }));
  if (market && market.resolvedAt >= 0) return market;
  throw new CorruptObjectError(key, "it has a line that is not a market");
}

/** What the index of a segment is made from, for one market. */
export interface Outline extends MarketKey {
  question: string;
  values: FilterValues;
}

export const outlineOf = (market: Market, version: string): Outline => ({
  id: market.id,
  question: market.question,
  resolvedAt: Date.parse(market.resolvedAt),
  values: filterValuesOf(market, feedFields(version)),
});
