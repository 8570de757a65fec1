import { scoreColumns } from "./postgres-load.ts";

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
  switch (name) {
    case "category":
      return `category = lower(${value}::text)`;
    case "tier":
    case "outcome":
      return `${name} = ${value}::text`;
    case "disputed":
      return `disputed = ${value}::boolean`;
    case "from":
      return `resolved_at >= ${value}::timestamptz`;
    case "to":
      return `resolved_at <= ${value}::timestamptz`;
    default:
      throw new Error(`unknown parameter ${name}`);
  }
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
