import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../../schemas/versions.ts";
import { type Policy, parseNote, policyOf } from "../../../snapshots/format/note.ts";
import { diff } from "../../../snapshots/maintain/diff.ts";
import { exportSnapshot } from "../../../snapshots/maintain/export.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { openExports } from "../../../snapshots/read/catalog/exports.ts";
import { openPublicLog } from "../../../snapshots/read/catalog/public-log.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import { readAnyLog, readSignedLog } from "../../../snapshots/trust/log/log-reader.ts";
import { parsePolicy, type SigningKey, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import {
  entryText,
  openNote,
  signatureLine,
  signEntry,
  signNote,
  signRecord,
} from "../../../snapshots/trust/notes/signed-note.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { policyOfTwo, testKey } from "../../helpers/store/signing.ts";
import { contentOf, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { timedStore } from "../../helpers/store/timed-store.ts";

// Attacks on a store of seven commits, and what becomes of each at everybody who reads it. A thief has every right on
// the store, but none of the keys. A publisher that shows two faces has its key, and one of three witnesses lies for
// it.

const ours = testKey();
const thieves = [testKey(ours.name, "thief"), testKey("thief.example")] as const;
const witnesses = [0, 1, 2].map((n) => testKey(`witness.example/w${n}`, "", "cosignature-ed25519"));
const vkeys = witnesses.map((key) => ({ vkey: verifierText(key) }));
const keysAlone = policyOf([ours]);
const quorum = parsePolicy(Buffer.from(policyOfTwo(ours, vkeys)), "policy");
type Objects = Map<string, Buffer>;
const { commit, checked, logCheckpoint, logCheckpointOf } = layout;

/** The store at each of eight commits, of which all witnesses cosigned the checkpoints. */
const honest: Objects[] = [new Map()];
/** Another face: the same up to the fourth commit. One witness lies for it. */
const forked: Objects[] = [];
/** Another log of the same key, and the first one as a thief would sign it. */
const another: Objects[] = [new Map()];
const stolen: Objects[] = [new Map()];

async function publishOn(objects: Objects, bri: number, key = ours): Promise<number | "unchanged"> {
  const storage = memoryStorage(objects);
  const done = await publishRecords(storage, [market(1), market(2), market(bri)], bri, { signing: { key } });
  return done.outcome === "unchanged" ? "unchanged" : done.commit;
}

function cosigned(note: Buffer, cosigners: readonly SigningKey[]): Buffer {
  const { text } = parseNote(String(note));
  const lines = cosigners.map((each) => `${signatureLine(each, text, 1_700_000_000)}\n`);
  return Buffer.concat([note, Buffer.from(lines.join(""))]);
}

beforeAll(async () => {
  const grow = async (stores: Objects[], from: number, cosigners: readonly SigningKey[], key = ours) => {
    while (stores.length < 9) {
      const next = new Map(stores.at(-1));
      await publishOn(next, from + stores.length, key);
      for (const key of [logCheckpoint, logCheckpointOf(stores.length)])
        next.set(key, cosigned(next.get(key)!, cosigners));
      stores.push(next);
    }
  };
  await grow(honest, 600, witnesses);
  forked.push(...honest.slice(0, 5));
  await grow(forked, 650, witnesses.slice(2));
  await grow(another, 700, []);
  await grow(stolen, 600, [], thieves[0]);
});

/** What happened, in a word. */
const words: Record<string, string> = {
  FORKED_LOG: "fork",
  CORRUPT_OBJECT: "stays",
  MISSING_OBJECT: "stays",
  FOREIGN_FORMAT: "stays",
  UNTRUSTED_PREDECESSOR: "refused",
  BROKEN_LOG: "broken",
  SNAPSHOT_NOT_FOUND: "unknown",
  ROLLBACK_REFUSED: "unknown",
  EXPORT_REFUSED: "unknown",
  ENOENT: "ok",
};

/** What is told, with short names of objects and without hashes; and words for errors. */
class Told {
  readonly lines: string[] = [];
  readonly add = ({ message }: Error) => {
    this.lines.push(
      message.replaceAll(/commits\/0+(\d+)\.json/g, "commits/$1").replaceAll(/[0-9a-f]{64}/g, "HASH"),
    );
  };
  readonly word = (error: Error & { code: string }): string => {
    this.add(error);
    return words[error.code] ?? expect.fail(error.message);
  };
}

/**
 * The number of the commit that a proxy shows, which knew the first so many commits; or why it stays where it was. Once
 * the store is as it was, it is all well again.
 */
async function shownBy(
  altered: Objects,
  policy: Policy | undefined,
  knew: number,
  told: Told,
): Promise<string> {
  const own = new Map(honest[knew]);
  const show = (objects: Objects) => {
    own.clear();
    for (const [key, bytes] of objects) own.set(key, bytes);
  };
  const storage = countingStorage(memoryStorage(own));
  const reader = policy
    ? readSignedLog(storage, new Trust(policy), { refused: told.add })
    : readAnyLog(storage);
  const catalog = new Catalog(storage, { cacheBytes: 1024, reader });
  const publicLog = openPublicLog(storage, catalog.log, reader);
  const shown = () => catalog.current()?.commit.commit ?? 0;
  if (knew > 0) await catalog.refresh();
  show(altered);
  storage.calls.length = 0;
  const found = await catalog.refresh().then(
    async () => {
      if (!policy) return String(shown());
      const keys = [...policy.logs, ...policy.witnesses].map(({ key }) => key);
      const { note = "" } = (await publicLog.checkpoint()) ?? {};
      if (note !== "") expect(openNote(note, keys).note).toBe(note);
      expect(catalog.checkedAt() === run.checkedAt).toBe(altered.get(checked)?.equals(ourRun) ?? false);
      return String(shown());
    },
    (error) => {
      const word = told.word(error);
      expect(catalog.heldBack()).toContain(error.key ?? "");
      return shown() === knew ? word : `${shown()}!`;
    },
  );
  expect(storage.calls.length).toBeLessThan(300);
  if (shown() === 0)
    expect(() => catalog.requireCurrent()).toThrow(expect.objectContaining({ code: "SNAPSHOT_UNAVAILABLE" }));
  // Whoever trusts nobody may have seen a commit there that the store has no more.
  if (policy === undefined && altered.has(commit(8))) return found;
  show(honest[7]!);
  if (shown() < 7 || knew > 0) await catalog.refresh();
  expect(shown()).toBe(7);
  return found;
}

const signing = { key: ours };
/** There is no such folder: an export goes as far as to write its first file, which takes long and asks for no trust. */
const settings = { temporaryDirectory: "/nowhere", progress: () => {}, signing };
const maintaining: readonly ((objects: Objects) => Promise<unknown>)[] = [
  (objects) => rollback(memoryStorage(objects), "2", () => new Date(), { signing }),
  (objects) => exportSnapshot(memoryStorage(objects), undefined, settings),
  (objects) => diff(memoryStorage(objects), "1", "2", { trusted: [ours] }),
  (objects) => timedStore(objects).collect({ signing: { trusted: [ours] }, keepHours: 1, keepCommits: 1 }),
];

/** What somebody makes of a copy of a store, which stays as it was where that is refused. */
async function outcomeOf(altered: Objects, told: Told, work: (objects: Objects) => Promise<unknown>) {
  const objects = new Map(altered);
  const outcome = await work(objects).then(
    (done) => (typeof done === "object" ? "ok" : `${done}`),
    told.word,
  );
  if (outcome === "refused") expect(await contentOf(memoryStorage(objects))).toEqual(await content(altered));
  return { objects, outcome };
}
const content = (objects: Objects) => contentOf(memoryStorage(objects));

/** The kinds of objects that verify finds fault with. */
async function faultsIn(objects: Objects, policy?: Policy): Promise<string> {
  const trust = policy && new Trust(policy);
  const { faults } = await verify(memoryStorage(objects), () => {}, { trust });
  const kinds = /commits|checkpoints?|tile|scores|checked|changes|manifests|segments/;
  return [...new Set(faults.map(({ key }) => kinds.exec(key)![0]))].sort().join(" ");
}

/** The keys of an object, of those in some stores, or of those that nobody signed, by the names that attacks have. */
function keysOf(name: string, stores: readonly Objects[]): string[] {
  const junk = /^junk\/(\d+)$/.exec(name);
  if (junk) return Array.from({ length: Number(junk[1]) }, (_, n) => logCheckpointOf(9_999_999_999 - n));
  if (name === "manifest" || name === "segment")
    return [...honest[7]!.keys()].filter(
      (key) => key.startsWith(layout[name].prefix) && !honest[6]!.has(key),
    );
  const [, number] = /^commits\/(\d+)$/.exec(name) ?? [];
  if (number) return [commit(Number(number))];
  if (name === "checked") return [checked];
  const key = name === "everything" ? "" : name.replace(/^(log\/$|(?!commits))/, layout.log);
  if (key !== "" && !key.endsWith("/")) return [key];
  return stores.flatMap((store) => [...store.keys()]).filter((each) => each.startsWith(key));
}

const commitIn = (o: Objects, number: number): Commit => JSON.parse(String(o.get(commit(number))));
/** Commit 2 under the number that a key has, after those before it, with a note. */
const put = (note?: (made: Commit, o: Objects) => string | undefined) => (key: string, o: Objects) => {
  const { digest: _, note: __, ...older } = commitIn(o, 2);
  const number = Number(/\d+/.exec(key)![0]);
  const previous = commitIn(o, Math.min(number - 1, 7)).digest;
  const made = { ...older, entry: { ...older.entry, commit: number }, previous };
  return seal(made, (digest) => ({ note: note?.({ ...made, digest }, o) }));
};
/** Our note about a commit that differs from the one which has it. */
const about = (name: string, changes: object, entry: object = {}) =>
  put((made) => signNote(entryText(name, { ...made, ...changes, entry: { ...made.entry, ...entry } }), ours));
const zeros = "0".repeat(64);
function ofAnotherFormat(bytes: Buffer): Buffer {
  const text = bytes.toString("latin1");
  if (!text.startsWith("{")) return Buffer.from(text.replace(/^..../s, "PRS9"), "latin1");
  const { digest: _, note, ...content } = JSON.parse(String(bytes));
  return seal({ ...content, formatVersion: 9 }, () => (note ? { note } : {}));
}
const run = { checkedAt: "2026-03-02T00:00:00.000Z", commit: 9, outcome: "published" } as const;
const signRun = signRecord(ours, `checked ${run.checkedAt}`);
const ourRun = seal({ ...run, commit: 7 }, signRun);
const flipped = (bytes: Buffer) => bytes.with(64, bytes[64]! ^ 1);

const others = () => [honest, forked, another, stolen].flatMap((stores) => stores.slice(7));

/** What an attack makes of an object. */
const makings: Record<string, (key: string, o: Objects) => Uint8Array | undefined> = {
  lost: () => undefined,
  "cut short": (key, o) => o.get(key)!.subarray(0, o.get(key)!.length >> 1),
  "of another format": (key, o) => ofAnotherFormat(o.get(key)!),
  huge: () => Buffer.alloc(1024 * 1024, "x"),
  rubbish: () => Buffer.from("anybody's\n\n— x eHh4eHg=\n"),
  altered: (key, o) => flipped(o.get(key)!),
  "of no witness": (key, o) => o.get(key)!.subarray(0, o.get(key)!.indexOf("— witness")),
  "of another face": (key) => forked[7]!.get(key),
  "of another face of all witnesses": (key) => {
    const bytes = forked[7]!.get(key);
    return bytes && key.startsWith(logCheckpoint) ? cosigned(bytes, witnesses.slice(0, 2)) : bytes;
  },
  "of another longer face": (key) => forked[8]!.get(key),
  "of another log": (key) => another[7]!.get(key),
  "of a thief": (key) => stolen[7]!.get(key),
  "of a thief's next run": (key) => stolen[8]!.get(key),
  "of the next run": (key) => honest[8]!.get(key),
  "as at 7": (key) => honest[7]!.get(key),
  "as at 6": (key) => honest[6]!.get(key),
  "as at 4": (key) => honest[4]!.get(key),
  "that was 6": (_, o) => o.get(commit(6)),
  "that was 2": (_, o) => o.get(commit(2)),
  unsigned: put(),
  "signed by a thief": put((made) => signEntry(thieves[0], made)),
  "signed by thief.example": put((made) => signEntry(thieves[1], made)),
  "signed under our id": put((made) => signEntry({ ...thieves[0], id: ours.id }, made)),
  "with the note of 7": put((_, o) => commitIn(o, 7).note),
  "with the note of 2": put((_, o) => commitIn(o, 2).note),
  "with our note of another origin": about("other.example", {}),
  "with our note of another number": about(ours.name, {}, { commit: 9 }),
  "with our note of another digest": about(ours.name, { digest: zeros }),
  "with our note of another snapshot": about(ours.name, {}, { snapshotId: zeros }),
  "with our note of a run": put(({ digest, entry }) => {
    return signRecord(ours, `checked ${entry.publishedAt}`)(digest).note;
  }),
  "with a line of others": (key, o) => Buffer.concat([o.get(key)!, Buffer.from("— buy.example eHh4eHg=\n")]),
  "of nobody that names 7": () => seal({ ...run, commit: 7 }),
  "of a thief that names 7": () =>
    seal({ ...run, commit: 7 }, signRecord(thieves[0], `checked ${run.checkedAt}`)),
  "of ours that names 7": () => ourRun,
  "of nobody that names 9": () => seal(run),
  "of nobody that names the last number": () => seal({ ...run, commit: Number.MAX_SAFE_INTEGER }),
  "of nobody that names no number": () => seal({ ...run, commit: 2 ** 53 }),
  "of ours that names 9": () => seal(run, signRun),
};

/**
 * The attacks of attacks.txt, one a line; then what a new proxy shows that trusts a key, and one that asks for two
 * witnesses; what proxies show that knew six and seven commits; what proxies show that trust nobody, a new one and one
 * that knew seven; what a publisher makes; and rollback, export, diff and gc, in one word where they agree; then the
 * kinds of objects that verify names, and those that it names after the publish. A number with ! is shown by a proxy
 * that says why it holds back the newest. Lines that begin with > are among what is told.
 */
const table = readFileSync(new URL("attacks.txt", import.meta.url), "utf8");

/** Carries out attacks, as a line of the table names them, on a store. */
function attack(objects: Objects, line: string): void {
  for (const each of line.split(", ")) {
    const [, names = "", what = ""] = /^(\S+(?: and \S+)*) (.*)$/.exec(each)!;
    const make = makings[what] ?? expect.fail(`no ${what}`);
    const stores = what.startsWith("of ") ? [objects, ...others()] : [objects];
    for (const key of names.split(" and ").flatMap((name) => keysOf(name, stores))) {
      const made = make(key, objects);
      if (made) objects.set(key, Buffer.from(made));
      else objects.delete(key);
    }
  }
}

const rows = table.split(/\n+(?!>)/).filter((row) => row !== "");
test.for(rows)("%s", async (row) => {
  const [line = "", ...says] = row.split("\n> ");
  const [what = "", cells, faults = "", after = ""] = line.split(/ *; */);
  const altered = new Map(honest[7]);
  if (what !== "nothing") attack(altered, what);
  const told = new Told();
  const proxies = [
    await shownBy(altered, keysAlone, 0, told),
    await shownBy(altered, quorum, 0, told),
    await shownBy(altered, keysAlone, 6, told),
    await shownBy(altered, keysAlone, 7, told),
    await shownBy(altered, undefined, 0, told),
    await shownBy(altered, undefined, 7, told),
  ];
  const published = await outcomeOf(altered, told, (objects) => publishOn(objects, 690));
  // So it is with nothing new.
  const same = await outcomeOf(altered, told, (objects) => publishOn(objects, 607));
  expect(same.outcome === "refused").toBe(published.outcome === "refused");
  const maintained = await Promise.all(maintaining.map((work) => outcomeOf(altered, told, work)));
  const outcomes = maintained.map(({ outcome }) => outcome);
  const seen = [
    ...proxies,
    published.outcome,
    ...(new Set(outcomes).size > 1 ? outcomes : outcomes.slice(0, 1)),
  ];
  const left = published.outcome === "refused" ? "" : await faultsIn(published.objects, keysAlone);
  const found = await faultsIn(altered, quorum);
  expect([seen.join(" "), found, left !== "" && left === found ? "all" : left]).toEqual([
    cells,
    faults,
    after,
  ]);
  // That a note is of its commit needs no key.
  if (/ note of /.test(what)) expect(await faultsIn(altered)).toContain("commits");
  for (const each of says) expect(told.lines.join("\n")).toContain(each);
});

test("an export is listed as soon as a trusted key has signed its record, for its snapshot and commit", async () => {
  const objects = new Map(honest[7]!);
  const told = new Told();
  const { snapshotId, archiveRoot, publishedAt } = commitIn(objects, 7).entry;
  const record = { formatVersion, commit: 7, snapshotId, archiveRoot, publishedAt, files: [] };
  const listed = async (content: object, sign: Parameters<typeof seal>[1] = () => ({})) => {
    objects.set(layout.exportRecord(snapshotId), seal(content, sign));
    const storage = memoryStorage(objects);
    const reader = readSignedLog(storage, new Trust(keysAlone), { refused: told.add });
    const catalog = new Catalog(storage, { cacheBytes: 1024, reader });
    await catalog.refresh();
    return (await openExports(storage, catalog, reader).list()).length;
  };
  const subject = `export ${snapshotId}`;
  const older = commitIn(objects, 6).entry.snapshotId;
  for (const content of [record, { ...record, snapshotId: older }, { ...record, commit: 8 }])
    for (const sign of [undefined, signRecord(thieves[0], subject), signRecord(ours, `export ${zeros}`)])
      expect(await listed(content, sign)).toBe(0);
  expect(told.lines).toContainEqual(expect.stringMatching(/exports\/records\/HASH.json: nobody signed it/));
  for (const content of [
    { ...record, snapshotId: older },
    { ...record, commit: 8 },
    { ...record, commit: 6 },
  ])
    expect(await listed(content, signRecord(ours, subject))).toBe(0);
  expect(await listed(record, signRecord(ours, subject))).toBe(1);
});
