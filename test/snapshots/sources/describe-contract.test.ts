import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  contractJsonSchema,
  contractMarkdown,
  contractSql,
} from "../../../snapshots/sources/contract/describe-contract.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { readAll, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

describe("the contract", () => {
  test("as SQL makes tables that take sound rows, and what they hold is accepted", async () => {
    const [sound, directory] = [await fixtures.write({}), await fixtures.write({})];
    await withDuckDb(fixtures.folder, async (sql) => {
      await sql.run(contractSql());
      for (const table of ["markets", "protocol_scores"]) {
        const [from, to] = [sound, directory].map((place) => quoted(join(place, `${table}.parquet`)));
        const rows = quoted(join(fixtures.folder, `${table}.ndjson`));
        await sql.run(`COPY (FROM read_parquet(${from})) TO ${rows} (FORMAT json)`);
        await sql.run(`COPY ${table} FROM ${rows} (FORMAT json)`);
        await sql.run(`COPY ${table} TO ${to} (FORMAT parquet)`);
      }
    });
    expect(await readAll(directory)).toEqual(await readAll(sound));
  });

  test("in Markdown has a row for every column and member", () => {
    const text = contractMarkdown();
    const paths = [...text.matchAll(/^\| `([^`]+)` \| [A-Z]+ \|/gm)].map(([, path]) => path);
    expect(paths).toEqual(expect.arrayContaining(["id", "dimensions[].evidence[].reference.url"]));
    expect(paths).toEqual(expect.arrayContaining(["metadata.z_factor", "dimensions.cascade_exposure"]));
    expect(new Set(text.match(/^## .*/gm))).toEqual(new Set(["## markets", "## protocol_scores"]));
    const meaning = "Composite score of a market, from 300 to 1,000";
    expect(text).toContain(`| \`composite\` | INTEGER | must be from 300 to 1000 | ${meaning}`);
    expect(JSON.stringify(contractJsonSchema())).toContain(`"description":"${meaning}`);
    expect(text).toContain("`id` must not be the id of two markets");
    for (const contract of [text, contractSql(), JSON.stringify(contractJsonSchema())])
      expect(contract).toContain("no control characters except tab, LF and CR, and no Unicode tags");
  });
});
