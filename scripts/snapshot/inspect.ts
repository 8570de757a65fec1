import type { Commit } from "../../schemas/store/stored-objects.ts";
import type { Witness } from "../../snapshots/format/note.ts";
import { diff } from "../../snapshots/maintain/diff.ts";
import {
  contractJsonSchema,
  contractMarkdown,
  contractSql,
} from "../../snapshots/sources/contract/describe-contract.ts";
import { gapsIn, isWithdrawn, readLog } from "../../snapshots/store/log/commits.ts";
import { trustOf } from "../../snapshots/trust/log/believe.ts";
import { cosignersOf } from "../../snapshots/trust/log/checkpoints.ts";
import { readPolicy } from "../../snapshots/trust/notes/note-keys.ts";
import type { Trust } from "../../snapshots/trust/trust.ts";
import { counted, progressOn, type Shell, usageError } from "../cli.ts";
import { command, flag, jsonOption } from "../program.ts";
import { sourcesAt, sourcesLocation } from "../sources.ts";
import { common, openStore, readSigning, trustOptions, trustPolicy } from "../store.ts";
import { withTemporaryFolder } from "../temporary.ts";
import { sourcesOption } from "./publish-run.ts";
import { describeChanges, describeSize, reportOf } from "./reports.ts";

export const listCommand = command({
  name: "list",
  does: "the commits of a store, newest first",
  options: { ...common, ...trustOptions },
  async run(values, _operand, shell) {
    const storage = await openStore(shell, values.store);
    const commits = (await readLog(storage)).reverse();
    const believed = believedOf(commits, trustOf(await readSigning(shell, values)));
    const sizes = commits.slice(0, mostTold).map(({ entry }) => entry.commit);
    const cosigners = await cosignersOf(storage, sizes, await knownWitnesses(shell, values));
    const withCosigners = (commit: Commit) => {
      const cosigned = cosigners.get(commit.entry.commit);
      return { ...reportOf(commit), ...(cosigned && { cosigned }) };
    };
    const newest = commits.find(({ digest }) => believed.has(digest))?.entry;
    const stateOf = ({ entry: { commit }, hold, digest }: Commit) => {
      const foreign = believed.has(digest) ? [] : ["not trusted"];
      const names = cosigners.get(commit)?.map(({ name }) => name) ?? [];
      const cosigned = names.length > 0 ? [`cosigned by ${names.join(", ")}`] : [];
      const gone = isWithdrawn(commit, newest) ? ["withdrawn"] : [];
      return [...(hold ? ["rollback"] : []), ...gone, ...foreign, ...cosigned].join(", ");
    };
    const missing = gapsIn(commits.map(({ entry }) => entry.commit).reverse());
    shell.report(values.json, { commits: commits.map(withCosigners), missing }, [
      ...commits.map((each) => {
        const { commit, publishedAt, snapshotId, counts } = each.entry;
        const columns = [commit, publishedAt, snapshotId.slice(0, 16), counted(counts.markets, "market")];
        columns.push(counted(counts.protocols, "protocol"), describeSize(each.size), stateOf(each));
        return columns.join("  ").trimEnd();
      }),
      ...missing.map(([first, last]) => `missing: commit ${first}${first < last ? ` to ${last}` : ""}`),
      ...(commits.length === 0 ? [`${storage.location} holds no commit yet`] : []),
    ]);
  },
});

/** The digests of the commits that count: with `trust` those that the newest trusted one leads back to. */
function believedOf(commits: readonly Commit[], trust: Trust | undefined): ReadonlySet<string> {
  if (!trust) return new Set(commits.map(({ digest }) => digest));
  const digests = new Set<string>();
  const newest = commits.find((commit) => !trust.refusalOfCommit(commit));
  let next = newest?.digest ?? null;
  for (const { digest, previous } of commits) {
    if (digest !== next) continue;
    digests.add(digest);
    next = previous;
  }
  return digests;
}

/** The list names the cosigners of at most so many commits. */
const mostTold = 100;

/** The witnesses of the command's policy, or else a publisher's own; none where no policy is given. */
async function knownWitnesses(
  shell: Shell,
  values: Parameters<typeof trustPolicy>[1],
): Promise<readonly Witness[]> {
  const { witnesses = [] } = (await trustPolicy(shell, values)) ?? {};
  const { WITNESS_POLICY: file } = shell.env;
  return witnesses.length > 0 || !file ? witnesses : (await readPolicy(shell.path(file))).witnesses;
}

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
    shell.report(values.json, done, [
      `From commit ${since.commit}, snapshot ${since.snapshotId}`,
      `to commit ${until.commit}, snapshot ${until.snapshotId}`,
      ...describeChanges("It changes", changes),
    ]);
  },
});

export const contractCommand = command({
  name: "contract",
  does: "prints what sources must be, from the table that checks them: in Markdown without an option",
  options: {
    sql: flag("as CREATE TABLE for DuckDB"),
    json: flag("as JSON Schema (2020-12)"),
  },
  async run({ sql, json }, _operand, shell) {
    if (sql && json) throw usageError("--sql and --json exclude each other");
    if (json) shell.report(true, contractJsonSchema(), []);
    else shell.print((sql ? contractSql() : contractMarkdown()).trimEnd());
  },
});

export const checkCommand = command({
  name: "check",
  does: "says all that a publish would refuse in the sources, without a store",
  options: { sources: { ...sourcesOption, required: true }, ...jsonOption },
  async run({ sources, json }, _operand, shell) {
    const location = sourcesLocation(shell, sources);
    const summary = await withTemporaryFolder((folder) =>
      sourcesAt(shell, location, folder, progressOn(shell.stderr)).inspect(),
    );
    const { markets, scores, protocols } = summary;
    const counts = [
      counted(markets, "market"),
      `${counted(scores, "score")} of ${counted(protocols, "protocol")}`,
    ];
    shell.report(json, summary, [`${counts.join(" and ")}: nothing to refuse`]);
  },
});
