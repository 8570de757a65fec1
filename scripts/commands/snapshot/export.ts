import { realpath } from "node:fs/promises";
import { exportSnapshot } from "../../../snapshots/maintain/export.ts";
import { counted } from "../../cli.ts";
import { command } from "../../program.ts";
import { progressOn } from "../../progress.ts";
import { readSigning, trustOptions, unsignedOption } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { withTemporaryFolder } from "../../temporary.ts";
import { common } from "./options.ts";

export const exportCommand = command({
  name: "export",
  does: "writes a snapshot's archive into Parquet files for bulk download",
  options: {
    ...common,
    ...trustOptions,
    ...unsignedOption,
    snapshot: {
      type: "string",
      value: "ID",
      does: "a commit number or a snapshot id; the newest snapshot if left out",
    },
  },
  async run(values, _operand, shell) {
    const signing = await readSigning(shell, values);
    const storage = await openStore(shell, values.store);
    const progress = progressOn(shell.stderr);
    const done = await withTemporaryFolder(async (folder) =>
      exportSnapshot(storage, values.snapshot, {
        temporaryDirectory: await realpath(folder),
        progress,
        signing,
      }),
    );
    const { outcome, snapshotId, commit, rows, total, uploaded } = done;
    shell.report(values.json ?? false, done, [
      `${outcome === "exported" ? "Exported" : "Exported before:"} snapshot ${snapshotId} of commit ${commit}`,
      `${counted(rows, "market")} in ${counted(total.objects, "file")} (${total.bytes} bytes), ` +
        `${uploaded.objects} of them made now`,
    ]);
  },
});
