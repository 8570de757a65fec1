import { describe, expect, test } from "vitest";
import { readExported } from "../../snapshots/export/export-records.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { newestCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { seal } from "../../snapshots/store/objects.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { parseCheckpoint, signCheckpoint, signRecord } from "../../snapshots/trust/notes/signed-note.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import {
  addresses,
  answersOf,
  bris,
  commitAt,
  commitOf,
  expectNothingForeign,
  following,
  logOf,
  metric,
  ours,
  polls,
  publishGood,
  putCommit,
  records,
  robbedStores,
  thiefs,
} from "../helpers/attack/thief.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { publishRecords, slugs } from "../helpers/publish/records.ts";
import { linkedStore } from "../helpers/store/linked-store.ts";

// A thief has every right on the store, but none of the private keys. Proxies trust one public key. Nothing that the
// thief made is served, by a proxy that was running or by one that starts afterwards; what was good goes on being
// served. Other ways to alter the log are in test/snapshots/trust/attacks.test.ts.

const { folder, signedStore, proxyOn } = robbedStores();

const forged = layout.commit(4);
const publishForged = (storage: Storage) => publishRecords(storage, records(50), 999);

/** Each does something to the store; proxies log the reason for which they do not take it up. */
const attacks: [name: string, attack: (storage: Storage) => Promise<unknown>, logged: RegExp][] = [
  [
    "a commit signed by a key that nobody trusts",
    (storage) => publishRecords(storage, records(50), 999, { signing: { key: thiefs[0]!, over: 3 } }),
    /commits\/0000000004.json: its signature does not count: no trusted key signed it/,
  ],
  [
    "other content in the newest commit, under its own number",
    async (storage) => {
      const { note } = await commitAt(storage, 3);
      const next = await following(storage);
      await putCommit(storage, { ...next, entry: { ...next.entry, commit: 3 } }, () => note!);
    },
    /commits\/0000000003.json: its entry is not the last one of the signed log/,
  ],
];

describe("what a thief puts into the store", () => {
  test.for(attacks)("%s is not served, and the log says why", async (row) => {
    const [, attack, logged] = row;
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
    const key = await proxy.issue();
    const good = await answersOf(proxy, key);
    expect([...good.values()].map(({ status }) => status)).toEqual(addresses.map(() => 200));

    await attack(storage);
    await until("the proxy to say why", () => logged.test(logOf(proxy)));
    // The second takes away what one that starts then would begin with.
    const another = row === attacks[0] ? [await proxyOn(storage)] : [];
    for (const each of [proxy, ...another]) {
      await expectNothingForeign(each, key, good);
      expect(await commitOf(each)).toBe(3);
      await each.stop();
    }
  });

  test("is logged and counted once, not at every poll, and hides no good commit after it", async () => {
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
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

  test("in objects, under all their names, is not served", async () => {
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
    const key = await proxy.issue();
    const good = await answersOf(proxy, key);
    const { scores } = await readManifest(storage, (await newestCommit(storage))!);
    const objects = [scores.list, ...Object.values(scores.records)].map(({ hash }) =>
      layout.publicObject(hash),
    );
    const names = [layout.stableScoreList, ...slugs.map(layout.stableScore)];
    for await (const { key: page } of storage.list(layout.page.prefix)) objects.push(page);
    for (const each of [...objects, ...names]) {
      const bytes = (await storage.get(each))!;
      await storage.put(each, Buffer.from(bytes.toString("latin1").replace("700", "999"), "latin1"));
    }
    await expectNothingForeign(proxy, key, good);
    // This one has nothing in memory.
    const cold = await proxyOn(storage);
    await expectNothingForeign(cold, key, good);
    await Promise.all([proxy.stop(), cold.stop()]);
  });

  test("as the public checkpoint is not served as the checkpoint, nor what is added to it", async () => {
    const storage = await signedStore();
    const note = String(await storage.get(layout.logCheckpoint));
    const forged = [
      signCheckpoint({ key: thiefs[0]! }, { size: 3, head: parseCheckpoint(note).head }),
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
      await publishRecords(made, records(50), 999);
      await exportNewest(made, folder);
    });
    const { snapshotId } = (await commitAt(storage, 3)).entry;
    const { digest, note, ...good } = (await readExported(storage, layout.exportRecord, snapshotId))!;
    const { files } = (await readExported(
      theirs,
      layout.exportRecord,
      (
        await commitAt(theirs, 1)
      ).entry.snapshotId,
    ))!;
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
    const signs: ((digest: string) => { note?: string | undefined })[] = [
      () => ({}),
      () => ({ note: note! }),
      ...thiefs.map((thief) => signRecord(thief, subject)),
      () => signRecord(ours, subject)(digest),
      (other) => signRecord(ours, `export ${"0".repeat(64)}`)(other),
      (other) => signRecord(ours, `checked ${good.publishedAt}`)(other),
    ];
    for (const sign of signs) {
      await storage.put(layout.exportRecord(snapshotId), seal(forgedRecord, sign));
      expect(await listed()).toEqual([]);
      expect((await ask(url)).status).toBe(404);
    }
    expect(logOf(proxy)).toMatch(/exports\/records\/[0-9a-f]{64}\.json: nobody signed it/);
    // An older snapshot's record under the name of another, and a record of a commit that there is not.
    const older = (await commitAt(storage, 2)).entry.snapshotId;
    for (const content of [
      { ...good, snapshotId: older },
      { ...good, commit: 4 },
    ]) {
      await storage.put(layout.exportRecord(snapshotId), seal(content, signRecord(ours, subject)));
      expect(await listed()).toEqual([]);
    }
    await storage.put(layout.exportRecord(snapshotId), seal(good, signRecord(ours, subject)));
    expect(await listed()).toEqual([whole]);

    // What the record names, with other content.
    const [their, our] = [files[0]!, good.files[0]!];
    const file = (await storage.get(layout.exportFile(our.hash)))!;
    await storage.put(layout.exportFile(our.hash), (await theirs.get(layout.exportFile(their.hash)))!);
    expect((await ask(url)).status).toBe(503);
    await storage.put(layout.exportFile(our.hash), file.subarray(0, -1));
    expect((await ask(url)).status).toBe(503);
    await storage.put(layout.exportFile(our.hash), (await theirs.get(layout.exportFile(their.hash)))!);
    await storage.put(
      layout.exportChunks(our.chunks.hash),
      (await theirs.get(layout.exportChunks(their.chunks.hash)))!,
    );
    const cold = await proxyOn(storage);
    expect((await cold.get(url, { headers: bearer(key) })).status).toBe(503);
    await Promise.all([proxy.stop(), cold.stop()]);
  });
});
