import { unless } from "../../store/errors.ts";

/** The most places that are named for one rule. */
export const placesPerRule = 20;

/** A broken rule at one place of the sources. */
export interface Refusal {
  file: string;
  /** `row 17` (counted from 0 within the file) with the row's label, or only the label; undefined for a whole file. */
  row?: string;
  column?: string;
  value?: string;
  rule: string;
}

/** `total` counts all places that break the rule. */
export interface CountedRefusal extends Refusal {
  total: number;
}

/**
 * The sources break the contract, and nothing was published. `refusals` names up to 20 places per rule, grouped by
 * rule. `counted` adds the number of all places that break the rule.
 */
export class SourceRefusal extends Error {
  readonly code = "SOURCES_REFUSED";
  readonly refusals: readonly Refusal[];
  readonly counted: readonly CountedRefusal[];

  constructor(refusals: readonly Refusal[], totals: ReadonlyMap<string, number> = new Map()) {
    const byRule = Map.groupBy(refusals, ({ rule }) => rule);
    const totalOf = (rule: string) => Math.max(totals.get(rule) ?? 0, byRule.get(rule)!.length);
    const lines = [...byRule].flatMap(([rule, places]) => [
      ...places.map(describeRefusal),
      ...(totalOf(rule) > places.length ? [describeTotal(places.length, totalOf(rule), rule)] : []),
    ]);
    super(lines.join("\n"));
    this.refusals = refusals;
    this.counted = refusals.map((refusal) => ({ ...refusal, total: totalOf(refusal.rule) }));
  }
}

/** For example `markets.parquet, row 17 (id), column composite: 1001, must be from 300 to 1000`, always on one line. */
function describeRefusal({ file, row, column, value, rule }: Refusal): string {
  const place = [file, row, column && `column ${column}`].filter(Boolean).join(", ");
  return printable(`${place}: ${value === undefined ? "" : `${value}, `}${rule}`);
}

/** For example `20 of 18,133 shown: must be from 300 to 1000`. */
function describeTotal(shown: number, total: number, rule: string): string {
  return printable(`${shown} of ${total.toLocaleString("en-US")} shown: ${rule}`);
}

/** Keeps the first places of each rule, and counts all. */
export class RefusalList {
  readonly #byRule = new Map<string, Refusal[]>();
  readonly #totals = new Map<string, number>();

  add(refusal: Refusal): void {
    this.addAll(refusal.rule, [refusal], 1);
  }

  /** The places break one rule. `total` counts all such places, named or not. */
  addAll(rule: string, places: readonly Refusal[], total: number): void {
    const known = this.#byRule.get(rule) ?? [];
    this.#byRule.set(rule, [...known, ...places.slice(0, placesPerRule - known.length)]);
    this.#totals.set(rule, (this.#totals.get(rule) ?? 0) + total);
  }

  /** When `work` throws SourceRefusal, adds its refusals and returns undefined; other errors pass through. */
  gather<T>(work: () => Promise<T>): Promise<T | undefined> {
    return unless(SourceRefusal, work, (error) => void this.addFrom(error));
  }

  addFrom(error: SourceRefusal): void {
    for (const [rule, places] of Map.groupBy(error.counted, (refusal) => refusal.rule)) {
      const named = places.map(({ total: _, ...refusal }) => refusal);
      this.addAll(rule, named, places[0]!.total);
    }
  }

  /** Throws SourceRefusal when any refusal was added. */
  throwIfAny(): void {
    if (this.#byRule.size > 0) throw new SourceRefusal([...this.#byRule.values()].flat(), this.#totals);
  }
}

/** `row 17 (label)`, or only the label when the row has no number. */
export function describeRow(row: unknown, label: unknown): string {
  const shown = typeof label === "string" ? label.slice(0, 100) : "null";
  return row === null ? shown : `row ${row} (${shown})`;
}

/** Control characters, and characters that are invisible or change the direction of text. A space is none of them. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Escapes text for a terminal. Text that others chose, such as a key's owner, could otherwise move the cursor, forge
 * lines or hide itself.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
