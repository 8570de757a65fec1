import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parseNote } from "../../snapshots/format/note.ts";
import { layout } from "../../snapshots/store/layout.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../snapshots/trust/notes/signed-note.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { marketsOf, publishRecords } from "../helpers/publish/records.ts";
import { linkedStore } from "../helpers/store/linked-store.ts";
import { policyOfTwo, testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// A thief has every right on the store, but none of the private keys. What proxies that trust one public key tell of
// that, and of what was before. What becomes of each way to alter a store is in test/snapshots/trust/attacks.test.ts.

const folder = testFolder();
const ours = testKey();
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

const logOf = (proxy: TestProxy) => proxy.logged.filter((line) => line.includes('"level":50')).join("\n");
const statusOf = async (proxy: TestProxy) => (await proxy.get("/api/v1/status")).json();
const commitOf = async (proxy: TestProxy): Promise<number> => (await statusOf(proxy)).commit;
/** Waits until the proxy has looked into the store this many more times. */
async function polls(proxy: TestProxy, count: number): Promise<void> {
  const before = await proxy.measured("prs_polls_total");
  await until(`${count} polls`, async () => (await proxy.measured("prs_polls_total")) >= before + count);
}

test("what a thief puts into the store is logged and counted once, not at every poll, and hides no good commit after it", async () => {
  const storage = await signedStore();
  const proxy = await proxyOn(storage);
  const forged = layout.commit(4);
  const lines = () => proxy.logged.filter((line) => line.includes(`${forged}: nobody signed it`)).length;
  await publishForged(storage);
  await until("the proxy to say why", () => lines() > 0);
  await polls(proxy, 10);
  // The commit and the record of the run.
  expect([lines(), await proxy.measured("prs_untrusted_total")]).toEqual([1, 2]);

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
  expect(await forgetful.measured("prs_untrusted_total")).toBe(1);

  await Promise.all([again.stop(), forgetful.stop()]);
});

test("what too few witnesses cosigned is not taken up, which the log says, until enough have", async () => {
  const trustPolicy = join(folder, "policy");
  const witnesses = [0, 1, 2].map((n) =>
    testKey(`witness.example/w${n}`, "", n === 1 ? "ml-dsa-44" : "cosignature-ed25519"),
  );
  const vkeys = witnesses.map((key) => ({ vkey: verifierText(key) }));
  await writeFile(trustPolicy, policyOfTwo(ours, vkeys));
  const storage = await signedStore();
  const proxy = await proxyOn(storage, { trustPolicy, trustedKeys: undefined });
  expect((await proxy.get("/readyz")).status).toBe(503);
  expect(logOf(proxy)).toContain(
    `${layout.logCheckpoint}: the quorum two is not reached: no witness cosigned`,
  );
  const note = String(await storage.get(layout.logCheckpoint));
  const lines = witnesses.slice(0, 2).map((key) => `${signatureLine(key, parseNote(note).text)}\n`);
  for (const key of [layout.logCheckpointOf(3), layout.logCheckpoint])
    await storage.put(key, Buffer.from(note + lines.join("")));
  await until("the third commit", async () => (await commitOf(proxy)) === 3);
  expect((await proxy.get("/readyz")).json()).toMatchObject({ status: "ready", heldBack: null });
  await proxy.stop();
  await expect(proxyOn(storage, { trustedKeys: undefined, checkpointFile: "x" })).rejects.toThrow(
    /needs TRUST_POLICY or TRUSTED_KEYS/,
  );
});
