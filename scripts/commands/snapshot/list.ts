import { readLog } from "../../../snapshots/store/commits.ts";
import { counted } from "../../cli.ts";
import { command } from "../../program.ts";
import { openStore } from "../../store.ts";
import { describeSize } from "./describe.ts";
import { common } from "./options.ts";

export const listCommand = command({
  name: "list",
  does: "the commits of a store, newest first",
  options: common,
  async run(values, _operand, shell) {
    const storage = await openStore(shell, values.store);
    const known = (await readLog(storage)).reverse();
    const withdrawn = known[0]?.withdrawn ?? [];
    const stateOf = (number: number, hold: boolean) => {
      const gone = withdrawn.some(([first, last]) => first <= number && number <= last);
      return [...(hold ? ["rollback"] : []), ...(gone ? ["withdrawn"] : [])].join(", ");
    };
    shell.report(values.json ?? false, { commits: known }, [
      ...known.map(({ commit, publishedAt, snapshotId, counts, size, hold }) => {
        const columns = [commit, publishedAt, snapshotId.slice(0, 16), counted(counts.markets, "market")];
        columns.push(counted(counts.protocols, "protocol"), describeSize(size), stateOf(commit, hold));
        return columns.join("  ").trimEnd();
      }),
      ...(known.length === 0 ? [`${storage.location} holds no commit yet`] : []),
    ]);
  },
});
