import type { Commit } from "../../../schemas/snapshot.ts";
import { readLog } from "../../../snapshots/store/log/commits.ts";
import type { Trust } from "../../../snapshots/trust/trust.ts";
import { counted } from "../../cli.ts";
import { command } from "../../program.ts";
import { readTrust, trustedKeyOption } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { describeSize } from "./describe.ts";
import { common } from "./options.ts";

export const listCommand = command({
  name: "list",
  does: "the commits of a store, newest first",
  options: { ...common, ...trustedKeyOption },
  async run(values, _operand, shell) {
    const storage = await openStore(shell, values.store);
    const known = (await readLog(storage)).reverse();
    const believed = believedOf(known, await readTrust(shell, values));
    const withdrawn = known.find(({ digest }) => believed.has(digest))?.withdrawn ?? [];
    const stateOf = ({ commit, hold, digest }: Commit) => {
      const gone = withdrawn.some(([first, last]) => first <= commit && commit <= last);
      const foreign = believed.has(digest) ? [] : ["not trusted"];
      return [...(hold ? ["rollback"] : []), ...(gone ? ["withdrawn"] : []), ...foreign].join(", ");
    };
    shell.report(values.json ?? false, { commits: known }, [
      ...known.map((each) => {
        const { commit, publishedAt, snapshotId, counts, size } = each;
        const columns = [commit, publishedAt, snapshotId.slice(0, 16), counted(counts.markets, "market")];
        columns.push(counted(counts.protocols, "protocol"), describeSize(size), stateOf(each));
        return columns.join("  ").trimEnd();
      }),
      ...(known.length === 0 ? [`${storage.location} holds no commit yet`] : []),
    ]);
  },
});

/** The digests of the commits that count: with `trust` those that the newest trusted one leads back to. */
function believedOf(known: readonly Commit[], trust: Trust | undefined): ReadonlySet<string> {
  if (!trust) return new Set(known.map(({ digest }) => digest));
  const digests = new Set<string>();
  const newest = known.find((commit) => !(trust.commit(commit) instanceof Error));
  let next = newest?.digest ?? null;
  for (const { digest, previous } of known) {
    if (digest !== next) continue;
    digests.add(digest);
    next = previous;
  }
  return digests;
}
