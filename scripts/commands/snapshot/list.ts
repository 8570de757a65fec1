import type { Commit, Size } from "../../../schemas/store/stored-objects.ts";
import type { Changes, Summary } from "../../../snapshots/changes/summary.ts";
import type { Witness } from "../../../snapshots/format/policy.ts";
import { diff } from "../../../snapshots/maintain/diff.ts";
import type { Witnessed } from "../../../snapshots/publish/public/log.ts";
import type { PublishReport } from "../../../snapshots/publish/publish.ts";
import { gapsIn, readLog } from "../../../snapshots/store/log/commits.ts";
import { trustOf } from "../../../snapshots/trust/signing.ts";
import type { Trust } from "../../../snapshots/trust/trust.ts";
import { cosignersOf, readPolicy } from "../../../snapshots/trust/witnesses/policy.ts";
import { counted, type Shell, usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { readSigning, trustOptions, trustPolicy } from "../../signing.ts";
import { common, openStore } from "../../store.ts";

export const listCommand = command({
  name: "list",
  does: "the commits of a store, newest first",
  options: { ...common, ...trustOptions },
  async run(values, _operand, shell) {
    const storage = await openStore(shell, values.store);
    const known = (await readLog(storage)).reverse();
    const believed = believedOf(known, trustOf(await readSigning(shell, values)));
    const sizes = known.slice(0, mostTold).map(({ entry }) => entry.commit);
    const cosigners = await cosignersOf(storage, sizes, await knownWitnesses(shell, values));
    const withCosigners = (commit: Commit) => {
      const cosigned = cosigners.get(commit.entry.commit);
      return { ...reportOf(commit), ...(cosigned && { cosigned }) };
    };
    const withdrawn = known.find(({ digest }) => believed.has(digest))?.entry.withdrawn ?? [];
    const stateOf = ({ entry: { commit }, hold, digest }: Commit) => {
      const gone = withdrawn.some(([first, last]) => first <= commit && commit <= last);
      const foreign = believed.has(digest) ? [] : ["not trusted"];
      const names = cosigners.get(commit)?.map(({ name }) => name) ?? [];
      const cosigned = names.length > 0 ? [`cosigned by ${names.join(", ")}`] : [];
      return [...(hold ? ["rollback"] : []), ...(gone ? ["withdrawn"] : []), ...foreign, ...cosigned].join(
        ", ",
      );
    };
    const missing = gapsIn(known.map(({ entry }) => entry.commit).reverse());
    shell.report(values.json ?? false, { commits: known.map(withCosigners), missing }, [
      ...known.map((each) => {
        const { commit, publishedAt, snapshotId, counts } = each.entry;
        const columns = [commit, publishedAt, snapshotId.slice(0, 16), counted(counts.markets, "market")];
        columns.push(counted(counts.protocols, "protocol"), describeSize(each.size), stateOf(each));
        return columns.join("  ").trimEnd();
      }),
      ...missing.map(([first, last]) => `missing: commit ${first}${first < last ? ` to ${last}` : ""}`),
      ...(known.length === 0 ? [`${storage.location} holds no commit yet`] : []),
    ]);
  },
});

/** A commit as reports tell it. */
export const reportOf = ({ entry, ...record }: Commit) => ({ ...entry, ...record });

/** The digests of the commits that count: with `trust` those that the newest trusted one leads back to. */
function believedOf(known: readonly Commit[], trust: Trust | undefined): ReadonlySet<string> {
  if (!trust) return new Set(known.map(({ digest }) => digest));
  const digests = new Set<string>();
  const newest = known.find((commit) => !trust.commit(commit));
  let next = newest?.digest ?? null;
  for (const { digest, previous } of known) {
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
    shell.report(values.json ?? false, done, [
      `From commit ${since.commit}, snapshot ${since.snapshotId}`,
      `to commit ${until.commit}, snapshot ${until.snapshotId}`,
      ...describeChanges("It changes", changes),
    ]);
  },
});

/** How many faults or keys are listed one by one. The rest is only counted. */
const shownLines = 50;
/** How many protocols the summary of a publish names of each kind: added, changed and removed. */
const namedSlugs = 5;

export function describePublish(done: PublishReport): string[] {
  const { outcome, wouldCommit, commit, snapshotId, counts, changes } = done;
  const { uploaded, unchanged, total, changeRecord, reindexed, witnessed } = done;
  const asBefore = `commit ${commit} already has snapshot ${snapshotId}`;
  const headline = {
    published: `Published commit ${commit}, snapshot ${snapshotId}`,
    unchanged: `Nothing new: ${asBefore}`,
    "dry-run": wouldCommit
      ? `Dry run: snapshot ${snapshotId} would follow commit ${commit}`
      : `Dry run: nothing new, ${asBefore}`,
  }[outcome];
  return [
    headline,
    ...(changes && outcome !== "unchanged" && wouldCommit !== false
      ? describeChanges(outcome === "dry-run" ? "It would change" : "It changes", changes)
      : []),
    `${counted(counts.markets, "market")} in ${counted(counts.pages, "page")} and ` +
      `${counted(counts.segments, "segment")}, ` +
      counted(counts.protocols, "protocol"),
    `objects: ${describeSize(uploaded)} uploaded, ${describeSize(unchanged)} unchanged, ${describeSize(total)} total`,
    ...(reindexed > 0 ? [`re-indexed ${counted(reindexed, "segment")} that another version made`] : []),
    ...(changeRecord.objects > 0 ? [`record of what it changes: ${describeSize(changeRecord)}`] : []),
    ...describeWitnesses(witnessed),
    // A first line that says nothing is new does not suggest that the run has mended the store.
    ...(outcome === "unchanged" && uploaded.objects > 0
      ? [`made ${counted(uploaded.objects, "object")} anew that the store had not, or not whole`]
      : []),
  ];
}

/**
 * Names the cosigners of the newest checkpoint in one line, and each witness that did not cosign in a line of its own.
 */
export function describeWitnesses(witnessed: readonly Witnessed[]): string[] {
  if (witnessed.length === 0) return [];
  const cosigned = witnessed.filter((each) => "time" in each).map(({ name }) => name);
  const names = cosigned.length > 0 ? `: ${cosigned.join(", ")}` : "";
  return [
    `cosigned by ${cosigned.length} of ${witnessed.length} witness${witnessed.length === 1 ? "" : "es"}${names}`,
    ...witnessed.flatMap((each) => ("fault" in each ? [`  not by ${each.name}: ${each.fault}`] : [])),
  ];
}

const kinds = [
  ["+", "added"],
  ["~", "changed"],
  ["-", "removed"],
] as const;

/**
 * Describes changes: `It changes +0 ~18 -1 markets, -1 protocol (usdd)`, and each further difference on a line of its
 * own.
 */
function describeChanges(verb: string, { markets, protocols }: Changes): string[] {
  const told = kinds.flatMap(([sign, kind]) => {
    const count = protocols[kind];
    if (count === 0) return [];
    return [`${sign}${counted(count, "protocol")} (${named(protocols, kind, namedSlugs)})`];
  });
  const counts = kinds.map(([sign, kind]) => `${sign}${markets[kind]}`).join(" ");
  const { fields, composite, tiers } = markets.details ?? { fields: {}, composite: [], tiers: {} };
  const shifts = composite.map(({ from, to, shift }) => [`${from}-${to}`, signed(shift)] as const);
  return [
    `${verb} ${[`${counts} markets`, ...(told.length > 0 ? told : ["no protocol"])].join(", ")}`,
    ...kinds.flatMap(([, kind]) =>
      markets[kind] > 0 && markets.first[kind].length > 0
        ? [`  markets ${kind}: ${named(markets, kind)}`]
        : [],
    ),
    ...listed("fields of changed markets", Object.entries(fields)),
    ...listed("fields of changed protocols", Object.entries(protocols.fields)),
    ...listed("markets by composite", shifts),
    ...listed(
      "markets by tier",
      Object.entries(tiers).map(([tier, shift]) => [tier, signed(shift)] as const),
    ),
  ];
}

const signed = (count: number) => (count > 0 ? `+${count}` : String(count));

function listed(what: string, rows: readonly (readonly [string, string | number])[]): string[] {
  return rows.length === 0
    ? []
    : [`  ${what}: ${rows.map(([name, value]) => `${name} ${value}`).join(", ")}`];
}

function named(summary: Summary, kind: keyof Summary["first"], most = Number.POSITIVE_INFINITY): string {
  const names = summary.first[kind].slice(0, most);
  return [...names, ...(summary[kind] > names.length ? ["…"] : [])].join(", ");
}

function describeSize({ objects, bytes }: Size): string {
  return `${objects} (${bytes} bytes)`;
}

export function shorten(lines: readonly string[]): string[] {
  const more = lines.length - shownLines;
  return more > 0 ? [...lines.slice(0, shownLines), `and ${more} more`] : [...lines];
}
