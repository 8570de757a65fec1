import { listEntryOf, type ProtocolScore } from "../../../schemas/records.ts";
import { refuseRows } from "../contract/broken-rows.ts";
import { jsonOfRow } from "../contract/render-json.ts";
import { soundRow } from "../contract/row-checks.ts";
import type { FileGroup } from "../files/file-groups.ts";
import type { ScoreRow } from "../sources.ts";
import { readParquet, selectFromAll } from "./parquet.ts";
import { type OpenSource, readSource } from "./read-source.ts";
import { detailsQuery } from "./score-details.ts";

/** Implements Sources.scores. */
export async function readScores(source: OpenSource): Promise<ScoreRow[]> {
  const rows = await readSource(source, async (connection) => {
    for (const group of source.groups) {
      const sound = soundRow(group.fields, group.rowRules);
      const unsound = `SELECT 1 FROM ${readParquet(group)} WHERE NOT ${sound}`;
      const result = await connection.runAndReadAll(`${unsound} LIMIT 1`);
      if (result.currentRowCount > 0) return refuseRows(source);
    }
    const details = await connection.runAndReadAll(detailsQuery(source.groups));
    const bySlug = new Map(details.getRows().map(([slug, ...texts]) => [slug, texts]));
    const rows: ScoreRow[] = [];
    for (const group of source.groups) {
      const result = await connection.runAndReadAll(newestQuery(source, group));
      for (const [text] of result.getRows()) {
        const json = String(text);
        const record: ProtocolScore = JSON.parse(json);
        const [history, dimensions] = bySlug.get(record.slug) ?? [];
        const details = { history: String(history), dimensions: String(dimensions) };
        rows.push({ entry: listEntryOf(record), json, ...details });
      }
    }
    return rows;
  });
  return rows.sort((a, b) => (a.entry.slug < b.entry.slug ? -1 : 1));
}

/** SELECT of the records of one group's rows that are the newest of their slug in all groups. */
function newestQuery({ groups }: OpenSource, group: FileGroup): string {
  return `WITH newest AS (SELECT slug, max(updated_at) AS updated_at
      FROM (${selectFromAll(groups, "slug, updated_at")}) GROUP BY slug)
    SELECT ${jsonOfRow(group.fields)} FROM ${readParquet(group)}
    SEMI JOIN newest USING (slug, updated_at)`;
}
