import { updateCheckpoint } from "../../../snapshots/publish/public/checkpoint.ts";
import { PublicTree } from "../../../snapshots/publish/public/tree.ts";
import { findLog } from "../../../snapshots/trust/log/run-log.ts";
import { usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { readSigning, trustOptions } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { describeWitnesses } from "./describe.ts";
import { common } from "./options.ts";

export const witnessCommand = command({
  name: "witness",
  does: "asks the witnesses of WITNESS_POLICY again that have not cosigned the newest checkpoint",
  options: { ...common, ...trustOptions },
  async run(values, _operand, shell) {
    const signing = await readSigning(shell, values);
    if (!signing.key || !signing.witnesses)
      throw usageError("witness goes with SIGNING_KEY and WITNESS_POLICY, the files of a publisher");
    const storage = await openStore(shell, values.store);
    const found = await findLog(storage, signing);
    const { newest } = found;
    const tree = await PublicTree.of(found.storage);
    const witnessed = newest ? await updateCheckpoint(tree, newest, signing, found) : [];
    shell.report(values.json ?? false, { commit: newest?.commit ?? 0, witnessed }, [
      newest
        ? `Commit ${newest.commit}, snapshot ${newest.snapshotId}`
        : `${storage.location} holds no commit yet`,
      ...describeWitnesses(witnessed),
    ]);
  },
});
