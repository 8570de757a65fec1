import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseNote } from "../../snapshots/format/note.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { openStorage } from "../../snapshots/store/open-storage.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { type SigningKey, verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../snapshots/trust/notes/signed-note.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { market, publishRecords } from "../helpers/publish/records.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// A proxy takes up what two of three witnesses cosigned. Here they cosign what they are told to.

const folder = testFolder();
const log = testKey();
const [w0, w1, w2] = [0, 1, 2].map((n) =>
  testKey(`witness.example/w${n}`, "", n === 1 ? "ml-dsa-44" : "cosignature-ed25519"),
) as [SigningKey, SigningKey, SigningKey];
let storage: Storage;
let proxy: TestProxy;
const publish = (bri: number) => publishRecords(storage, [market(1)], bri, { signing: { key: log } });

async function cosign(...keys: SigningKey[]): Promise<void> {
  const note = String(await storage.get(layout.logCheckpoint));
  const { text } = parseNote(note);
  const signed = note + keys.map((key) => `${signatureLine(key, text)}\n`).join("");
  for (const key of [layout.logCheckpointOf(Number(text.split("\n")[1])), layout.logCheckpoint])
    await storage.put(key, Buffer.from(signed));
}

const ready = async () => (await proxy.get("/readyz")).json();
const text = (quorum: string) =>
  [
    `log ${verifierText(log)}`,
    ...[w0, w1, w2].map((key, n) => `witness w${n} ${verifierText(key)}`),
    "group two 2 w0 w1 w2",
    `quorum ${quorum}\n`,
  ].join("\n");

beforeAll(async () => {
  storage = await openStorage(join(folder, "store"), folder);
  await writeFile(join(folder, "policy"), text("two"));
  await publish(601);
  await cosign(w0, w1);
  proxy = await start();
});
afterAll(() => proxy.stop());

const start = () =>
  startTestProxy({
    empty: true,
    snapshotStore: join(folder, "store"),
    trustPolicy: join(folder, "policy"),
    checkpointFile: join(folder, "checkpoint"),
  });

test("what too few cosigned is not taken up, which the log, a metric and /readyz tell, until enough have", async () => {
  expect(await ready()).toMatchObject({ commit: 1, heldBack: null });
  await publish(602);
  await cosign(w2);
  const reason = `${layout.logCheckpoint}: the quorum two is not reached: w2 cosigned; w0, w1 did not`;
  await until("the reason", async () => (await ready()).heldBack === reason);
  expect(await ready()).toMatchObject({ status: "ready", commit: 1 });
  expect(proxy.logged.filter((line) => line.includes(reason))).toHaveLength(1);
  expect(await proxy.measured("prs_untrusted_total")).toBeGreaterThan(0);
  await proxy.stop();
  proxy = await start();
  expect(await ready()).toMatchObject({ commit: 1, heldBack: reason });

  await cosign(w0);
  await until("the second commit", async () => (await ready()).commit === 2);
  expect(await ready()).toMatchObject({ heldBack: null });
});

// That of a wrong policy, or of one beside keys, is in test/scripts/sessions.
test("the start is refused with a file of checkpoints that nothing vouches for", async () => {
  const options = { empty: true, snapshotStore: join(folder, "store"), checkpointFile: "x" };
  await expect(startTestProxy(options)).rejects.toThrow(/needs TRUST_POLICY or TRUSTED_KEYS/);
});
