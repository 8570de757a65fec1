/** Scores that filters look at. */
export const scoreColumns = ["informed", "integrity", "oracle", "catalyst", "design", "counterparty"];

/** Texts that filters and facets look at, and the members of a record that have them. */
export const labelColumns = {
  category: "category",
  tier: "tier",
  outcome: "resolvedOutcome",
  formula_version: "formulaVersion",
  weight_version: "weightVersion",
};

const columns: Record<string, string> = {
  category: "category = lower(?::text)",
  tier: "tier = ?::text",
  outcome: "outcome = ?::text",
  disputed: "disputed = ?::boolean",
  from: "resolved_at >= ?::timestamptz",
  to: "resolved_at <= ?::timestamptz",
  q: "words @@ plainto_tsquery('simple', ?::text)",
};
for (const name of ["composite", ...scoreColumns]) {
  columns[`min_${name}`] = `${name} >= ?::smallint`;
  columns[`max_${name}`] = `${name} <= ?::smallint`;
}

/** The archive's own parameters as a condition of SQL with its values, `$1` and on. */
export function conditionsOf(query: Record<string, unknown>): { where: string; values: unknown[] } {
  const all = Object.keys(query).map((name, place) => columns[name]!.replace("?", `$${place + 1}`));
  return { where: all.length === 0 ? "" : `WHERE ${all.join(" AND ")}`, values: Object.values(query) };
}
