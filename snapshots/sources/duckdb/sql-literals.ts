/** An SQL string literal. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function textList(texts: readonly string[]): string {
  return `[${texts.map(quoted).join(", ")}]`;
}

/**
 * The pattern that matches only this path. DuckDB takes a name with wildcards literally only when it matches no others,
 * and a backslash in a pattern for a separator.
 */
export function literalPath(path: string): string {
  return path.includes("\\") ? path : path.replace(/[[?*]/g, "[$&]");
}

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
