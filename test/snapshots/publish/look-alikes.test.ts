import { join } from "node:path";
import { expect, test } from "vitest";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { firstColumn, withDuckDb } from "../../helpers/archive/sql.ts";
import { loadSample, publishCounted, writeTables } from "../../helpers/publish/editable-sources.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();

const dimensions = (value: string) =>
  `dimensions = list_transform(dimensions, lambda d, i: struct_update(d, ${value}))`;
const computation = (value: string) => dimensions(`computation := struct_update(d.computation, ${value})`);

/** Edits that keep every value of a row, and only put it elsewhere, or are equal to a comparison of numbers. */
const moves = {
  "evidence in another order": dimensions("evidence := list_reverse(d.evidence)"),
  "labels and patterns exchanged": dimensions(`evidence := list_transform(d.evidence,
    lambda e: struct_update(e, label := e.pattern, pattern := e.label))`),
  "evidence moved to the next dimension": dimensions("evidence := dimensions[1 + i % 6].evidence"),
  "signals moved to the next dimension": computation("raises := dimensions[1 + i % 6].computation.raises"),
  "references moved to the next dimension": dimensions('"references" := dimensions[1 + i % 6]."references"'),
  "names and descriptions exchanged": dimensions("name := d.description, description := d.name"),
  "slugs and questions exchanged": "slug = question, question = slug",
  "baselines of minus zero": computation("baseline := '-0.0'::DOUBLE"),
  "weights of minus zero": dimensions("weight := '-0.0'::DOUBLE"),
};
const zerosAgain = {
  "baselines of minus zero": computation("baseline := '0.0'::DOUBLE"),
  "weights of minus zero": dimensions("weight := '0.0'::DOUBLE"),
};

// Each edit has rows of its own: what a digest took for the same would stay as it was.
test("rows that look alike are told apart by the next run", async () => {
  const storage = directoryStorage(join(folder, "store"));
  const kinds = Object.keys(moves);
  const texts = "SELECT markets::VARCHAR FROM markets";
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 120 });
    await publishCounted(await writeTables(sql, join(folder, "sources")), storage, folder);
    for (const [round, edits] of [moves, zerosAgain].entries()) {
      for (const [name, edit] of Object.entries(edits)) {
        const rows = `hash(id) % ${kinds.length} = ${kinds.indexOf(name)}`;
        const before = await firstColumn<string>(sql, `${texts} WHERE ${rows}`);
        await sql.run(`UPDATE markets SET ${edit} WHERE ${rows}`);
        const after = await firstColumn<string>(sql, `${texts} WHERE ${rows}`);
        expect(after.toSorted(), name).not.toEqual(before.toSorted());
      }
      const directory = await writeTables(sql, join(folder, "sources"));
      const { report } = await publishCounted(directory, storage, folder);
      expect(report.outcome).toBe("published");
      const fresh = directoryStorage(join(folder, `fresh-${round}`));
      expect((await publishCounted(directory, fresh, folder)).report.snapshotId).toBe(report.snapshotId);
    }
  });
});
