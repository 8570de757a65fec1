import type { Commit, Size } from "../../schemas/store/stored-objects.ts";
import type { Changes, Summary } from "../../snapshots/changes/summary.ts";
import type { PublishReport } from "../../snapshots/publish/commit-snapshot.ts";
import type { Witnessed } from "../../snapshots/publish/public/log.ts";
import { counted } from "../cli.ts";

export const reportOf = ({ entry, ...record }: Commit) => ({ ...entry, ...record });

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
    `cosigned by ${cosigned.length} of ${counted(witnessed.length, "witness")}${names}`,
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
export function describeChanges(verb: string, { markets, protocols }: Changes): string[] {
  const texts = kinds.flatMap(([sign, kind]) => {
    const count = protocols[kind];
    if (count === 0) return [];
    return [`${sign}${counted(count, "protocol")} (${named(protocols, kind, namedSlugs)})`];
  });
  const counts = kinds.map(([sign, kind]) => `${sign}${markets[kind]}`).join(" ");
  const { fields, composite, tiers } = markets.details ?? { fields: {}, composite: [], tiers: {} };
  const shifts = composite.map(({ from, to, shift }) => [`${from}-${to}`, signed(shift)] as const);
  return [
    `${verb} ${[`${counts} markets`, ...(texts.length > 0 ? texts : ["no protocol"])].join(", ")}`,
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

export function describeSize({ objects, bytes }: Size): string {
  return `${objects} (${bytes} bytes)`;
}

export function shorten(lines: readonly string[]): string[] {
  const more = lines.length - shownLines;
  return more > 0 ? [...lines.slice(0, shownLines), `and ${more} more`] : [...lines];
}
