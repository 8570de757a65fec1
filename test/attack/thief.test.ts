import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Commit } from "../../schemas/snapshot.ts";
import { readExport } from "../../snapshots/export/export-records.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { PreviousSnapshot } from "../../snapshots/publish/previous-snapshot.ts";
import { decodeCursor, encodeCursor } from "../../snapshots/read/query/cursor.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { seal } from "../../snapshots/store/records.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import {
  checkpointText,
  recordText,
  signCheckpoint,
  signRecord,
  subjectOf,
} from "../../snapshots/trust/checkpoint.ts";
import { type SigningKey, verifierText } from "../../snapshots/trust/note-keys.ts";
import { signNote } from "../../snapshots/trust/signed-note.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { listen } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../helpers/http/proxy.ts";
import { type Answer, bearer, until } from "../helpers/http/proxy-client.ts";
import { market, publishRecords, slugs } from "../helpers/publish/records.ts";
import { linkedStore } from "../helpers/store/linked-store.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// A thief has every right on the store, but none of the private keys. Proxies trust one public key. Nothing that the
// thief made is served, by a proxy that was running or by one that starts afterwards; what was good goes on being
// served.

const folder = testFolder();
const ours = testKey();
/** Keys that a thief can make: one of the same name, and one of another. */
const thiefs = [testKey(ours.name, "thief"), testKey("thief.example")];
const trustedKeys = join(folder, "trusted.keys");

beforeAll(() => writeFile(trustedKeys, `# publishers\n\n${verifierText(ours)}\n`));

const records = (count: number) => Array.from({ length: count }, (_, index) => market(index));
const bris = [600, 650, 700];

/** When the commits of the store were published, a day each. */
const days = ["2026-02-26", "2026-02-27", "2026-02-28"];

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

/** What the store's owner publishes next. */
const publishGood = (storage: Storage, bri = 720) =>
  publishRecords(storage, records(45), bri, { signing: { key: ours } });

const addresses = [
  "/api/v1/scores",
  ...slugs.map((slug) => `/api/v1/scores/${slug}`),
  `/api/v1/scores/${slugs[0]}/history`,
  `/api/v1/scores/${slugs[0]}/dimensions`,
  "/api/v1/markets/historical?pageSize=500",
  "/api/v1/checkpoint",
  "/api/v1/status",
];

/** What an answer says, except for the time at which it was given. */
const contentOf = ({ text }: Answer) => text.replace(/"(timestamp|checkedAt)":"[^"]*"|"ageSeconds":\d+/g, "");

async function answersOf(proxy: TestProxy, key: string, paths: Iterable<string> = addresses) {
  const answers = [...paths].map(
    async (path) => [path, await proxy.get(path, { headers: bearer(key) })] as const,
  );
  return new Map<string, Answer>(await Promise.all(answers));
}

/** Every answer is as it was, or, where the thief destroyed what it needs, an error of the service. */
async function expectNothingForeign(proxy: TestProxy, key: string, good: ReadonlyMap<string, Answer>) {
  for (const [path, answer] of await answersOf(proxy, key, good.keys())) {
    if (answer.status < 500) expect([path, contentOf(answer)]).toEqual([path, contentOf(good.get(path)!)]);
    expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 502, 503])]);
  }
}

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

const commitAt = async (storage: Storage, number: number) => (await readCommit(storage, number))!;

/** Puts a commit with this content under its number, sealed as it should be, with this checkpoint. */
function putCommit(
  storage: Storage,
  { digest: _, checkpoint: __, note: ___, ...content }: Commit,
  note?: (digest: string) => string,
) {
  const bytes = seal(content, (digest) => (note ? { checkpoint: note(digest) } : {}));
  return storage.put(layout.commit(content.commit), bytes);
}

/** A note about a run that ended at a time. */
const runNote = (key: SigningKey, checkedAt: string, digest: string) =>
  signRecord(key, subjectOf.run({ checkedAt }))(digest).note!;

/** The commit that would follow, with the snapshot of an older one. */
async function following(storage: Storage, snapshotOf = 2): Promise<Commit> {
  const newest = (await newestCommit(storage))!;
  const { commit: _, previous: __, ...older } = await commitAt(storage, snapshotOf);
  return { ...older, commit: newest.commit + 1, previous: newest.digest };
}

/** The keys of all objects that a commit's snapshot consists of, its manifest among them. */
async function snapshotObjects(storage: Storage, commit: Commit): Promise<Set<string>> {
  const { present } = await PreviousSnapshot.read(storage, commit);
  return new Set([...present.keys(), layout.manifest(commit.manifest.hash)]);
}

const forged = layout.commit(4);
const publishForged = (storage: Storage) => publishRecords(storage, records(50), 999);

/** Each does something to the store; proxies log the reason for which they do not take it up. */
const attacks: [name: string, attack: (storage: Storage) => Promise<unknown>, logged: RegExp][] = [
  ["a commit that nobody signed", publishForged, /commits\/0000000004.json: nobody signed it/],
  ...thiefs.map((key): (typeof attacks)[number] => [
    `a commit signed by a key that nobody trusts, ${key.name}`,
    (storage) => publishRecords(storage, records(50), 999, { signing: { key, over: 3 } }),
    /commits\/0000000004.json: its signature does not count: no trusted key signed it/,
  ]),
  [
    "a commit under the name and id of the trusted key, with a signature of another one",
    async (storage) => {
      const note = (digest: string) =>
        signNote(checkpointText(ours.name, { ...next, digest }), { ...thiefs[0]!, id: ours.id });
      const next = await following(storage);
      await putCommit(storage, next, note);
    },
    /the signature of prs\.example\/scores\+[0-9a-f]{8} is wrong/,
  ],
  [
    "a commit with the checkpoint of the one before",
    async (storage) => {
      const { checkpoint } = await commitAt(storage, 3);
      await putCommit(storage, await following(storage), () => checkpoint!);
    },
    /its signature is for something else/,
  ],
  ...(["origin", "commit", "digest", "snapshotId"] as const).map((what): (typeof attacks)[number] => [
    `a commit with a checkpoint of the trusted key, but another ${what}`,
    async (storage) => {
      const next = await following(storage);
      const other = {
        commit: 5,
        digest: "0".repeat(64),
        snapshotId: "0".repeat(64),
        origin: "other.example",
      };
      const note = (digest: string) => {
        const said = { ...next, digest, origin: ours.name, [what]: other[what] };
        return signNote(checkpointText(said.origin, said), ours);
      };
      await putCommit(storage, next, note);
    },
    /its signature is for something else/,
  ]),
  [
    "a commit with a note of the trusted key about a run",
    async (storage) => {
      const next = await following(storage);
      await putCommit(storage, next, (digest) => runNote(ours, next.publishedAt, digest));
    },
    /its signature is for something else/,
  ],
  [
    "an older commit again, byte for byte, as the newest",
    async (storage) => storage.put(forged, (await storage.get(layout.commit(2)))!),
    /it holds commit 2/,
  ],
  [
    "an older commit again under a new number",
    async (storage) => {
      const { checkpoint } = await commitAt(storage, 2);
      await putCommit(storage, await following(storage), () => checkpoint!);
    },
    /its signature is for something else/,
  ],
  [
    "a commit far ahead, to which head.json points",
    async (storage) => {
      await putCommit(storage, { ...(await following(storage)), commit: 9_999_999_999 });
      await storage.put(layout.head, seal({ commit: 9_999_999_999 }));
    },
    /commits\/9999999999.json: nobody signed it/,
  ],
  [
    "other content in the newest commit, under its own number",
    async (storage) => {
      const { checkpoint } = await commitAt(storage, 3);
      const next = await following(storage, 1);
      await putCommit(storage, { ...next, commit: 3 }, () => checkpoint!);
    },
    /commits\/0000000003.json: its signature is for something else/,
  ],
  [
    "a log without its newest commits",
    async (storage) => {
      for (const number of [2, 3]) await storage.delete(layout.commit(number));
      await storage.put(layout.head, seal({ commit: 1 }));
    },
    /commits\/0000000003.json: it was taken up before, and is gone/,
  ],
];

describe("what a thief puts into the store", () => {
  test.for(attacks)("%s is not served, and the log says why", async ([, attack, logged]) => {
    const storage = await signedStore();
    const proxy = await proxyOn(storage);
    const key = await proxy.issue();
    const good = await answersOf(proxy, key);
    expect([...good.values()].map(({ status }) => status)).toEqual(addresses.map(() => 200));

    await attack(storage);
    await until("the proxy to say why", () => logged.test(logOf(proxy)));
    await expectNothingForeign(proxy, key, good);
    expect(await commitOf(proxy)).toBe(3);
    await proxy.stop();
  });

  test.for(attacks.slice(0, -2))("%s is not served by a proxy that starts then", async ([, attack]) => {
    const storage = await signedStore();
    const before = await proxyOn(storage);
    const key = await before.issue();
    const good = await answersOf(before, key);
    await before.stop();
    await attack(storage);
    const proxy = await proxyOn(storage);
    await expectNothingForeign(proxy, key, good);
    expect(await commitOf(proxy)).toBe(3);
    await proxy.stop();
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
    const { manifest } = (await newestCommit(storage))!;
    const { scores } = await readManifest(storage, manifest);
    const objects = [scores.list, ...Object.values(scores.records)].map(({ hash }) =>
      layout.publicObject(hash),
    );
    const names = [layout.stableScoreList, ...slugs.map(layout.stableScore)];
    for await (const { key: page } of storage.list(layout.pages)) objects.push(page);
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

  test("as the public checkpoint is not served as the checkpoint, nor what is added to a commit's", async () => {
    const storage = await signedStore();
    const { checkpoint } = await commitAt(storage, 3);
    const proxy = await proxyOn(storage);
    await storage.put(layout.checkpoint, Buffer.from(signCheckpoint(thiefs[0]!, await commitAt(storage, 3))));
    const commit = JSON.parse(String(await storage.get(layout.commit(3))));
    const added = `${checkpoint}— buy.example ${Buffer.alloc(68).toString("base64")}\n`;
    await storage.put(layout.commit(3), Buffer.from(JSON.stringify({ ...commit, checkpoint: added })));
    const cold = await proxyOn(storage);
    for (const each of [proxy, cold]) {
      const answer = await each.get("/api/v1/checkpoint");
      expect([answer.status, answer.text]).toEqual([200, checkpoint]);
      expect(answer.headers["content-type"]).toBe("text/plain; charset=utf-8");
      await each.stop();
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
    const { snapshotId } = await commitAt(storage, 3);
    const { digest, note, ...good } = (await readExport(storage, snapshotId))!;
    const { files } = (await readExport(theirs, (await commitAt(theirs, 1)).snapshotId))!;
    for (const prefix of [layout.exportFiles, layout.exportChunks])
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
    const subject = subjectOf.export(good);
    const signs: ((digest: string) => { note?: string | undefined })[] = [
      () => ({}),
      () => ({ note: note! }),
      ...thiefs.map((thief) => signRecord(thief, subject)),
      () => signRecord(ours, subject)(digest),
      (other) => signRecord(ours, subjectOf.export({ snapshotId: "0".repeat(64) }))(other),
      (other) => signRecord(ours, subjectOf.run({ checkedAt: good.publishedAt }))(other),
    ];
    for (const sign of signs) {
      await storage.put(layout.exportRecord(snapshotId), seal(forgedRecord, sign));
      expect(await listed()).toEqual([]);
      expect((await ask(url)).status).toBe(404);
    }
    expect(logOf(proxy)).toMatch(/exports\/records\/[0-9a-f]{64}\.json: nobody signed it/);
    // An older snapshot's record under the name of another, and a record of a commit that there is not.
    const older = (await commitAt(storage, 2)).snapshotId;
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
      layout.exportChunksOf(our.chunks.hash),
      (await theirs.get(layout.exportChunksOf(their.chunks.hash)))!,
    );
    const cold = await proxyOn(storage);
    expect((await cold.get(url, { headers: bearer(key) })).status).toBe(503);
    await Promise.all([proxy.stop(), cold.stop()]);
  });

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
      const { snapshotId } = await commitAt(storage, number);
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
    await putCommit(storage, { ...theirs, previous: first.digest }, (digest) =>
      signCheckpoint(thiefs[0]!, { ...theirs, digest }),
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
    const since = { since: first.snapshotId };
    await expect(listen(cold.port, developer, since)).rejects.toThrow("503");
    const listener = await listen(proxy.port, developer, since);
    await until("all changes", () => listener.changes().length === 2 * slugs.length);
    const heard = listener.changes().map(({ current }) => current?.bri);
    expect(heard).toEqual([...slugs.map(() => bris[1]), ...slugs.map(() => bris[2])]);
    listener.socket.terminate();
    const signing = { key: ours };
    for (const target of ["1", "2", theirs.snapshotId.slice(0, 12)])
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
      const sign = (content: Commit) => (digest: string) =>
        signCheckpoint(thiefs[0]!, { ...content, digest });
      // Sealed and signed by the thief; and with the checkpoint of the commit that it replaces.
      for (const note of [sign(theirs), () => second.checkpoint!]) {
        await putCommit(storage, { ...theirs, previous: first.digest }, note);
        const proxy = await proxyOn(storage);
        await until("the proxy to know the key", async () => (await commitOf(proxy)) === 3);
        await expectNothingForeign(proxy, key, good);
        expect(await statuses(proxy, key, days[2]!)).toEqual(new Set([200]));
        for (const when of [days[1]!, days[0]!, second.snapshotId, first.snapshotId, theirs.snapshotId])
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
      expect(own.filter((name) => name.startsWith(layout.pages)).length).toBeGreaterThan(0);
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
      for (const prefix of [layout.manifests, layout.pages, layout.segments, layout.publicObjects]) {
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
      (digest) => signNote(recordText("other.example", subjectOf.run(run), digest), ours),
      () => signCheckpoint(ours, { commit: 3, digest: "0".repeat(64), snapshotId: "0".repeat(64) }),
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
    await storage.put(layout.checked, seal(run, signRecord(ours, subjectOf.run(run))));
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
    await storage.delete(layout.commit(3));
    await storage.put(layout.head, seal({ commit: 2 }));

    const again = await proxyOn(storage, { checkpointFile });
    expect((await again.get("/api/v1/status")).status).toBe(503);
    expect(logOf(again)).toMatch(/commits\/0000000003\.json: it was taken up before, and is gone/);
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
    for (const key of [layout.logCheckpoint, layout.logCheckpointOf(3), layout.checked])
      await storage.delete(key);
    await publishRecords(storage, records(45), 777, { signing: { key: ours } });
    await polls(again, 4);
    expect((await again.get("/api/v1/status")).status).toBe(503);
    expect(logOf(again)).toMatch(/a trusted key signed another one before/);
    const kept = await readFile(checkpointFile, "utf8");
    await publishGood(storage, 778);
    await until("the fork to be told", () => /0000000004\.json: it does not lead back to/.test(logOf(again)));
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
    [{ trustedKeys: undefined, checkpointFile: "x" }, /CHECKPOINT_FILE needs TRUSTED_KEYS/],
  ];
  test.for(bad)(
    "a bad file stops the start (%#)",
    async ([{ trustedKeys: keys, checkpointFile }, reason]) => {
      await writeFile(join(folder, "bad.keys"), `# ours\n${verifierText(ours)}\n${verifierText(ours)}x\n`);
      await writeFile(join(folder, "empty.keys"), "# none\n");
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
    expect((await each.get("/api/v1/checkpoint")).text).toBe(String(await storage.get(layout.checkpoint)));
  }
  await Promise.all([proxy.stop(), open.stop()]);
});
