import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { decodeCursor, encodeCursor } from "../../snapshots/read/archive/paging.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { seal } from "../../snapshots/store/objects.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import {
  recordText,
  signCheckpoint,
  signEntry,
  signNote,
  signRecord,
} from "../../snapshots/trust/notes/signed-note.ts";
import {
  addresses,
  answersOf,
  bris,
  commitAt,
  commitOf,
  days,
  expectNothingForeign,
  logOf,
  metric,
  ours,
  polls,
  publishGood,
  putCommit,
  records,
  robbedStores,
  runNote,
  snapshotObjects,
  statusOf,
  thiefs,
} from "../helpers/attack/thief.ts";
import { listen } from "../helpers/http/live-feed.ts";
import type { TestProxy } from "../helpers/http/proxy.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { market, publishRecords, slugs } from "../helpers/publish/records.ts";
import { linkedStore } from "../helpers/store/linked-store.ts";
import { testKey } from "../helpers/store/signing.ts";

const { folder, trustedKeys, signedStore, proxyOn } = robbedStores();

describe("what a thief puts into the past", () => {
  test("in commits of the past reaches neither cursors, the live feed, proofs nor a rollback", async () => {
    const storage = await signedStore();
    // This one has read the log before.
    const proxy = await proxyOn(storage);
    expect((await proxy.get("/api/v1/snapshots")).json().count).toBe(3);
    const [aegis, developer] = [await proxy.issue(), await proxy.issue({ plan: "developer" })];
    const first = await commitAt(storage, 1);
    const archive = "/api/v1/markets/historical?pageSize=10";
    const ask = async (each: TestProxy, path: string, key = aegis) =>
      each.get(path, { headers: bearer(key) });
    const cursorOf = async (each: TestProxy, number: number) => {
      const { nextCursor } = (await ask(each, archive)).json();
      const { snapshotId } = (await commitAt(storage, number)).entry;
      return encodeCursor({ ...decodeCursor(nextCursor), commit: number, snapshotId });
    };
    // Commit 2 becomes the one of a thief, with an archive and scores that are whole; so does its checkpoint.
    const forge = await linkedStore(folder, "forge", async (made) => {
      await publishRecords(made, records(30), bris[0]!);
      await publishRecords(made, records(50), 999, { signing: { key: thiefs[0]!, over: 1 } });
    });
    for await (const { key } of forge.list(""))
      if (!(await storage.get(key))) await storage.put(key, (await forge.get(key))!);
    const theirs = await commitAt(forge, 2);
    await putCommit(storage, { ...theirs, previous: first.digest }, (commit) =>
      signEntry(thiefs[0]!, commit),
    );
    const cold = await proxyOn(storage);
    await until("the proxy to know the key", async () => (await ask(cold, archive)).status === 200);
    for (const each of [proxy, cold]) {
      for (const number of [1, 2]) {
        const answer = await ask(each, `/api/v1/markets/historical?cursor=${await cursorOf(each, number)}`);
        // Before the forged commit nothing can be told from what a thief made up.
        if (each === cold || number === 2) expect([number, answer.status]).not.toEqual([number, 200]);
      }
      const proof = await ask(each, `/api/v1/markets/${market(45).id}/proof`);
      expect(proof.status).toBe(404);
    }
    const since = { since: first.entry.snapshotId };
    await expect(listen(cold.port, developer, since)).rejects.toThrow("503");
    const listener = await listen(proxy.port, developer, since);
    await until("all changes", () => listener.changes().length === 2 * slugs.length);
    const heard = listener.changes().map(({ current }) => current?.bri);
    expect(heard).toEqual([...slugs.map(() => bris[1]), ...slugs.map(() => bris[2])]);
    listener.socket.terminate();
    const signing = { key: ours };
    for (const target of ["1", "2", theirs.entry.snapshotId.slice(0, 12)])
      await expect(rollback(storage, target, () => new Date(), { signing })).rejects.toThrow(/does not lead/);
    await Promise.all([proxy.stop(), cold.stop()]);
  });

  describe("in what asOf asks for", () => {
    const paths = [
      ...addresses.slice(0, -2),
      "/api/v1/markets/facets?by=tier,category",
      `/api/v1/markets/${market(3).id}`,
      `/api/v1/markets/${market(3).id}/proof`,
    ];
    const asOf = (when: string) =>
      paths.map((path) => `${path}${path.includes("?") ? "&" : "?"}asOf=${when}`);
    const statuses = async (proxy: TestProxy, key: string, when: string) => {
      const answers = await answersOf(proxy, key, asOf(when));
      return new Set([...answers.values()].map(({ status }) => status));
    };

    test("a forged older commit is not served, nor what is behind it", async () => {
      const storage = await signedStore();
      const before = await proxyOn(storage);
      const key = await before.issue();
      const good = await answersOf(before, key, days.flatMap(asOf));
      expect([...good.values()].map(({ status }) => status)).toEqual([...good.keys()].map(() => 200));
      await before.stop();

      const forge = await linkedStore(folder, "dated forge", async (made) => {
        await publishRecords(made, records(30), bris[0]!, { now: () => new Date(days[0]!) });
        const signing = { key: thiefs[0]!, over: 1 };
        await publishRecords(made, records(50), 999, { signing, now: () => new Date(days[1]!) });
      });
      for await (const { key: name } of forge.list(""))
        if (!(await storage.get(name))) await storage.put(name, (await forge.get(name))!);
      const [first, second] = [await commitAt(storage, 1), await commitAt(storage, 2)];
      const theirs = await commitAt(forge, 2);
      const sign = (commit: Commit) => signEntry(thiefs[0]!, commit);
      // Sealed and signed by the thief; and with the note of the commit that it replaces.
      for (const note of [sign, () => second.note!]) {
        await putCommit(storage, { ...theirs, previous: first.digest }, note);
        const proxy = await proxyOn(storage);
        await until("the proxy to know the key", async () => (await commitOf(proxy)) === 3);
        await expectNothingForeign(proxy, key, good);
        expect(await statuses(proxy, key, days[2]!)).toEqual(new Set([200]));
        for (const when of [
          days[1]!,
          days[0]!,
          second.entry.snapshotId,
          first.entry.snapshotId,
          theirs.entry.snapshotId,
        ])
          expect([when, await statuses(proxy, key, when)]).toEqual([when, new Set([503])]);
        const { snapshots } = (await proxy.get("/api/v1/snapshots")).json();
        expect(snapshots.map(({ commit }: { commit: number }) => commit)).toEqual([3]);
        await proxy.stop();
      }
    });

    test("changed objects of an old snapshot are not served, under all their names", async () => {
      const storage = await signedStore();
      const before = await proxyOn(storage);
      const key = await before.issue();
      const good = await answersOf(before, key, asOf(days[0]!));
      await before.stop();
      const [old, current] = [await commitAt(storage, 1), await commitAt(storage, 3)];
      const shared = await snapshotObjects(storage, current);
      const own = [...(await snapshotObjects(storage, old))].filter((name) => !shared.has(name));
      expect(own.filter((name) => name.startsWith(layout.page.prefix)).length).toBeGreaterThan(0);
      const warm = await proxyOn(storage);
      for (const name of own) {
        const bytes = (await storage.get(name))!;
        const place = Math.floor(bytes.length / 2);
        const changed = Buffer.from(bytes).fill(bytes[place]! ^ 1, place, place + 1);
        await storage.put(name, changed);
        const cold = await proxyOn(storage);
        await until("the proxy to know the key", async () => (await commitOf(cold)) === 3);
        await expectNothingForeign(cold, key, good);
        await cold.stop();
        await storage.put(name, bytes);
      }
      // And other objects of the store in their place, which are whole.
      for (const prefix of [
        layout.manifest.prefix,
        layout.page.prefix,
        layout.segment.prefix,
        layout.publicObject.prefix,
      ]) {
        const [theirs] = own.filter((name) => name.startsWith(prefix));
        const [other] = [...shared].filter((name) => name.startsWith(prefix));
        await storage.put(theirs!, (await storage.get(other!))!);
      }
      await expectNothingForeign(warm, key, good);
      expect(await statuses(warm, key, days[0]!)).not.toContain(404);
      await warm.stop();
    });
  });

  test("as the record of the last run does not make old data look fresh", async () => {
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
    const { checkedAt } = await statusOf(proxy);
    const run = { checkedAt: "2026-03-01T11:59:00.000Z", commit: 3, outcome: "unchanged" };
    const notes: ((digest: string) => string)[] = [
      ...thiefs.map((key) => (digest: string) => runNote(key, run.checkedAt, digest)),
      () => runNote(ours, run.checkedAt, "0".repeat(64)),
      (digest) => runNote(ours, checkedAt, digest),
      (digest) => signNote(recordText("other.example", `checked ${run.checkedAt}`, digest), ours),
      (digest) => signCheckpoint({ key: ours }, { size: 3, head: Buffer.from(digest, "hex") }),
    ];
    await storage.put(layout.checked, seal(run));
    await until("the proxy to say why", () => /checked\.json: nobody signed it/.test(logOf(proxy)));
    for (const note of notes) {
      const before = await metric(proxy, "prs_untrusted_total");
      await storage.put(layout.checked, seal(run));
      await polls(proxy, 4);
      await storage.put(
        layout.checked,
        seal(run, (digest) => ({ note: note(digest) })),
      );
      await until("another reason", async () => (await metric(proxy, "prs_untrusted_total")) > before);
      expect((await statusOf(proxy)).checkedAt).toBe(checkedAt);
    }
    await storage.put(layout.checked, seal(run, signRecord(ours, `checked ${run.checkedAt}`)));
    await until("the owner's record", async () => (await statusOf(proxy)).checkedAt === run.checkedAt);
    await proxy.stop();
  });
});

describe("after a restart", () => {
  test("an older state is refused by what is kept in CHECKPOINT_FILE, and without it the log says so", async () => {
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

    // Another history, signed by the same key: one was rolled back, say, in a copy of the store.
    for (const key of [layout.logCheckpoint, layout.checked]) await storage.delete(key);
    await publishRecords(storage, records(45), 777, { signing: { key: ours } });
    await polls(again, 4);
    expect((await again.get("/api/v1/status")).status).toBe(503);
    expect(logOf(again)).toMatch(/it is of 3 entries .* does not continue the log of 3 entries/);
    const kept = await readFile(checkpointFile, "utf8");
    await publishGood(storage, 778);
    await until("the fork to be told", () =>
      /it is of 4 entries .* does not continue the log of 3 entries/.test(logOf(again)),
    );
    expect((await again.get("/api/v1/status")).status).toBe(503);
    // What it knows is kept, so another restart does not help either.
    expect(await readFile(checkpointFile, "utf8")).toBe(kept);
    await until("the proxy that remembers nothing", async () => (await commitOf(forgetful)) === 4);
    await Promise.all([again.stop(), forgetful.stop()]);
  });

  const bad: [{ trustedKeys: string | undefined; checkpointFile?: string }, RegExp][] = [
    [{ trustedKeys: "missing" }, /TRUSTED_KEYS: .*missing cannot be read/],
    [{ trustedKeys: "bad.keys" }, /TRUSTED_KEYS: .*bad\.keys, line 3: its last part is not base64/],
    [{ trustedKeys: "empty.keys" }, /TRUSTED_KEYS: .*empty\.keys holds no key/],
    [{ trustedKeys, checkpointFile: "bad.keys" }, /CHECKPOINT_FILE: .*bad\.keys cannot be used/],
    [
      { trustedKeys, checkpointFile: "old" },
      /CHECKPOINT_FILE: .*old cannot be used: .* format 2, .* only keys\//,
    ],
    [{ trustedKeys: undefined, checkpointFile: "x" }, /CHECKPOINT_FILE needs TRUST_POLICY or TRUSTED_KEYS/],
  ];
  test.for(bad)(
    "a bad file stops the start (%#)",
    async ([{ trustedKeys: keys, checkpointFile }, reason]) => {
      await writeFile(join(folder, "bad.keys"), `# ours\n${verifierText(ours)}\n${verifierText(ours)}x\n`);
      await writeFile(join(folder, "empty.keys"), "# none\n");
      const text = `${ours.name}\n3\n${"A".repeat(43)}=\nsnapshot ${"0".repeat(64)}\n`;
      await writeFile(join(folder, "old"), signNote(text, ours));
      const storage = await signedStore();
      const at = (file: string | undefined) => file && join(folder, file.split("/").at(-1)!);
      const options = { trustedKeys: at(keys), checkpointFile: at(checkpointFile) };
      await expect(proxyOn(storage, options)).rejects.toThrow(reason);
    },
  );
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
  expect(await publishRecords(storage, ...content, { signing })).toMatchObject({
    outcome: "published",
    commit: 4,
  });
  expect(await publishRecords(storage, ...content, { signing })).toMatchObject({
    outcome: "unchanged",
    commit: 4,
  });
  await until("the commit of the new key", async () => (await commitOf(proxy)) === 4);
  await publishGood(storage, 740).catch((error) => expect(String(error)).toMatch(/no trusted key signed it/));
  await publishRecords(storage, records(41), 741, { signing: { key: next } });
  await until("the next one", async () => (await commitOf(proxy)) === 5);
  expect(await commitOf(old)).toBe(3);
  await Promise.all([proxy.stop(), old.stop()]);
});

test("a store that nobody signed is signed from a commit on that the operator names", async () => {
  const storage = await linkedStore(folder, "unsigned", async (made) => {
    for (const bri of bris) await publishRecords(made, records(30), bri);
  });
  const open = await proxyOn(storage, { trustedKeys: undefined });
  expect((await open.get("/api/v1/checkpoint")).status).toBe(404);
  const proxy = await proxyOn(storage);
  expect((await proxy.get("/api/v1/status")).status).toBe(503);
  const publish = (over?: number) =>
    publishRecords(storage, records(30), bris.at(-1)!, { signing: { key: ours, over } });
  await expect(publish()).rejects.toThrow(/commits\/0000000003\.json: nobody signed it.*--sign-over 3/);
  await expect(publish(2)).rejects.toThrow(/--sign-over 3/);
  expect(await publish(3)).toMatchObject({ outcome: "published", commit: 4, signature: "signed" });
  for (const each of [open, proxy]) {
    await until("the signed commit", async () => (await each.get("/api/v1/checkpoint")).status === 200);
    expect((await each.get("/api/v1/checkpoint")).text).toBe(String(await storage.get(layout.logCheckpoint)));
  }
  await Promise.all([proxy.stop(), open.stop()]);
});
