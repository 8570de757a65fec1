/** A text as an SQL string literal. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Texts as an SQL list of string literals. */
export function textList(texts: readonly string[]): string {
  return `[${texts.map(quoted).join(", ")}]`;
}

/** A name as a quoted SQL identifier. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
