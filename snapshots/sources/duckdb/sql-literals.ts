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

/** SQL for a list of all values at a path of the contract, such as `dimensions[].score`. */
export function valuesAt(path: string): string {
  const [first = "", ...inner] = path.split("[]");
  const members = (names: string) => names.split(".").map(identifier).join(".");
  return inner.reduce(
    (list, names) =>
      `list_transform(flatten(${list}), lambda one: one${names && `.${members(names.slice(1))}`})`,
    `[${members(first)}]`,
  );
}
