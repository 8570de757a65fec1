import { expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Signing } from "../../../snapshots/trust/log/believe.ts";
import type { SigningKey } from "../../../snapshots/trust/notes/note-keys.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { market, publishRecords, slugs } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// What the commands make of keys is in test/scripts/sessions/signing.txt.

const folder = testFolder();
const ours = testKey();
const other = testKey("other.example");
const records = [market(1), market(2), market(3)];

type Objects = Map<string, Buffer>;

/** A store whose commits are signed by these keys; undefined stands for an unsigned one. */
async function storeOf(...keys: (SigningKey | undefined)[]): Promise<Objects> {
  const objects: Objects = new Map();
  for (const [index, key] of keys.entries()) {
    const signing = key ? { key, trusted: [ours, other], over: index } : {};
    await publishRecords(memoryStorage(objects), records, 600 + index, { signing });
  }
  return objects;
}

async function faults(objects: Objects, ...trusted: SigningKey[]): Promise<string[]> {
  const trust = trusted.length > 0 ? new Trust(trusted) : undefined;
  return (await verify(memoryStorage(objects), () => {}, { trust })).faults.map(({ key }) => key);
}

test("verify names the commits that no trusted key signed, unless one leads to them that is signed", async () => {
  for (const keys of [
    [ours, ours],
    [undefined, undefined, ours],
    [ours, other],
  ])
    expect(await faults(await storeOf(...keys), ours, other)).toEqual([]);
  const of = (number: number) => layout.commit(number);
  // The public names show the foreign snapshot, too.
  const names = [layout.stableScoreList, ...slugs.map(layout.stableScore).sort()];
  const foreign = [layout.logCheckpoint, layout.logCheckpointOf(2)];
  expect(new Set(await faults(await storeOf(ours, other), ours))).toEqual(
    new Set([of(2), ...names, ...foreign, layout.checked]),
  );
  expect(new Set(await faults(await storeOf(other, ours), ours))).toEqual(
    new Set([of(1), layout.logCheckpointOf(1)]),
  );
  expect(await faults(await storeOf(ours, undefined), ours)).toEqual([of(2), ...names, layout.checked]);
  expect(await faults(await storeOf(undefined, undefined), ours)).toEqual([of(2), of(1), layout.checked]);
});

test("verify compares notes with their commits although no key is trusted", async () => {
  const good = await storeOf(ours, ours);
  const commit = JSON.parse(String(good.get(layout.commit(2))));
  const before = JSON.parse(String(good.get(layout.commit(1))));
  for (const note of ["", "x", before.note, commit.note.replace(" 2\n", " 3\n")]) {
    const objects = new Map(good).set(layout.commit(2), Buffer.from(JSON.stringify({ ...commit, note })));
    expect(await faults(objects)).toContain(layout.commit(2));
  }
});

test.for(["publish", "rollback"])("what a %s signs over is signed with its exports", async (by) => {
  const objects = await storeOf(ours);
  const storage = memoryStorage(objects);
  const exported = (signing: Signing) => exportNewest(storage, folder, { changes: true, signing });
  await exported({ key: ours });
  const forged = layout.exportRecord((await newestCommit(storage))!.entry.snapshotId);
  for (const bri of [700, 800]) {
    await publishRecords(storage, [...records, market(bri)], bri);
    await exported({ unsigned: true });
  }
  expect((await faults(objects, ours)).filter((key) => key.startsWith("private/exports/"))).toHaveLength(4);
  // What somebody put for a commit that was signed is not signed with the others.
  const { digest: _, note: __, ...record } = JSON.parse(String(objects.get(forged)));
  objects.set(forged, seal(record));
  const signing = { key: ours, over: 3 };
  if (by === "publish") await publishRecords(storage, [...records, market(800)], 800, { signing });
  else
    await rollback(storage, "2", () => new Date("2026-03-02T00:00:00.000Z"), {
      site: publishedSite,
      signing,
    });
  const left = by === "publish" ? [forged] : [layout.checked, forged];
  expect((await faults(objects, ours)).sort()).toEqual(left);
});
