import { diff } from "../../../snapshots/maintain/diff.ts";
import { usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { readSigning, trustOptions } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { describeChanges } from "./describe.ts";
import { common } from "./options.ts";

export const diffCommand = command({
  name: "diff",
  operand: "A B",
  does: "what differs between two snapshots; A and B are commit numbers or snapshot ids",
  options: { ...common, ...trustOptions },
  async run(values, operands, shell) {
    const [older, newer] = operands.split(" ");
    if (!older || !newer)
      throw usageError("diff takes two commit numbers or snapshot ids, as `list` shows them");
    const signing = await readSigning(shell, values);
    const done = await diff(await openStore(shell, values.store), older, newer, signing);
    const { since, until, changes } = done;
    shell.report(values.json ?? false, done, [
      `From commit ${since.commit}, snapshot ${since.snapshotId}`,
      `to commit ${until.commit}, snapshot ${until.snapshotId}`,
      ...describeChanges("It changes", changes),
    ]);
  },
});
