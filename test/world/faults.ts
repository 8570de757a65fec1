/** A fault: the text of a file that it takes the place of, once. */
export interface Fault {
  name: string;
  file: string;
  text: string;
  fault: string;
}

/** Each with its file, the text that goes and the one that comes. */
export const faults: readonly Fault[] = `
a publisher does not look for collections: snapshots/publish/commit-snapshot.ts
- await refuseCollected(storage, written, namesOfProtocols(manifest));
+ {}

a publisher does not look again before its commit: snapshots/publish/commit-snapshot.ts
- await refuseCollected(storage, new Set([layout.manifest(ref.hash)]), namesOfProtocols(manifest));
+

gc does not look twice: snapshots/maintain/gc.ts
- const unchanged = batch.filter((info) => isDeepStrictEqual(still.get(info.key), info));
+ const unchanged = isDeepStrictEqual(still, 0) ? [] : batch;

gc counts commits that nobody signed: snapshots/maintain/gc.ts
- countedLog(storage, options)
+ countedLog(storage, { anybody: true })

gc takes what a run has just written for old: snapshots/maintain/gc.ts
- const hours = mayBeOfARun ? Math.max(keepHours, runHours) : keepHours;
+ const hours = mayBeOfARun ? keepHours : keepHours;

gc keeps one commit less than it is told: snapshots/maintain/commits.ts
- index >= commits.length - keepCommits
+ index > commits.length - keepCommits

gc goes by a clock that is ahead: snapshots/store/log/gc-records.ts
- if (machine.getTime() - store.getTime() <= 3_600_000) return;
+ if (machine.getTime() >= 0) return;

nobody looks for commits after the hint: snapshots/store/log/commits.ts
- return next.value ? lastAfter(storage, next.value, number + mostSteps) : commit.value;
+ return commit.value;

a number that is taken counts as one's own: snapshots/store/log/commits.ts
- if (stored.equals(bytes)) return
+ if (!(created instanceof StorageError) || stored.equals(bytes)) return

a rollback does not write what it brings back: snapshots/maintain/rollback.ts
- await storage.put(key, await readObject(storage, key, ref));
+ await readObject(storage, key, ref);

a reader goes back with its store: snapshots/trust/log/log-reader.ts
- if (least) await requireContinued(storage, least, checkpoint, file);
+ if (!least && least) await requireContinued(storage, least, checkpoint, file);

a run that another one has followed counts as set back: snapshots/trust/log/believe.ts
- if (followed) continue;
+

changes are told forwards alone: snapshots/read/changes/changes.ts
- from.commit <= to.commit ? steps : back
+ from.commit <= to.commit || back ? steps : back

a look back meets what was withdrawn: snapshots/read/catalog/commit-log.ts
- entry.publishedAt <= time && !this.isWithdrawn(entry.commit)
+ entry.publishedAt <= time

a facet tells too many that are disputed: snapshots/read/archive/count-facets.ts
- addTo(other, { count: -counts[id]!, disputed: -disputed[id]! });
+ addTo(other, { count: -counts[id]!, disputed: 0 });

a copy is put in place before it is on the disk: scripts/copy/copy-folder.ts
- for (const path of [this.work("archive.ndjson"), statePath, indexPath, work]) await syncPath(path);
+

a copy keeps what has changed: scripts/copy/lines.ts
- if (named.has(idOf(line))) continue;
+

a key is served for an hour after it has expired: snapshots/keys/keys.ts
- Date.parse(record.expiresAt) <= now()
+ Date.parse(record.expiresAt) <= now() - 3_600_000

of two revocations the last one counts: snapshots/keys/keys.ts
- ends.set(id, Math.min(object, ends.get(id) ?? object));
+ ends.set(id, object);

an export does not look for collections: snapshots/maintain/export.ts
- await refuseCollected(storage, new Set(objectsOf(files)), [key]);
+

gc keeps the newest export alone: snapshots/maintain/gc.ts
- index < newestExports
+ index < 1

a unit is given back twice: proxy/quota/quota.ts
- const give = () => counters.giveBack(account, day, units);
+ const give = () => counters.giveBack(account, day, 2 * units);
`
  .trim()
  .split("\n\n")
  .map((each) => {
    const [, name = "", file = "", text = "", fault = ""] = /^(.*): (.*)\n- (.*)\n\+ ?(.*)$/.exec(each) ?? [];
    return { name, file, text, fault };
  });
