import type { ExportFile } from "../../../schemas/store/stored-objects.ts";
import { exportedColumns } from "../../export/export-records.ts";

/** What a reader says of the rows that it wants. Hints only spare it files, so unreadable ones are ignored. */
export interface Hints {
  /** Conditions in SQL, all of which hold for the rows that are wanted. */
  predicateHints?: readonly string[] | undefined;
  /** One condition, as JSON text. */
  jsonPredicateHints?: string | undefined;
  limitHint?: number | undefined;
}

/** Leaves out files that cannot hold wanted rows. A limit counts only without conditions. */
export function prunedFiles(files: readonly ExportFile[], hints: Hints): readonly ExportFile[] {
  const { predicateHints = [], jsonPredicateHints, limitHint } = hints;
  const conditions = predicateHints.map(readSql);
  if (jsonPredicateHints !== undefined) conditions.push(readJson(jsonPredicateHints));
  const valid = conditions.filter((condition) => condition !== undefined);
  if (valid.length > 0) return files.filter((file) => valid.every((condition) => condition(file).holds));
  if (limitHint === undefined || conditions.length > 0) return files;
  let rows = 0;
  return files.filter((file) => {
    const wanted = rows < limitHint;
    rows += file.rows;
    return wanted;
  });
}

/** Whether a condition holds for some row of a file, and whether it is false for some. Null is neither. */
interface Outcome {
  holds: boolean;
  fails: boolean;
}
type Condition = (file: ExportFile) => Outcome;

const either: Outcome = { holds: true, fails: true };
const unknown: Condition = () => either;
const kinds = new Map(exportedColumns.map(({ name, shape }) => [name, shape.kind]));

const not =
  (condition: Condition): Condition =>
  (file) => {
    const { holds, fails } = condition(file);
    return { holds: fails, fails: holds };
  };

const all =
  (conditions: readonly Condition[]): Condition =>
  (file) => {
    const outcomes = conditions.map((condition) => condition(file));
    return { holds: outcomes.every(({ holds }) => holds), fails: outcomes.some(({ fails }) => fails) };
  };

const any = (conditions: readonly Condition[]): Condition => not(all(conditions.map(not)));

function isNull(column: string): Condition {
  if (!kinds.has(column)) return unknown;
  return ({ rows, stats }) => {
    const nulls = stats?.nullCount[column];
    return nulls === undefined ? either : { holds: nulls > 0, fails: nulls < rows };
  };
}

/** The least and the greatest value of a column, each compared with the literal, decide the outcome. */
const comparisons: Record<string, (least: number, greatest: number) => Outcome> = {
  equal: (least, greatest) => ({
    holds: least <= 0 && greatest >= 0,
    fails: least !== 0 || greatest !== 0,
  }),
  lessThan: (least, greatest) => ({ holds: least < 0, fails: greatest >= 0 }),
  lessThanOrEqual: (least, greatest) => ({ holds: least <= 0, fails: greatest > 0 }),
  greaterThan: (least, greatest) => ({ holds: greatest > 0, fails: least <= 0 }),
  greaterThanOrEqual: (least, greatest) => ({ holds: greatest >= 0, fails: least < 0 }),
};

/** `reversed`: the literal stands first. */
function compared(op: string, column: string, literal: string | number, reversed: boolean): Condition {
  const value = comparableOf(column, literal);
  if (value === undefined) return unknown;
  return ({ rows, stats }) => {
    if (!stats) return either;
    if (stats.nullCount[column] === rows) return { holds: false, fails: false };
    const [least, greatest] = [stats.minValues[column], stats.maxValues[column]];
    if (least === undefined || greatest === undefined) return either;
    const [low, high] = [order(least, value), order(greatest, value)];
    return reversed ? comparisons[op]!(-high, -low) : comparisons[op]!(low, high);
  };
}

/** A literal in the form of a column's statistics; undefined where the two cannot be compared. */
function comparableOf(column: string, literal: string | number): string | number | undefined {
  const kind = kinds.get(column);
  if (kind === "text") return typeof literal === "string" ? literal : undefined;
  if (kind === "integer" || kind === "double") {
    return /^-?\d{1,15}(\.\d{1,9})?$/.test(String(literal)) ? Number(literal) : undefined;
  }
  if (kind !== "time" || typeof literal !== "string" || !/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(literal))
    return undefined;
  const time = new Date(literal);
  // A time finer than those of markets would be rounded.
  const coarse = !/\.\d{4}/.test(literal) && !Number.isNaN(time.getTime());
  return coarse ? time.toISOString() : undefined;
}

/** Texts are in the order of their UTF-8 bytes. */
function order(a: string | number, b: string | number): number {
  if (typeof a === "string" && typeof b === "string") return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return Number(a) - Number(b);
}

/** The JSON of the protocol's predicates; its members are checked as they are read. */
interface Node {
  op?: unknown;
  name?: unknown;
  value?: unknown;
  valueType?: unknown;
  children?: unknown;
}

function readJson(text: string): Condition | undefined {
  try {
    return readNode(JSON.parse(text));
  } catch {
    return undefined;
  }
}

// Far more than readers nest. Conditions are evaluated by recursion, which must not exhaust the stack.
const maxDepth = 100;

function readNode(node: Node, depth = 0): Condition {
  if (depth > maxDepth) return unknown;
  const children: Node[] = Array.isArray(node.children) ? node.children : [];
  const read = (child: Node) => readNode(child, depth + 1);
  const [first, second] = children;
  switch (node.op) {
    case "and":
      return children.length > 0 ? all(children.map(read)) : unknown;
    case "or":
      return children.length > 0 ? any(children.map(read)) : unknown;
    case "not":
      return first ? not(read(first)) : unknown;
    case "isNull":
      return first?.op === "column" ? isNull(columnNamed(first.name)) : unknown;
  }
  const op = String(node.op);
  if (!Object.hasOwn(comparisons, op) || !first || !second) return unknown;
  const reversed = first.op === "literal";
  const [column, literal] = reversed ? [second, first] : [first, second];
  const name = columnNamed(column.name);
  // Values are compared as the type to which the reader casts both, which must keep the order of the column's values.
  const isOrdered = types[kinds.get(name) ?? ""]?.includes(String(column.valueType));
  const fits = column.op === "column" && literal.op === "literal" && isOrdered;
  if (!fits || column.valueType !== literal.valueType || typeof literal.value !== "string") return unknown;
  return compared(op, name, literal.value, reversed);
}

const columnNamed = (name: unknown) => String(name).toLowerCase();

const types: Record<string, readonly string[]> = {
  text: ["string"],
  integer: ["int", "long", "double"],
  double: ["double"],
  time: ["timestamp"],
};

const operators: Record<string, string> = {
  "=": "equal",
  "<": "lessThan",
  "<=": "lessThanOrEqual",
  ">": "greaterThan",
  ">=": "greaterThanOrEqual",
};

const name = "`?([A-Za-z_][A-Za-z0-9_]*)`?";
const constant = "('(?:[^'\\\\])*'|-?\\d+(?:\\.\\d+)?)";
const operator = "(=|<>|<=|>=|<|>)";
const nullCheck = new RegExp(`^\\s*${name}\\s+IS\\s+(NOT\\s+)?NULL\\s*$`, "i");
const columnFirst = new RegExp(`^\\s*${name}\\s*${operator}\\s*${constant}\\s*$`);
const constantFirst = new RegExp(`^\\s*${constant}\\s*${operator}\\s*${name}\\s*$`);

function readSql(text: string): Condition | undefined {
  const [, checked, negated] = nullCheck.exec(text) ?? [];
  if (checked) return negated ? not(isNull(checked.toLowerCase())) : isNull(checked.toLowerCase());
  const [, left, sign, right] = columnFirst.exec(text) ?? [];
  if (left) return readComparison(sign!, left, right!, false);
  const [, value, turned, column] = constantFirst.exec(text) ?? [];
  return column ? readComparison(turned!, column, value!, true) : undefined;
}

function readComparison(sign: string, column: string, value: string, reversed: boolean): Condition {
  const literal = value.startsWith("'") ? value.slice(1, -1) : Number(value);
  if (sign === "<>") return not(compared("equal", column.toLowerCase(), literal, reversed));
  return compared(operators[sign]!, column.toLowerCase(), literal, reversed);
}
