/** A fault: the text of a file that it takes the place of, once. */
export interface Fault {
  name: string;
  file: string;
  text: string;
  fault: string;
}

export const faults: readonly Fault[] = [
  {
    name: "a publisher does not look for collections",
    file: "snapshots/publish/commit-snapshot.ts",
    text: "await refuseCollected(storage, written, namesOfProtocols(manifest));",
    fault: "{}",
  },
  {
    name: "a publisher does not look again before its commit",
    file: "snapshots/publish/commit-snapshot.ts",
    text: "await refuseCollected(storage, new Set([layout.manifest(ref.hash)]), namesOfProtocols(manifest));",
    fault: "",
  },
  {
    name: "gc does not look twice",
    file: "snapshots/maintain/gc.ts",
    text: "const unchanged = batch.filter((info) => isDeepStrictEqual(still.get(info.key), info));",
    fault: "const unchanged = isDeepStrictEqual(still, 0) ? [] : batch;",
  },
  {
    name: "gc counts commits that nobody signed",
    file: "snapshots/maintain/gc.ts",
    text: "countedLog(storage, options)",
    fault: "countedLog(storage, { anybody: true })",
  },
  {
    name: "gc takes what a run has just written for old",
    file: "snapshots/maintain/gc.ts",
    text: "const hours = mayBeOfARun ? Math.max(keepHours, runHours) : keepHours;",
    fault: "const hours = mayBeOfARun ? keepHours : keepHours;",
  },
  {
    name: "gc keeps one commit less than it is told",
    file: "snapshots/maintain/commits.ts",
    text: "index >= commits.length - keepCommits",
    fault: "index > commits.length - keepCommits",
  },
  {
    name: "gc goes by a clock that is ahead",
    file: "snapshots/store/log/gc-records.ts",
    text: "  if (machine.getTime() - store.getTime() <= 3_600_000) return;\n",
    fault: "  if (machine.getTime() >= 0) return;\n",
  },
  {
    name: "nobody looks for commits after the hint",
    file: "snapshots/store/log/commits.ts",
    text: "return next.value ? lastAfter(storage, next.value, number + mostSteps) : commit.value;",
    fault: "return commit.value;",
  },
  {
    name: "a number that is taken counts as one's own",
    file: "snapshots/store/log/commits.ts",
    text: "if (stored.equals(bytes)) return",
    fault: "if (!(created instanceof StorageError) || stored.equals(bytes)) return",
  },
  {
    name: "a rollback does not write what it brings back",
    file: "snapshots/maintain/rollback.ts",
    text: "await storage.put(key, await readObject(storage, key, ref));",
    fault: "await readObject(storage, key, ref);",
  },
  {
    name: "a reader goes back with its store",
    file: "snapshots/trust/log/log-reader.ts",
    text: "if (least) await requireContinued(storage, least, checkpoint, file);",
    fault: "if (!least && least) await requireContinued(storage, least, checkpoint, file);",
  },
  {
    name: "a run that another one has followed counts as set back",
    file: "snapshots/trust/log/believe.ts",
    text: "      if (followed) continue;\n",
    fault: "",
  },
  {
    name: "changes are told forwards alone",
    file: "snapshots/read/changes/changes.ts",
    text: "from.commit <= to.commit ? steps : back",
    fault: "from.commit <= to.commit || back ? steps : back",
  },
  {
    name: "a look back meets what was withdrawn",
    file: "snapshots/read/catalog/commit-log.ts",
    text: "entry.publishedAt <= time && !this.isWithdrawn(entry.commit)",
    fault: "entry.publishedAt <= time",
  },
  {
    name: "a facet tells too many that are disputed",
    file: "snapshots/read/archive/count-facets.ts",
    text: "addTo(other, { count: -counts[id]!, disputed: -disputed[id]! });",
    fault: "addTo(other, { count: -counts[id]!, disputed: 0 });",
  },
  {
    name: "a copy is put in place before it is on the disk",
    file: "scripts/copy/copy-folder.ts",
    text: 'for (const path of [this.work("archive.ndjson"), statePath, indexPath, work]) await syncPath(path);',
    fault: "",
  },
  {
    name: "a copy keeps what has changed",
    file: "scripts/copy/lines.ts",
    text: "if (named.has(idOf(line))) continue;",
    fault: "",
  },
  {
    name: "a key is served for an hour after it has expired",
    file: "snapshots/keys/keys.ts",
    text: "Date.parse(record.expiresAt) <= now()",
    fault: "Date.parse(record.expiresAt) <= now() - 3_600_000",
  },
  {
    name: "of two revocations the last one counts",
    file: "snapshots/keys/keys.ts",
    text: "ends.set(id, Math.min(object, ends.get(id) ?? object));",
    fault: "ends.set(id, object);",
  },
  {
    name: "an export does not look for collections",
    file: "snapshots/maintain/export.ts",
    text: "await refuseCollected(storage, new Set(objectsOf(files)), [key]);",
    fault: "",
  },
  {
    name: "gc keeps the newest export alone",
    file: "snapshots/maintain/gc.ts",
    text: "index < newestExports",
    fault: "index < 1",
  },
  {
    name: "a unit is given back twice",
    file: "proxy/quota/quota.ts",
    text: "const give = () => counters.giveBack(account, day, units);",
    fault: "const give = () => counters.giveBack(account, day, 2 * units);",
  },
];
