import { promisify } from "node:util";
import { gzip } from "node:zlib";
import express from "express";
import { Pool } from "pg";
import { bucketStarts, facetNames, filterFields } from "../../../schemas/filters.ts";
import { conditionsOf } from "./conditions.ts";

// The archive as one would build it on Express and PostgreSQL: exact totals, gzip off the main thread.
const pool = new Pool({ connectionString: process.env.DATABASE, max: 10 });
const compress = promisify(gzip);
const app = express();
// A tag would cost the hash of every body.
app.disable("etag").disable("x-powered-by");

app.get("/markets", async ({ query }, response) => {
  const { where, values } = conditionsOf(query);
  const [{ rows }, counted] = await Promise.all([
    pool.query(`SELECT record FROM markets ${where} ORDER BY resolved_at DESC, id DESC LIMIT 100`, values),
    pool.query(`SELECT count(*) FROM markets ${where}`, values),
  ]);
  const envelope = {
    version: "bri-pm-v1",
    tier: "enterprise",
    count: rows.length,
    total: Number(counted.rows[0].count),
    pageSize: 100,
    timestamp: new Date().toISOString(),
  };
  const records = rows.map(({ record }) => record).join(",");
  const body = await compress(`${JSON.stringify(envelope).slice(0, -1)},"markets":[${records}]}`, {
    level: 6,
  });
  response.set({ "Content-Type": "application/json; charset=utf-8", "Content-Encoding": "gzip" }).send(body);
});

app.get("/total", async ({ query }, response) => {
  const { where, values } = conditionsOf(query);
  const { rows } = await pool.query(`SELECT count(*) FROM markets ${where}`, values);
  response.json({ total: Number(rows[0].count) });
});

/** Counts the markets of a filter by every facet: rows of facet, value (of a score its bucket), count, disputed. */
app.get("/facets", async ({ query }, response) => {
  const { where, values } = conditionsOf(query);
  const columns = facetNames.map((name) => `${columnOf(name)} AS ${name}`);
  const position = facetNames.map((name, place) => `WHEN grouping(${name}) = 0 THEN ${place}`);
  const text = `SELECT CASE ${position.join(" ")} END, coalesce(${facetNames.map((name) => `${name}::text`)}),
      count(*)::integer, (count(*) FILTER (WHERE disputed))::integer
    FROM (SELECT ${columns} FROM markets ${where}) AS found
    GROUP BY GROUPING SETS (${facetNames.map((name) => `(${name})`)})`;
  const { rows } = await pool.query({ text, values, rowMode: "array" });
  response.json(rows);
});

function columnOf(name: string): string {
  if (name === "month") return "to_char(resolved_at AT TIME ZONE 'UTC', 'YYYY-MM')";
  const row = filterFields.find(({ field }) => field === name)!;
  if (row.kind === "label" || row.values) return name;
  return `least((${name} - ${row.min}) / ${row.bucketWidth}, ${bucketStarts(row).length - 1})`;
}

app.listen(Number(process.env.PORT), "127.0.0.1");
