import { join } from "node:path";
import { expect, test } from "vitest";
import { newestCommit } from "../../../snapshots/store/commits.ts";
import { directoryStorage } from "../../../snapshots/store/directory.ts";
import { readManifest } from "../../../snapshots/store/objects.ts";
import { withDuckDb } from "../../helpers/archive-sql.ts";
import { testFolder } from "../../helpers/archive-store.ts";
import { loadSample, publishCounted, writeTables } from "../../helpers/editable-sources.ts";

const folder = testFolder();

const dimensions = (value: string) =>
  `UPDATE markets SET dimensions = list_transform(dimensions, lambda d, i: struct_update(d, ${value}))`;
const computation = (value: string) => dimensions(`computation := struct_update(d.computation, ${value})`);

/** Edits that keep every value of a row, and only put it elsewhere, or are equal to a comparison of numbers. */
const edits: [name: string, edit: string][] = [
  ["evidence in another order", dimensions("evidence := list_reverse(d.evidence)")],
  [
    "labels and patterns exchanged",
    dimensions(`evidence := list_transform(d.evidence,
      lambda e: struct_update(e, label := e.pattern, pattern := e.label))`),
  ],
  ["evidence moved to the next dimension", dimensions("evidence := dimensions[1 + i % 6].evidence")],
  ["signals moved to the next dimension", computation("raises := dimensions[1 + i % 6].computation.raises")],
  [
    "references moved to the next dimension",
    dimensions('"references" := dimensions[1 + i % 6]."references"'),
  ],
  ["names and descriptions exchanged", dimensions("name := d.description, description := d.name")],
  ["slugs and questions exchanged", "UPDATE markets SET slug = question, question = slug"],
  ["baselines of minus zero", computation("baseline := '-0.0'::DOUBLE")],
  ["baselines of zero again", computation("baseline := '0.0'::DOUBLE")],
  ["weights of minus zero", dimensions("weight := '-0.0'::DOUBLE")],
  ["weights of zero again", dimensions("weight := '0.0'::DOUBLE")],
];

// Each on top of the one before: what a digest took for the same would stay as it was.
test("rows that look alike are told apart by the next run", async () => {
  const storage = directoryStorage(join(folder, "store"));
  const served = async (place = storage) => {
    const { segments } = await readManifest(place, (await newestCommit(place))!.manifest);
    return segments.map(({ hash }) => hash);
  };
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 60 });
    await publishCounted(await writeTables(sql, join(folder, "sources")), storage, folder);
    for (const [name, edit] of edits) {
      await sql.run(edit);
      const directory = await writeTables(sql, join(folder, "sources"));
      const { report } = await publishCounted(directory, storage, folder);
      expect(report.outcome, name).toBe("published");
      const fresh = directoryStorage(join(folder, name));
      expect((await publishCounted(directory, fresh, folder)).report.snapshotId, name).toBe(
        report.snapshotId,
      );
      expect(await served(fresh), name).toEqual(await served());
    }
  });
});
