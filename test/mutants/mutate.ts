import { parseAst } from "vitest/node";

/** One change to one place of a source. */
export interface Mutant {
  id: number;
  file: string;
  /** From 1. */
  line: number;
  /** The text of that line, and what becomes of what. Together with the file they name the mutant. */
  text: string;
  change: string;
}

/** What names a mutant, on two lines. */
export const nameOf = ({ file, text, change }: Omit<Mutant, "id" | "line">) =>
  `${file}: ${text}\n  ${change}`;

/** A node of ESTree. Offsets count UTF-16 code units. */
type Node = { type: string; start: number; end: number; operator?: string; computed?: boolean } & {
  [child in "left" | "right" | "argument" | "expression" | "callee"]?: Node;
} & { raw?: string; value?: unknown };

/** What takes an operator's place: bounds move, conditions turn, arithmetic and bits change. */
const pairs = `< <=, <= <, > >=, >= >, === !==, !== ===, && ||, || &&, + -, - +, * /, / *, % *, & |, | &, ^ &, << >>,
  >> <<, >>> <<, += -=, -= +=, *= /=, &= |=, |= &=, ^= &=`;
const instead = new Map(pairs.split(/,\s+/).map((pair) => pair.split(" ") as [string, string]));

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && "start" in value;

/** The children that are code, in the order of the text, by the names that their parent gives them. */
function childrenOf(node: Node): [string, Node][] {
  // Types are stripped later, except for what these wrap.
  const isCode = ({ type }: Node) => /^(?!TS)|^TS(As|NonNull|Satisfies)Expression$/.test(type);
  return Object.entries(node)
    .flatMap(([name, value]) => [value].flat().map((child) => [name, child] as const))
    .filter((entry): entry is [string, Node] => isNode(entry[1]) && isCode(entry[1]))
    .filter(([name]) => name !== "key" || node.computed === true)
    .sort(([, a], [, b]) => a.start - b.start);
}

/**
 * The source with all its mutants, each behind a switch that asks `__mutant(id)` whether it is on. So one compilation
 * serves all of them. Ids are consecutive from `firstId`.
 */
export function mutate(file: string, code: string, firstId: number): { code: string; mutants: Mutant[] } {
  const mutants: Mutant[] = [];
  const textOf = ({ start, end }: { start: number; end: number }) => code.slice(start, end);
  const lines = code.split("\n");
  const brief = (text: string) => text.replace(/\s+/g, " ").slice(0, 80);
  const named = new Map<string, number>();
  function add(node: Node, mutated: string): number {
    const line = code.slice(0, node.start).split("\n").length;
    const text = lines[line - 1]!.trim();
    const plain = `${brief(textOf(node))} -> ${brief(mutated) || "nothing"}`;
    const count = (named.get(text + plain) ?? 0) + 1;
    named.set(text + plain, count);
    const change = count === 1 ? plain : `${plain} (${count})`;
    const id = firstId + mutants.length;
    mutants.push({ id, file, line, text, change });
    return id;
  }

  /** What an expression may change to. There are no switches in it, because no two mutants are on. */
  function alternatives(node: Node, role: string): string[] {
    const { operator = "", left, right, argument, value, raw = "" } = node;
    const found: string[] = [];
    const by = instead.get(operator);
    if (
      left &&
      right &&
      by &&
      !(operator.startsWith("+") && [left, right].some((side) => /^["'`]/.test(textOf(side))))
    ) {
      const between = textOf({ start: left.end, end: right.start }).replace(operator, () => by);
      found.push(code.slice(node.start, left.end) + between + code.slice(right.start, node.end));
    }
    if (left && operator === "??") found.push(textOf(left));
    if (argument && ["!", "-"].includes(operator)) found.push(textOf(argument));
    if (/^(true|false)$/.test(raw)) found.push(String(!value));
    if (/^\d/.test(raw))
      found.push(...["+", "-"].map((sign) => `${raw} ${sign} 1${raw.endsWith("n") ? "n" : ""}`));
    if (role === "test" && !/^!$|^[!=]==$/.test(operator)) found.push(`!(${textOf(node)})`);
    if (role === "returned" && typeof value !== "boolean" && textOf(node) !== "undefined")
      found.push("undefined");
    return found;
  }

  function rewrite(node: Node, role: string): string {
    let [text, at] = ["", node.start];
    for (const [name, child] of childrenOf(node)) {
      // One text is both key and value of a shorthand property.
      if (child.start < at) continue;
      text +=
        code.slice(at, child.start) + rewrite(child, node.type === "ReturnStatement" ? "returned" : name);
      at = child.end;
    }
    text += code.slice(at, node.end);
    const { type, callee } = node.expression ?? { type: "" };
    const drops = node.type === "ExpressionStatement" && /^(Call|Await|Assignment)Exp/.test(type);
    if (drops && callee?.type !== "Super") return `{ if (!__mutant(${add(node, "")})) ${text} }`;
    const changed = alternatives(node, role).map(
      (mutated) => `__mutant(${add(node, mutated)}) ? (${mutated}) : `,
    );
    return changed.length > 0 ? `(${changed.join("")}(${text}))` : text;
  }

  const program = parseAst(code, { lang: "ts" }) as unknown as Node;
  return { code: rewrite({ ...program, start: 0, end: code.length }, ""), mutants };
}
