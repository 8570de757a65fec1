import { Fault } from "../../../schemas/errors.ts";
import { listNames, parameterNames, retiredFields, timePattern } from "../../../schemas/filters.ts";
import { csv, ndjson } from "../../../schemas/media.ts";
import { integerOf } from "../../../schemas/shapes.ts";

export const invalidParameter = (parameter: string, message: string) =>
  new Fault("INVALID_PARAMETER", message, { parameter });

/** A query, decoded: values by name, each name known and given once. */
export type Parameters = ReadonlyMap<string, string>;

/**
 * Reads the raw query text of a request target, strictly: every name known, given once, not empty, decodable. Names and
 * values come back decoded. Throws INVALID_PARAMETER. `search` is what follows the `?`, or "".
 */
export function readParameters(search: string, known: readonly string[]): Map<string, string> {
  const parameters = new Map<string, string>();
  if (search === "") return parameters;
  for (const pair of search.split("&")) {
    const [name, value] = decodePair(pair);
    if (!known.includes(name)) throw invalidParameter(name, unknownParameter(name, known));
    if (parameters.has(name)) {
      const way = listNames.has(name) ? "give it once, its values separated by commas" : "give it once";
      throw invalidParameter(name, `${name} is given more than once; ${way}.`);
    }
    if (value === "") throw invalidParameter(name, `${name} is empty; give it a value or leave it out.`);
    parameters.set(name, value);
  }
  return parameters;
}

function decodePair(pair: string): [string, string] {
  const cut = pair.indexOf("=");
  const rawName = cut < 0 ? pair : pair.slice(0, cut);
  const rawValue = cut < 0 ? "" : pair.slice(cut + 1);
  const decode = (text: string, what: string) => {
    // A cursor is long, and has nothing to decode.
    if (!/[%+]/.test(text)) return text;
    try {
      return decodeURIComponent(text.replaceAll("+", " "));
    } catch {
      throw invalidParameter(what, "A name or value of the query is not valid percent-encoded UTF-8.");
    }
  };
  const name = decode(rawName, "query");
  return [name, decode(rawValue, name)];
}

function unknownParameter(name: string, known: readonly string[]): string {
  const hint = hintFor(name, known);
  const more = hint === undefined ? retiredOr(name, known) : ` ${hint}`;
  if (known.length === 0) return `${shown(name)} is not a parameter here; this address takes none.${more}`;
  return `${shown(name)} is not a parameter here.${more} Known: ${known.join(", ")}.`;
}

/** Quotes the beginning of what was sent. */
const shown = (text: string) => JSON.stringify(text.slice(0, 60));

const retiredNames = new Set(retiredFields.flatMap((row) => [row.field, ...parameterNames(row)]));

/** A sentence to append about a name that may once have been of a filter, or "". */
const retiredOr = (name: string, known: readonly string[]): string =>
  retiredNames.has(name) ? " There was such a filter, and it was taken away." : didYouMean(name, known);

/** A question to append, or "". */
export function didYouMean(text: string, known: readonly string[]): string {
  const meant = nearest(text, known);
  return meant === undefined ? "" : ` Did you mean ${meant}?`;
}

/** The positions in `names` of a list that is separated by commas. */
export function listOf(parameter: string, text: string, names: readonly string[]): number[] {
  const positions = text.split(",").map((name) => positionOf(parameter, name, names));
  const twice = positions.find((position, place) => positions.indexOf(position) !== place);
  if (twice === undefined) return positions;
  throw invalidParameter(parameter, `${parameter} names ${names[twice]} more than once; once is enough.`);
}

export function positionOf(parameter: string, name: string, names: readonly string[]): number {
  const position = names.indexOf(name);
  if (position >= 0) return position;
  const more = retiredOr(name, names);
  throw invalidParameter(
    parameter,
    `${parameter} must be one of ${names.join(", ")}, not ${shown(name)}.${more}`,
  );
}

/** Undefined when the parameter was left out. */
export function optionalInteger(parameters: Parameters, name: string, min: number, max: number) {
  const text = parameters.get(name);
  if (text === undefined) return undefined;
  const value = integerOf(text, min, max);
  if (value === undefined) throw invalidParameter(name, `${name} must be an integer from ${min} to ${max}.`);
  return value;
}

export const dayMilliseconds = 86_400_000;

/**
 * Epoch milliseconds. `dateOnlyAddition` is added to a day without a time. `orElse` says what else the parameter takes.
 */
export function timeOf(name: string, text: string, dateOnlyAddition: number, orElse = ""): number {
  const groups = timePattern.exec(text)?.groups;
  if (!groups) {
    throw invalidParameter(
      name,
      `${name} must be ${orElse}a real day YYYY-MM-DD, or YYYY-MM-DDThh:mm:ss[.sss] with Z or ±hh:mm ` +
        "(write + as %2B).",
    );
  }
  if (!groups.clock) return Date.parse(`${groups.date}T00:00:00.000Z`) + dateOnlyAddition;
  const fraction = (groups.fraction ?? ".").padEnd(4, "0");
  return Date.parse(`${groups.date}T${groups.clock}${fraction}${groups.zone}`);
}

/** Longer texts are never near misses. */
const maxLength = 60;
/**
 * More typing errors make another word. A low bound also ends most comparisons early, even among thousands of slugs.
 */
const maxErrors = 5;

/**
 * The candidate that was probably meant, in any letter case. Allows one typing error in three characters, at least one.
 * Undefined when none is that near.
 */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  if (text.length > maxLength) return undefined;
  const typed = text.toLowerCase();
  let most = Math.min(maxErrors, Math.max(1, Math.floor(text.length / 3)));
  let best: string | undefined;
  for (const candidate of candidates) {
    const errors = typingErrors(typed, candidate.toLowerCase(), most);
    if (errors <= most) [best, most] = [candidate, errors - 1];
  }
  return best;
}

/**
 * How many characters have to be inserted, left out, replaced or swapped with their neighbour to turn one text into the
 * other (optimal string alignment: no character is touched twice). Infinity when they are more than `most`.
 */
export function typingErrors(from: string, to: string, most = Number.POSITIVE_INFINITY): number {
  if (Math.abs(from.length - to.length) > most) return Number.POSITIVE_INFINITY;
  let [beforeLast, last]: number[][] = [[], Array.from({ length: to.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    let least = row;
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = last![column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1);
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current[column] = Math.min(
        replaced,
        last![column]! + 1,
        current[column - 1]! + 1,
        swapped && row > 1 && column > 1 ? beforeLast![column - 2]! + 1 : replaced,
      );
      least = Math.min(least, current[column]!);
    }
    // No later row has less.
    if (least > most) return Number.POSITIVE_INFINITY;
    [beforeLast, last] = [last!, current];
  }
  const errors = last![to.length]!;
  return errors > most ? Number.POSITIVE_INFINITY : errors;
}

/** Parameters that other services have, and what replaces them here. */
interface Hint {
  /** In lower case, without hyphens and underscores. */
  names: readonly string[];
  /** The hint is only for addresses that have this parameter. Without it, it is for all. */
  where?: string;
  hint: string;
}

const hints: readonly Hint[] = [
  {
    names: ["apikey", "xapikey", "key", "token", "accesstoken"],
    hint: "A key goes into a header, Authorization: Bearer KEY or x-api-key: KEY; addresses are logged on their way.",
  },
  {
    names: ["format", "output"],
    where: "pageSize",
    hint: `The header Accept chooses the form: application/json, ${ndjson} or ${csv}.`,
  },
  { names: ["offset", "start"], where: "page", hint: "page chooses a page, and cursor walks on from one." },
  { names: ["limit", "size", "count", "perpage"], where: "pageSize", hint: "pageSize sets how many come." },
  { names: ["pagesize", "size", "count", "perpage"], where: "limit", hint: "limit sets how many come." },
];

/** `known` are the parameters of the address. Undefined when there is no hint. */
function hintFor(name: string, known: readonly string[]): string | undefined {
  const plain = name.toLowerCase().replace(/[-_]/g, "");
  const fits = ({ names, where }: Hint) => names.includes(plain) && (!where || known.includes(where));
  return hints.find(fits)?.hint;
}
