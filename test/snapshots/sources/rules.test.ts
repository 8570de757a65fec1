import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HistoricalMarket, ProtocolScore } from "../../../schemas/records.ts";
import { maxLabelBytes, type Shape } from "../../../schemas/shapes.ts";
import { forgeTiers } from "../../../schemas/versions.ts";
import { faultsOfRow, jsonOfRow, soundRow } from "../../../snapshots/sources/contract/file-column.ts";
import { matchColumns } from "../../../snapshots/sources/contract/match-columns.ts";
import {
  marketsTable,
  protocolScoresTable,
  type SourceTable,
} from "../../../snapshots/sources/contract/source-tables.ts";
import { sourceFixtures, start } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

/** A column of a sound row with another value. */
interface Change {
  column: string;
  value: string | number;
}

const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("", " ", "resolved", "Resolved", "batch", ".", "a", "A", ...forgeTiers),
  fc.stringMatching(/^[0-9a-fA-F]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{11,13}$/),
  fc.stringMatching(/^(https?|ftp|HTTP|javascript):?\/{0,2}[a-z.]{0,5}\n?$/),
  fc.stringMatching(/^[a-z0-9_.-]{0,102}\n?$/),
  fc.constantFrom("x", "é", "€", "👩").chain((unit) => {
    // Around the longest label.
    const most = Math.floor(maxLabelBytes / Buffer.byteLength(unit));
    return fc.integer({ min: most - 1, max: most + 1 }).map((length) => unit.repeat(length));
  }),
);
const controls = /[^\P{Cc}\t\n\r]|[\u{e0000}-\u{e007f}]/u;
const integer = fc.oneof(
  fc.maxSafeInteger(),
  fc.constantFrom(-1001, -1000, -1, 0, 1, 7, 8, 99, 100, 101, 299, 300, 999, 1000, 1001),
);

const sources = [
  { name: "markets", table: marketsTable(start), record: HistoricalMarket },
  { name: "scores", table: protocolScoresTable(start), record: ProtocolScore },
] as const;

/** The columns whose values are of a kind. */
const columnsOf = ({ members }: SourceTable, kind: Shape["kind"]) =>
  Object.keys(members)
    .filter((name) => members[name]!.kind === kind)
    .map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

describe.each(sources)("the rules of $name", ({ name, table, record }) => {
  const [texts, integers] = [columnsOf(table, "text"), columnsOf(table, "integer")];
  const change = fc.oneof(
    fc.record({ column: fc.constantFrom(...texts), value: text }),
    fc.record({ column: fc.constantFrom(...integers), value: integer }),
  );

  /** Rows like the first of the table except for one column each, with the verdicts of the SQL rules. */
  async function judge(
    changes: readonly Change[],
  ): Promise<{ sound: boolean; faults: number; json: string }[]> {
    const changed = [
      ...texts.map((column) => `if(change.column = '${column}', change.value, ${column}) AS ${column}`),
      ...integers.map(
        (column) =>
          `if(change.column = '${column}', TRY_CAST(change.value AS BIGINT), ${column}::BIGINT) AS ${column}`,
      ),
    ];
    const { fields } = matchColumns(table, [...(await fixtures.columns(name))]);
    const rows = await fixtures.rows(
      `SELECT ${soundRow(fields, table.rowRules)}, len(${faultsOfRow(fields, table.rowRules)}), ${jsonOfRow(fields)}
       FROM (SELECT position, ${name}.* REPLACE (${changed.join(", ")}) FROM ${name},
         (SELECT unnest(from_json($changes, '[{"column": "VARCHAR", "value": "VARCHAR"}]')) AS change,
           generate_subscripts(from_json($changes, '["JSON"]'), 1) AS position) WHERE n = 0) ORDER BY position`,
      { changes: JSON.stringify(changes) },
    );
    return rows.map(([sound, faults, json]) => ({
      sound: sound === true,
      faults: Number(faults),
      json: String(json),
    }));
  }

  test("in SQL agree with the record's schema, and name a fault exactly where there is one", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 200, maxLength: 200 }), async (changes) => {
        const verdicts = await judge(changes);
        expect(verdicts).toHaveLength(changes.length);
        for (const [index, { sound, faults, json }] of verdicts.entries()) {
          expect({ ...changes[index], sound: faults === 0 }).toEqual({ ...changes[index], sound });
          const parsed = record.safeParse(JSON.parse(json));
          // Snapshots from before the rule have control characters, too, so the record's schema allows them.
          const allowed = parsed.success && !controls.test(String(changes[index]!.value));
          expect({ ...changes[index], sound: allowed }).toEqual({ ...changes[index], sound });
        }
      }),
      { numRuns: 10 },
    );
  });
});
