import type { Mutant } from "./mutate.ts";

/** What names a mutant, on two lines. */
export const nameOf = ({ file, text, change }: Omit<Mutant, "id" | "line">) =>
  `${file}: ${text}\n  ${change}`;

/** How much is done at a time, which one more or less changes in speed or memory alone. */
const batchSize = /^\S+: const \[?\w+AtOnce\b.*\n {2}(\S+) -> \1 [+-] 1$/;

/** The mutants that no test can or need notice. */
export interface Explained {
  /** Those that the list names. */
  names: ReadonlySet<string>;
  has(name: string): boolean;
}

/**
 * Reads the list. Each of its paragraphs has lines of sources, under each the changes to it, indented, and then why. The
 * change `N ± 1` stands for one more and one less.
 */
export function explainedIn(list: string): Explained {
  const names = new Set<string>();
  let line = "";
  for (const text of list.split("\n")) {
    if (!text.startsWith("  ")) line = text;
    else
      for (const sign of text.endsWith(" ± 1") ? ["+", "-"] : [""])
        names.add(`${line}\n${changeIn(text, sign)}`);
  }
  return { names, has: (name) => names.has(name) || batchSize.test(name) };
}

const changeIn = (text: string, sign: string) => text.replace(/(\S+) ± 1$/, `$1 -> $1 ${sign} 1`);
