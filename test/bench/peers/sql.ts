import { bucketStarts, facetNames, filterFields } from "../../../schemas/filters.ts";
import { scoreColumns } from "./market-lines.ts";

/** A part of a statement with its values, `$1` and on. */
export interface Where {
  conditions: string[];
  values: unknown[];
}

/** The filters of a query as SQL conditions; it takes the archive's own parameters. Throws on others. */
export function filterOf(query: Record<string, unknown>): Where {
  const where: Where = { conditions: [], values: [] };
  for (const [name, value] of Object.entries(query)) {
    if (name === "pageSize" || name === "cursor") continue;
    where.values.push(value);
    where.conditions.push(conditionOf(name, `$${where.values.length}`));
  }
  return where;
}

function conditionOf(name: string, value: string): string {
  const [, end, field] = /^(min|max)_(\w+)$/.exec(name) ?? [];
  if (field && ["composite", ...scoreColumns].includes(field)) {
    return `${field} ${end === "min" ? ">=" : "<="} ${value}::smallint`;
  }
  const conditions: Record<string, string> = {
    category: `category = lower(${value}::text)`,
    tier: `tier = ${value}::text`,
    outcome: `outcome = ${value}::text`,
    disputed: `disputed = ${value}::boolean`,
    from: `resolved_at >= ${value}::timestamptz`,
    to: `resolved_at <= ${value}::timestamptz`,
    q: `words @@ plainto_tsquery('simple', ${value}::text)`,
  };
  const condition = conditions[name];
  if (condition === undefined) throw new Error(`unknown parameter ${name}`);
  return condition;
}

/** Goes on after the market that a cursor names. */
export function continued({ conditions, values }: Where, cursor: unknown): Where {
  if (cursor === undefined) return { conditions, values };
  const [time, id] = Buffer.from(String(cursor), "base64url").toString("utf8").split(" ");
  const place = `(resolved_at, id) < ($${values.length + 1}::timestamptz, $${values.length + 2}::uuid)`;
  return { conditions: [...conditions, place], values: [...values, time, id] };
}

/** The cursor that stands for this market. */
export function cursorAfter(resolvedAt: string, id: string): string {
  return Buffer.from(`${resolvedAt} ${id}`).toString("base64url");
}

export function clause({ conditions }: Where): string {
  return conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
}

/**
 * Counts the markets of a filter by every facet, in one pass: rows of facet, value (of a score its bucket), count,
 * disputed.
 */
export function facetsOf(filter: Where): string {
  const facets = facetNames.map((name) => `(${name})`).join(", ");
  const position = facetNames.map((name, place) => `WHEN grouping(${name}) = 0 THEN ${place}`).join(" ");
  return `SELECT CASE ${position} END, coalesce(${facetNames.map((name) => `${name}::text`).join(", ")}),
      count(*)::integer, (count(*) FILTER (WHERE disputed))::integer
    FROM (SELECT ${facetNames.map((name) => `${columnOf(name)} AS ${name}`).join(", ")}
      FROM markets ${clause(filter)}) AS found
    GROUP BY GROUPING SETS (${facets})`;
}

function columnOf(name: string): string {
  if (name === "month") return "date_trunc('month', resolved_at AT TIME ZONE 'UTC')";
  const row = filterFields.find(({ field }) => field === name)!;
  if (row.kind === "label" || row.values) return name;
  return `least((${name} - ${row.min}) / ${row.bucketWidth}, ${bucketStarts(row).length - 1})`;
}
