import type { Mutant } from "./mutate.ts";

/** What names a mutant, on two lines. */
export const nameOf = ({ file, text, change }: Omit<Mutant, "id" | "line">) =>
  `${file}: ${text}\n  ${change}`;

/**
 * The names of the mutants that the list explains. Each of its paragraphs is the text of a line, the changes to it that
 * no test can or need notice, indented, and why.
 */
export function explainedIn(list: string): string[] {
  return list.split(/\n{2,}/).flatMap((paragraph) => {
    const [line, ...others] = paragraph.trim().split("\n");
    return others.filter((other) => other.startsWith("  ")).map((change) => `${line}\n${change}`);
  });
}
