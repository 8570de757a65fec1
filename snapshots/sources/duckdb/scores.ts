import { historyDays } from "../../../schemas/envelopes.ts";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import { listEntryOf, ScorePoint } from "../../../schemas/records.ts";
import { type FileField, jsonOfRow, soundRow, timeText } from "../contract/file-column.ts";
import { milliseconds } from "../contract/source-tables.ts";
import type { FileGroup } from "../files/file-groups.ts";
import type { ScoreRow } from "../sources.ts";
import { readParquet, selectFromAll } from "./duckdb.ts";
import { type OpenSource, readSource, refuseRows } from "./read-source.ts";
import { identifier, quoted, textList } from "./sql-literals.ts";

/** Implements Sources.scores. */
export async function readScores(source: OpenSource): Promise<ScoreRow[]> {
  const rows = await readSource(source, async (connection) => {
    for (const group of source.groups) {
      const sound = soundRow(group.fields, group.rowRules);
      const unsound = `SELECT 1 FROM ${readParquet(group)} WHERE NOT ${sound}`;
      const result = await connection.runAndReadAll(`${unsound} LIMIT 1`);
      if (result.currentRowCount > 0) return refuseRows(source);
    }
    const result = await connection.runAndReadAll(scoresQuery(source.groups));
    return result.getRows().map((row): ScoreRow => {
      const [json, history, dimensions] = row.map(String) as [string, string, string];
      return { entry: listEntryOf(JSON.parse(json)), json, history, dimensions };
    });
  });
  return rows.sort((a, b) => (a.entry.slug < b.entry.slug ? -1 : 1));
}

const windowMilliseconds = historyDays * 24 * 3_600_000;

/**
 * SELECT of every protocol's newest record, history and dimensions, as published JSON. All rows of the source must keep
 * every rule.
 */
function scoresQuery(groups: readonly FileGroup[]): string {
  const times = selectFromAll(groups, `slug, ${milliseconds("updated_at")} AS ms`);
  return `WITH newest AS (SELECT slug, max(ms) AS newest_ms FROM (${times}) GROUP BY slug),
    runs AS (${groups.map(runsOf).join(" UNION ALL ")}),
    windows AS (SELECT slug, max(record) AS record, ${timeText("max(updated_at)")} AS updated_at,
        arg_max(evidence_hash, ms) AS evidence_hash, list(point ORDER BY ms) AS points,
        arg_max(scores, ms) AS scores, arg_min(scores, ms) AS scores_before
      FROM runs GROUP BY slug),
    signals AS (SELECT slug, unnest(range(${protocolDimensionKeys.length})) AS place,
        unnest(${textList(protocolDimensionKeys)}) AS key,
        unnest(scores) AS score, unnest(scores_before) AS score_before
      FROM windows),
    ranked AS (SELECT *, rank() OVER (PARTITION BY place ORDER BY score) - 1 AS below,
        count(*) OVER (PARTITION BY place) - 1 AS others
      FROM signals),
    lists AS (SELECT slug, list(${dimension} ORDER BY place) AS dimensions FROM ranked GROUP BY slug)
    SELECT record, to_json(${history})::VARCHAR, to_json(${dimensions})::VARCHAR
    FROM windows JOIN lists USING (slug)`;
}

const history = `{'slug': slug, 'days': ${historyDays}, 'count': len(points), 'points': points}`;

const dimensions =
  "{'slug': slug, 'updatedAt': updated_at, 'evidenceHash': evidence_hash, 'dimensions': dimensions}";

// The percent rank times 100, rounded half up. In integers, because 23 of 40 times 100 as a fraction is slightly less
// than 57.5.
const dimension = `{'key': key, 'score': score, 'change7d': score - score_before,
  'percentile': CASE WHEN others = 0 THEN 0 ELSE (200 * below + others) // (2 * others) END}`;

/** SELECT of one group's rows that lie within their slug's window. Only the newest has its record. */
function runsOf(group: FileGroup): string {
  const { fields } = group;
  // Leaves out columns that the contract does not name, whose names could clash with those used here.
  const columns = fields.map(({ name }) => identifier(name)).join(", ");
  const scores = protocolDimensionKeys.map((key) => `struct_extract(dimensions, ${quoted(key)})::INTEGER`);
  return `SELECT slug, updated_at, ${milliseconds("updated_at")} AS ms, evidence_hash,
      CASE WHEN ms = newest_ms THEN ${jsonOfRow(fields)} END AS record,
      ${jsonOfRow(pointFields(fields))}::JSON AS point, [${scores.join(", ")}] AS scores
    FROM (SELECT ${columns} FROM ${readParquet(group)}) JOIN newest USING (slug)
    WHERE ${milliseconds("updated_at")} >= newest_ms - ${windowMilliseconds}`;
}

/** In the published order. */
function pointFields(fields: readonly FileField[]): FileField[] {
  return Object.keys(ScorePoint.shape).flatMap((name) =>
    fields.filter(({ published }) => published === name),
  );
}
