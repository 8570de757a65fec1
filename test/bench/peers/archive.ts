import { promisify } from "node:util";
import { gzip } from "node:zlib";
import express from "express";
import { Pool } from "pg";
import { clause, continued, cursorAfter, facetsOf, filterOf } from "./sql.ts";

// The archive as one would build it on Express and PostgreSQL: keyset pages, exact totals, gzip off the main thread.
const pool = new Pool({ connectionString: process.env.DATABASE, max: 10 });
const compress = promisify(gzip);
const app = express();
// A tag would cost the hash of every body.
app.disable("etag").disable("x-powered-by");

app.get("/markets", async ({ query }, response) => {
  const pageSize = Number(query.pageSize ?? 100);
  const filter = filterOf(query);
  const page = continued(filter, query.cursor);
  const [rows, counted] = await Promise.all([
    pool.query(
      `SELECT record, resolved_at, id FROM markets ${clause(page)}
       ORDER BY resolved_at DESC, id DESC LIMIT $${page.values.length + 1}`,
      [...page.values, pageSize + 1],
    ),
    pool.query(`SELECT count(*) FROM markets ${clause(filter)}`, filter.values),
  ]);
  const shown = rows.rows.slice(0, pageSize);
  const last = rows.rows.length > pageSize ? shown.at(-1) : undefined;
  const envelope = {
    version: "bri-pm-v1",
    tier: "enterprise",
    count: shown.length,
    total: Number(counted.rows[0].count),
    pageSize,
    nextCursor: last ? cursorAfter(last.resolved_at.toISOString(), last.id) : null,
    timestamp: new Date().toISOString(),
  };
  const records = shown.map(({ record }) => record).join(",");
  const body = await compress(`${JSON.stringify(envelope).slice(0, -1)},"markets":[${records}]}`, {
    level: 6,
  });
  response.set({ "Content-Type": "application/json; charset=utf-8", "Content-Encoding": "gzip" }).send(body);
});

app.get("/total", async ({ query }, response) => {
  const filter = filterOf(query);
  const { rows } = await pool.query(`SELECT count(*) FROM markets ${clause(filter)}`, filter.values);
  response.json({ total: Number(rows[0].count) });
});

app.get("/facets", async ({ query }, response) => {
  const filter = filterOf(query);
  const { rows } = await pool.query({ text: facetsOf(filter), values: filter.values, rowMode: "array" });
  response.json(rows);
});

app.listen(Number(process.env.PORT), "127.0.0.1");
