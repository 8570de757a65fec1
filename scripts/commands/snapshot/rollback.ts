import { publishedSite } from "../../../proxy/site/files.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { lostSignature, readSigning, signOverOption, trustOptions, unsignedOption } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { common } from "./options.ts";

export const rollbackCommand = command({
  name: "rollback",
  operand: "ID",
  does: "makes an earlier snapshot current again and holds publishing; ID is a commit number or a snapshot id",
  options: { ...common, ...trustOptions, ...signOverOption, ...unsignedOption },
  async run(values, operand, shell) {
    if (!operand) throw usageError("rollback takes a commit number or a snapshot id, as `list` shows them");
    const storage = await openStore(shell, values.store);
    const signing = await readSigning(shell, values);
    const warn = (line: string) => shell.warn(line);
    const commit = await rollback(storage, operand, () => new Date(), { site: publishedSite, signing, warn });
    const before = await readCommit(storage, commit.commit - 1);
    if (before?.note !== undefined && commit.note === undefined) shell.say(lostSignature);
    shell.report(values.json ?? false, commit, [
      `Commit ${commit.commit} has snapshot ${commit.snapshotId} again. Publishing is on hold until publish --resume.`,
    ]);
  },
});
