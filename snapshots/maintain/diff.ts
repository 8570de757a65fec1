import { Fault } from "../../schemas/errors.ts";
import type { Commit, Manifest, NamedObject } from "../../schemas/store/stored-objects.ts";
import { difference, Entries, type Sides } from "../changes/difference.ts";
import { rowOf } from "../changes/record.ts";
import { detailCount, protocolChanges, summaryOf } from "../changes/summary.ts";
import { differingRows } from "../changes/walk.ts";
import { MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readManifest } from "../store/manifest.ts";
import { objectsIn } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { readRunLog, type Signing } from "../trust/log/believe.ts";
import { findCommit } from "./commits.ts";

/**
 * `older` and `newer` are each a commit number, or the first 8 or more digits of a snapshot id. Reads only what
 * differs. With keys in `signing`, one of them must have signed the newest commit.
 */
export async function diff(storage: Storage, older: string, newer: string, signing: Signing = {}) {
  const { newest } = await readRunLog(storage, signing);
  if (!newest) throw new Fault("SNAPSHOT_NOT_FOUND", `${storage.location}: nothing has been published yet`);
  const [since, until] = [await findCommit(storage, older, newest), await findCommit(storage, newer, newest)];
  const before = await manifestOf(storage, since);
  const after = await manifestOf(storage, until, before);
  const read = objectsIn(storage);
  const record = (ref: NamedObject) => read(layout.publicObject(ref.hash), ref);
  const named = ({ entry: { commit, snapshotId } }: Commit) => ({ commit, snapshotId });
  const sides: Sides = { before: new Entries(), after: new Entries() };
  for await (const rows of differingRows(read, before, after)) {
    if (rows.before) sides.before.add(rowOf(rows.before));
    if (rows.after) sides.after.add(rowOf(rows.after));
  }
  const differences = await difference(sides);
  const count = detailCount(sides, differences);
  for await (const rows of differingRows(read, before, after)) count.add(rows);
  return {
    since: named(since),
    until: named(until),
    changes: {
      markets: { ...summaryOf(sides, differences), details: count.result() },
      protocols: await protocolChanges(before.scores.records, after.scores.records, record),
    },
  };
}

/** `near` may share parts with the manifest. */
async function manifestOf(storage: Storage, commit: Commit, near?: Manifest): Promise<Manifest> {
  try {
    return await readManifest(storage, commit, near);
  } catch (error) {
    const gone = error instanceof MissingObjectError && error.key === layout.manifest(commit.manifest.hash);
    if (!gone) throw error;
    const message = `the snapshot of commit ${commit.entry.commit} has been collected; \`list\` shows the others`;
    throw new Fault("SNAPSHOT_EXPIRED", `${storage.location}: ${message}`, { cause: error });
  }
}
