import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { readExported } from "../../snapshots/export/export-records.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { seal } from "../../snapshots/store/objects.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import {
  parseCheckpoint,
  signCheckpoint,
  signNote,
  signRecord,
} from "../../snapshots/trust/notes/signed-note.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../helpers/http/proxy.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { marketsOf, publishRecords } from "../helpers/publish/records.ts";
import { linkedStore } from "../helpers/store/linked-store.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// A thief has every right on the store, but none of the private keys. Proxies trust one public key. Nothing that the
// thief made is served, by a proxy that was running or by one that starts afterwards; what was good goes on being
// served. What becomes of each way to alter the log is in test/snapshots/trust/attacks.test.ts, and of what it was before
// in test/snapshots/read/catalog/commit-log.test.ts.

const folder = testFolder();
const ours = testKey();
/** Keys that a thief can make: one of the same name, and one of another. */
const thiefs = [testKey(ours.name, "thief"), testKey("thief.example")] as const;
const trustedKeys = join(folder, "trusted.keys");
beforeAll(() => writeFile(trustedKeys, `# publishers\n\n${verifierText(ours)}\n`));

const records = (count: number) => marketsOf(0, count);
const bris = [600, 650, 700];
/** When the commits of the store were published. */
const days = ["2026-02-26", "2026-02-27", "2026-02-28"] as const;

/** A store of three signed commits. */
const signedStore = () =>
  linkedStore(folder, "signed", async (storage) => {
    for (const [index, bri] of bris.entries())
      await publishRecords(storage, records(30 + 5 * index), bri, {
        signing: { key: ours },
        now: () => new Date(days[index]!),
      });
  });
const proxyOn = ({ location }: Storage, options: TestProxyOptions = {}) =>
  startTestProxy({ empty: true, snapshotStore: location, trustedKeys, ...options });

const publishForged = (storage: Storage) => publishRecords(storage, records(50), 999);
/** What the store's owner publishes next. */
const publishGood = (storage: Storage, bri = 720) =>
  publishRecords(storage, records(45), bri, { signing: { key: ours } });
const commitAt = async (storage: Storage, number: number) => (await readCommit(storage, number))!;

const logOf = (proxy: TestProxy) => proxy.logged.filter((line) => line.includes('"level":50')).join("\n");
const statusOf = async (proxy: TestProxy) => (await proxy.get("/api/v1/status")).json();
const commitOf = async (proxy: TestProxy): Promise<number> => (await statusOf(proxy)).commit;
const metric = async (proxy: TestProxy, name: string) => {
  const found = await proxy.metrics.getSingleMetric(name)!.get();
  return found.values.reduce((sum, { value }) => sum + value, 0);
};
/** Waits until the proxy has looked into the store this many more times. */
async function polls(proxy: TestProxy, count: number): Promise<void> {
  const before = await metric(proxy, "prs_polls_total");
  await until(`${count} polls`, async () => (await metric(proxy, "prs_polls_total")) >= before + count);
}

describe("what a thief puts into the store", () => {
  test("is logged and counted once, not at every poll, and hides no good commit after it", async () => {
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
    const forged = layout.commit(4);
    const lines = () => proxy.logged.filter((line) => line.includes(`${forged}: nobody signed it`)).length;
    await publishForged(storage);
    await until("the proxy to say why", () => lines() > 0);
    await polls(proxy, 10);
    // The commit and the record of the run.
    expect([lines(), await metric(proxy, "prs_untrusted_total")]).toEqual([1, 2]);

    // The owner cannot use the number before the forged commit is deleted.
    await expect(publishGood(storage)).rejects.toThrow(/delete commits\/0000000004\.json, and run again/);
    await storage.delete(forged);
    expect(await publishGood(storage)).toMatchObject({ outcome: "published", commit: 4 });
    await until("the good commit", async () => (await commitOf(proxy)) === 4);

    // One that is passed over: it was made by mistake without a key, and signed over.
    await publishForged(storage);
    await publishRecords(storage, records(46), 730, { signing: { key: ours, over: 5 } });
    await until("the commit that was signed over another", async () => (await commitOf(proxy)) === 6);
    await proxy.stop();
  });

  test("as the public checkpoint is not served as the checkpoint, nor what is added to it", async () => {
    const storage = await signedStore();
    const note = String(await storage.get(layout.logCheckpoint));
    const forged = [
      signCheckpoint({ key: thiefs[0] }, { size: 3, head: parseCheckpoint(note).head }),
      `${note}— buy.example ${Buffer.alloc(68).toString("base64")}\n`,
    ];
    for (const text of forged) {
      await storage.put(layout.logCheckpoint, Buffer.from(text));
      const proxy = await proxyOn(storage);
      for (const path of ["/api/v1/checkpoint", "/api/v1/log/checkpoint"]) {
        const answer = await proxy.get(path);
        expect([answer.status, answer.text]).toEqual([200, note]);
        expect(answer.headers["content-type"]).toBe("text/plain; charset=utf-8");
      }
      await proxy.stop();
    }
  });

  test("as an export is neither listed nor served, and no byte of what was is another", async () => {
    const storage = await linkedStore(folder, "exported", async (made) => {
      for (const bri of bris) await publishRecords(made, records(30), bri, { signing: { key: ours } });
      await exportNewest(made, folder, { signing: { key: ours } });
    });
    const theirs = await linkedStore(folder, "forged export", async (made) => {
      await publishForged(made);
      await exportNewest(made, folder);
    });
    const { snapshotId } = (await commitAt(storage, 3)).entry;
    const { digest: _, note: __, ...good } = (await readExported(storage, layout.exportRecord, snapshotId))!;
    const { entry: forged } = await commitAt(theirs, 1);
    const { files } = (await readExported(theirs, layout.exportRecord, forged.snapshotId))!;
    for (const prefix of [layout.exportFile.prefix, layout.exportChunks.prefix])
      for await (const { key } of theirs.list(prefix)) await storage.put(key, (await theirs.get(key))!);
    const proxy = await proxyOn(storage);
    const key = await proxy.issue();
    const ask = (path: string) => proxy.get(path, { headers: bearer(key) });
    const listed = async () => {
      // Beyond the time for which a listing serves.
      proxy.clock.now += 60_000;
      return (await ask("/api/v1/markets/exports")).json().exports;
    };
    const [whole] = await listed();
    const { url, sha256: hash } = whole.files[0];
    const { body } = await ask(url);
    expect(sha256(body)).toBe(hash);

    const forgedRecord = { ...good, files };
    const subject = `export ${snapshotId}`;
    // What else a signature may be for is tried of commits in attacks.txt of trust, by the same code.
    const signs = [() => ({}), signRecord(thiefs[0], subject), signRecord(ours, `export ${"0".repeat(64)}`)];
    // An older snapshot's record under the name of another, and a record of a commit that there is not.
    const older = (await commitAt(storage, 2)).entry.snapshotId;
    const misplaced = [
      { ...good, snapshotId: older },
      { ...good, commit: 4 },
    ].map((content) => seal(content, signRecord(ours, subject)));
    for (const record of [...signs.map((sign) => seal(forgedRecord, sign)), ...misplaced]) {
      await storage.put(layout.exportRecord(snapshotId), record);
      expect(await listed()).toEqual([]);
      expect((await ask(url)).status).toBe(404);
    }
    expect(logOf(proxy)).toMatch(/exports\/records\/[0-9a-f]{64}\.json: nobody signed it/);
    await storage.put(layout.exportRecord(snapshotId), seal(good, signRecord(ours, subject)));
    expect(await listed()).toEqual([whole]);

    // What the record names, with other content.
    const [their, our] = [files[0]!, good.files[0]!];
    const foreign = (await theirs.get(layout.exportFile(their.hash)))!;
    const file = (await storage.get(layout.exportFile(our.hash)))!;
    for (const bytes of [file.subarray(0, -1), foreign]) {
      await storage.put(layout.exportFile(our.hash), bytes);
      expect((await ask(url)).status).toBe(503);
    }
    await storage.put(
      layout.exportChunks(our.chunks.hash),
      (await theirs.get(layout.exportChunks(their.chunks.hash)))!,
    );
    const cold = await proxyOn(storage);
    expect((await cold.get(url, { headers: bearer(key) })).status).toBe(503);
    await Promise.all([proxy.stop(), cold.stop()]);
  });

  test("as the record of the last run does not make old data look fresh", async () => {
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
    const { checkedAt } = await statusOf(proxy);
    const run = { checkedAt: "2026-03-01T11:59:00.000Z", commit: 3, outcome: "unchanged" };
    const before = await metric(proxy, "prs_untrusted_total");
    for (const sign of [() => ({}), signRecord(thiefs[0], `checked ${run.checkedAt}`)]) {
      await storage.put(layout.checked, seal(run, sign));
      await until("the proxy to say why", () => metric(proxy, "prs_untrusted_total").then((n) => n > before));
      await polls(proxy, 2);
      expect((await statusOf(proxy)).checkedAt).toBe(checkedAt);
    }
    expect(logOf(proxy)).toMatch(/checked\.json: nobody signed it/);
    await storage.put(layout.checked, seal(run, signRecord(ours, `checked ${run.checkedAt}`)));
    await until("the owner's record", async () => (await statusOf(proxy)).checkedAt === run.checkedAt);
    await proxy.stop();
  });
});

test("after a restart an older state is refused by CHECKPOINT_FILE, and without it the log says so", async () => {
  const checkpointFile = join(folder, "newest.checkpoint");
  const storage = await signedStore();
  const first = await proxyOn(storage, { checkpointFile });
  expect(await commitOf(first)).toBe(3);
  await first.stop();
  await storage.put(layout.logCheckpoint, (await storage.get(layout.logCheckpointOf(2)))!);
  for (const key of [layout.commit(3), layout.logCheckpointOf(3)]) await storage.delete(key);

  const again = await proxyOn(storage, { checkpointFile });
  expect((await again.get("/api/v1/status")).status).toBe(503);
  expect(logOf(again)).toMatch(/checkpoint: it is of 2 entries .* does not continue the log of 3 entries/);
  const forgetful = await proxyOn(storage);
  expect(await commitOf(forgetful)).toBe(2);
  expect(forgetful.logged.join()).toContain("CHECKPOINT_FILE is not set");
  // The record of the last run is signed, and names commit 3: it says nothing of commit 2, and that one is gone.
  expect((await statusOf(forgetful)).checkedAt).toBe(`${days[1]}T00:00:00.000Z`);
  await until("the proxy to tell", () =>
    /checked\.json: it is signed and names commit 3, which the log does not have/.test(logOf(forgetful)),
  );
  expect(await metric(forgetful, "prs_untrusted_total")).toBe(1);

  await Promise.all([again.stop(), forgetful.stop()]);
});

test("a start is refused with files of keys, or of a checkpoint, that cannot be used", async () => {
  await writeFile(join(folder, "bad.keys"), `# ours\n${verifierText(ours)}\n${verifierText(ours)}x\n`);
  await writeFile(join(folder, "empty.keys"), "# none\n");
  const text = `${ours.name}\n3\n${"A".repeat(43)}=\nsnapshot ${"0".repeat(64)}\n`;
  await writeFile(join(folder, "old"), signNote(text, ours));
  const storage = await signedStore();
  const at = (file: string | undefined) => file && join(folder, file);
  const bad: [keys: string | undefined, checkpointFile: string | undefined, RegExp][] = [
    ["missing", undefined, /TRUSTED_KEYS: .*missing cannot be read/],
    ["bad.keys", undefined, /TRUSTED_KEYS: .*bad\.keys, line 3: its last part is not base64/],
    ["empty.keys", undefined, /TRUSTED_KEYS: .*empty\.keys holds no key/],
    ["trusted.keys", "bad.keys", /CHECKPOINT_FILE: .*bad\.keys cannot be used/],
    ["trusted.keys", "old", /CHECKPOINT_FILE: .*old cannot be used: .* format 2, .* only keys\//],
    [undefined, "x", /CHECKPOINT_FILE needs TRUST_POLICY or TRUSTED_KEYS/],
  ];
  for (const [keys, checkpointFile, reason] of bad)
    await expect(
      proxyOn(storage, { trustedKeys: at(keys), checkpointFile: at(checkpointFile) }),
    ).rejects.toThrow(reason);
});

test("a key is changed without a gap, while a proxy runs that trusts both", async () => {
  const next = testKey(ours.name, "next");
  const both = join(folder, "both.keys");
  await writeFile(both, [ours, next].map((key) => `${verifierText(key)}\n`).join(""));
  const storage = await signedStore();
  const old = await proxyOn(storage);
  const proxy = await proxyOn(storage, { trustedKeys: both });
  // The new publisher must know the old key, and then signs at once, even though it has nothing new.
  const content = [records(40), 700] as const;
  await expect(publishRecords(storage, ...content, { signing: { key: next } })).rejects.toThrow(
    /--sign-over 3/,
  );
  const signing = { key: next, trusted: [ours] };
  for (const outcome of ["published", "unchanged"])
    expect(await publishRecords(storage, ...content, { signing })).toMatchObject({ outcome, commit: 4 });
  await until("the commit of the new key", async () => (await commitOf(proxy)) === 4);
  await expect(publishGood(storage, 740)).rejects.toThrow(/no trusted key signed it/);
  await publishRecords(storage, records(41), 741, { signing: { key: next } });
  await until("the next one", async () => (await commitOf(proxy)) === 5);
  expect(await commitOf(old)).toBe(3);
  await Promise.all([proxy.stop(), old.stop()]);
});
