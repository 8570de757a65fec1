import type { Commit } from "../../schemas/store/snapshot.ts";
import { ObjectError, unless } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { logFrom } from "../store/log/commit-chain.ts";
import { seal } from "../store/records.ts";
import type { Storage } from "../store/storage.ts";
import { signRecord, subjectOf } from "../trust/notes/record-notes.ts";
import { type Signing, trustOf } from "../trust/signing.ts";
import { readSoundChanges, readSoundExport } from "./export-records.ts";

/**
 * Signs the exports of the commit that a run signs over and of those before it, back to one that a trusted key signed.
 * Call it before the commit: a run that breaks off then repeats all of it.
 */
export async function signExportsOf(storage: Storage, newest: Commit, signing: Signing): Promise<void> {
  const { key, over } = signing;
  const trust = trustOf(signing);
  if (!key || !trust || over !== newest.commit) return;
  const stored = new Set<string>();
  for (const prefix of [layout.exportRecord.prefix, layout.exportedChanges.prefix])
    for await (const info of storage.list(prefix)) stored.add(info.key);
  const sign = async (
    name: string,
    record: { digest: string; note?: string | undefined },
    subject: string,
  ) => {
    const { digest: _, note: __, ...content } = record;
    await storage.put(name, seal(content, signRecord(key, subject)));
  };
  // Exports of commits that the log does not lead back to do not count.
  await unless(ObjectError, async () => {
    for await (const commit of logFrom(storage, newest)) {
      if (!trust.commit(commit)) return;
      const exported = layout.exportRecord(commit.snapshotId);
      const record = stored.has(exported) && (await readSoundExport(storage, commit.snapshotId));
      if (record && trust.export(record)) await sign(exported, record, subjectOf.export(record));
      const { hash } = commit.changes ?? {};
      const name = hash && layout.exportedChanges(hash);
      const changes = name && stored.has(name) && (await readSoundChanges(storage, hash));
      if (changes && trust.changes(changes)) await sign(name, changes, subjectOf.changes(changes));
    }
  });
}
