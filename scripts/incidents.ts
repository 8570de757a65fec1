import { layout, manifestPrefixes } from "../snapshots/store/layout.ts";

/** Objects by the beginnings of their keys, and how to recover when one is damaged or missing. */
interface Incident {
  of: readonly string[];
  back: string;
}

/** A row for every kind of object. .github/deploy/OPERATING.md, "Incidents", also tells what each one stops. */
export const incidents: readonly Incident[] = [
  {
    of: [layout.commit.prefix],
    back:
      "put it back from a backup or an earlier version of the bucket, or delete it if no publisher made it; when an " +
      "older one is lost, tell `gc` and `verify` that the log begins after it, `--log-begins-at N` with the number " +
      "of the next",
  },
  {
    of: [layout.manifest.prefix, ...manifestPrefixes, layout.page.prefix],
    back:
      "run `verify --repair --sources SOURCES`, which makes anew what the newest snapshot has; what only older " +
      "ones have comes from a backup, or goes with them once gc collects them or you delete their manifests",
  },
  {
    of: [layout.changeRecord.prefix],
    back:
      "run `verify --repair --sources SOURCES`, which makes it anew while both snapshots are kept; when one is not, " +
      "delete it, and a copy is taken anew",
  },
  {
    of: [layout.exportRecord.prefix, layout.exportFile.prefix, layout.exportChunks.prefix],
    back: "delete it, and run `export --snapshot ID` for the snapshots that had it",
  },
  {
    of: [layout.exportedChanges.prefix],
    back: "delete it; what this version changed is then refused by name, and clients read the table anew",
  },
  {
    of: [layout.collecting.prefix],
    back: "delete it when no gc is running; it stops publishes for an hour at most, and gc deletes it after a day",
  },
  {
    of: [layout.runPlan.prefix],
    back: "plan the run again under another --run; gc deletes what a run has left two days after its plan",
  },
  {
    of: [layout.key.prefix],
    back: "issue its owner another key, and revoke this one; a key whose revocation is damaged stays revoked",
  },
  { of: [layout.probe], back: "delete it; the next publish makes it again" },
  {
    of: [layout.logTile.prefix],
    back:
      "delete it, and publish again, which makes it anew from the commits; where older ones are gone, whose hashes " +
      "only tiles still have, put it back from a backup or an earlier version of the bucket",
  },
  {
    of: [layout.checked, layout.publicTree],
    back: "publish again, which writes what every run writes",
  },
];

/** How to recover an object; undefined for one that no store has. */
export function wayBack(key: string): string | undefined {
  return incidents.find(({ of }) => of.some((prefix) => key.startsWith(prefix)))?.back;
}

/** Lines for the faults of a report: each way to recover once, with the objects it is for. */
export function waysBack(keys: readonly string[]): string[] {
  const kinds = Map.groupBy(keys, wayBack);
  return [...kinds].flatMap(([back, [first]]) => (back === undefined ? [] : [`For ${first}: ${back}.`]));
}
