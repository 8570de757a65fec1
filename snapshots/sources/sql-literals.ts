/** A string literal of SQL. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A list of string literals of SQL. */
export function textList(texts: readonly string[]): string {
  return `[${texts.map(quoted).join(", ")}]`;
}

/** An identifier of SQL. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
