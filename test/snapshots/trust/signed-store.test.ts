import { lstat, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { exportSnapshot } from "../../../snapshots/maintain/export.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Signing } from "../../../snapshots/trust/log/believe.ts";
import { parseSigningKey, type SigningKey, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import { market, publishRecords, slugs } from "../../helpers/publish/records.ts";
import { writeSources } from "../../helpers/publish/sample-sources.ts";
import { keyText, testKey } from "../../helpers/store/signing.ts";
import { contentOf, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

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

test("an export's record is signed, and one that is not is no ground for another", async () => {
  const objects = await storeOf(ours);
  const storage = memoryStorage(objects);
  const run = (key?: SigningKey) =>
    exportSnapshot(storage, undefined, {
      temporaryDirectory: folder,
      progress: () => {},
      signing: { key, unsigned: true },
    });
  expect(await run()).toMatchObject({ outcome: "exported", uploaded: { objects: 1 } });
  const key = layout.exportRecord((await newestCommit(storage))!.entry.snapshotId);
  expect(await faults(objects, ours)).toEqual([key]);
  expect(await run(ours)).toMatchObject({ outcome: "exported", uploaded: { objects: 1 } });
  expect(await run(ours)).toMatchObject({ outcome: "unchanged" });
  expect(await faults(objects, ours)).toEqual([]);
  await publishRecords(storage, records, 700);
  await expect(run(ours)).rejects.toThrow(/commits\/0000000002\.json: nobody signed it/);
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

describe("the commands", () => {
  const run = (line: string, env: NodeJS.ProcessEnv = {}) =>
    snapshotCommand(line.split(" "), {
      from: folder,
      env: { SIGNING_KEY: "", TRUSTED_KEYS: "", SIGNING_NAME: "", ...env },
    });
  beforeAll(async () => {
    await writeSources(join(folder, "sources"), { markets: 20 });
    await writeFile(join(folder, "ours.key"), `${keyText(ours.name)}\n`);
    await writeFile(join(folder, "ours.pub"), `${verifierText(ours)}\n`);
  });
  const signing = { SIGNING_KEY: "ours.key" };
  const publish = "publish --sources sources --store store";

  test("signing-key makes a pair for its owner alone, replaces none, and reads SIGNING_NAME", async () => {
    const made = await run("signing-key --out new.key --json", { SIGNING_NAME: "env.example" });
    expect(made.code).toBe(0);
    const { name, publicKey, files } = JSON.parse(made.stdout);
    expect([name, files]).toEqual([
      "env.example",
      { private: join(folder, "new.key"), public: join(folder, "new.key.pub") },
    ]);
    expect((await lstat(files.private)).mode & 0o777).toBe(0o600);
    expect((await lstat(files.public)).mode & 0o777).toBe(0o644);
    const secret = (await readFile(files.private, "utf8")).trim();
    expect(verifierText(parseSigningKey(secret))).toBe(publicKey);
    expect(await readFile(files.public, "utf8")).toBe(`${publicKey}\n`);
    expect(made.stdout + made.stderr).not.toContain(secret.slice(-40));

    const again = await run("signing-key --out new.key");
    expect([again.code, again.stderr]).toEqual([
      2,
      expect.stringContaining("new.key exists, and keys are never replaced"),
    ]);
    await writeFile(join(folder, "half.key.pub"), "");
    expect((await run("signing-key --out half.key")).code).toBe(2);
    await expect(lstat(join(folder, "half.key"))).rejects.toThrow("ENOENT");
    expect(await readFile(files.private, "utf8")).toBe(`${secret}\n`);
    const named = await run("signing-key --out named.key --name given.example", {
      SIGNING_NAME: "env.example",
    });
    expect(named.stdout).toMatch(/^given\.example\+/);
    expect((await run("signing-key --out plain.key")).stdout).toMatch(/^protocol-risk-score-service\+/);
    for (const bad of ["a+b", "a\u00a0b"])
      expect((await run(`signing-key --out bad.key --name ${bad}`)).code).toBe(2);
    expect((await run("signing-key --out missing/x.key")).stderr).toContain(
      "missing/x.key cannot be written",
    );
  });

  test("publish, verify and rollback sign, and say what is not signed and the way out", async () => {
    expect((await run(publish)).code).toBe(0);
    const refused = await run(publish, signing);
    expect([refused.code, refused.stderr]).toEqual([
      3,
      expect.stringMatching(/nobody signed it\. .*--sign-over 1/),
    ]);
    expect((await run(`${publish} --sign-over 1`)).code).toBe(2);
    const signed = await run(`${publish} --sign-over 1 --json`, signing);
    expect(JSON.parse(signed.stdout)).toMatchObject({ outcome: "published", commit: 2, signature: "signed" });
    expect(await run("verify --store store --trusted-key ours.pub")).toMatchObject({ code: 0 });

    await writeSources(join(folder, "sources"), { markets: 21 });
    const [allowed] = /--allow-changed \d+/.exec((await run(`${publish} --dry-run`)).stderr)!;
    // A fault to repair.
    await rm(join(folder, "store", layout.checked));
    const content = await contentOf(directoryStorage(join(folder, "store")));
    const repair = "verify --store store --repair --sources sources";
    for (const line of [
      `${publish} ${allowed}`,
      "rollback 1 --store store",
      "export --store store",
      repair,
    ]) {
      expect(await run(line)).toMatchObject({
        code: 3,
        stderr: expect.stringMatching(/commit 2 is signed, and SIGNING_KEY is not set: .* give --unsigned/),
      });
      expect((await run(`${line} --unsigned`, signing)).code).toBe(2);
    }
    expect(await run("diff 1 2 --store store")).toMatchObject({ code: 0 });
    expect((await run(`${publish} ${allowed} --dry-run`)).stderr).toContain("SIGNING_KEY is not set, but");
    expect(await contentOf(directoryStorage(join(folder, "store")))).toEqual(content);
    const unsigned = await run(`${publish} ${allowed} --unsigned`);
    expect([unsigned.code, unsigned.stderr]).toEqual([
      0,
      expect.stringContaining("SIGNING_KEY is not set, but"),
    ]);
    const found = await run("verify --store store --trusted-key ours.pub");
    expect([found.code, found.stdout]).toEqual([
      1,
      expect.stringContaining(`${layout.commit(3)}: nobody signed it`),
    ]);
    expect((await run("rollback 2 --store store --trusted-key ours.pub")).code).toBe(3);
    expect((await run("gc --store store --trusted-key ours.pub")).stderr).toContain(layout.commit(3));
    for (const line of ["gc --store store --trusted-key ours.pub", "gc --store store"])
      expect(await run(line)).toMatchObject({ code: 3, stdout: "" });
    expect(await run("gc --store store --trust-all --dry-run")).toMatchObject({ code: 0 });
    const trusting = ["diff 1 2 --store store", "export --store store", publish];
    for (const line of [...trusting, "verify --repair --sources sources --store store"]) {
      const named = await run(`${line} --trusted-key ours.pub`);
      expect([line, named.code, named.stderr]).toEqual([line, 3, expect.stringContaining(layout.commit(3))]);
    }
    for (const line of trusting)
      expect(await run(line, { TRUSTED_KEYS: "ours.pub" })).toMatchObject({ code: 3, stdout: "" });
    const shown = (await run("list --store store --trusted-key ours.pub")).stdout.split("\n");
    expect(shown.map((row) => row.endsWith("not trusted"))).toEqual([true, false, false, false]);
    expect((await run("rollback 2 --store store", signing)).code).toBe(3);
    const back = await run("rollback 2 --store store --sign-over 3 --json", signing);
    expect(JSON.parse(back.stdout).note).toContain(`${ours.name}\nentry 4\n`);
    // The record of the last run stays unsigned until the next one.
    const after = await run("verify --store store --trusted-key ours.pub");
    expect(after.stdout).toMatch(/^checked\.json: nobody signed it: publish again\n.*\n1 fault:/);
    const held = await run(`${publish} ${allowed} --json`, signing);
    expect([held.code, JSON.parse(held.stdout).error]).toMatchObject([3, { exitCode: 3, refusals: [] }]);
    const told = "commit 4 is a rollback, which puts publishing on hold; publish with --resume to end that";
    expect(held.stderr).toContain(told);
    expect((await run(`${publish} ${allowed} --dry-run`, signing)).code).toBe(3);
    const resumed = await run(`${publish} ${allowed} --resume --json`, signing);
    expect(JSON.parse(resumed.stdout)).toMatchObject({ outcome: "published", commit: 5 });
    expect(await run("verify --store store --trusted-key ours.pub")).toMatchObject({ code: 0 });
  });

  test("refuse keys that cannot be used before they touch the store, with exit code 2", async () => {
    await writeFile(join(folder, "two.key"), `${keyText("a")}\n# and\n${keyText("b")}\n`);
    await writeFile(join(folder, "cut.key"), keyText("a").slice(0, -4));
    for (const [env, reason] of [
      [{ SIGNING_KEY: "missing.key" }, /missing\.key cannot be read: ENOENT/],
      [{ SIGNING_KEY: "ours.pub" }, /ours\.pub, line 1: it does not begin with PRIVATE\+KEY\+/],
      [{ SIGNING_KEY: "two.key" }, /two\.key, line 3: a run signs with one key/],
      [{ SIGNING_KEY: "cut.key" }, /cut\.key, line 1: /],
      [{ ...signing, TRUSTED_KEYS: "ours.key" }, /ours\.key, line 1: it is a private key/],
      [
        { ...signing, SIGNING_NAME: "elsewhere" },
        /SIGNING_NAME is elsewhere, but the key in SIGNING_KEY is called prs/,
      ],
    ] as const) {
      const { code, stderr } = await run("publish --sources sources --store untouched", env);
      expect([code, stderr]).toEqual([2, expect.stringMatching(reason)]);
      expect(stderr).not.toContain(keyText("a").split("+").at(-1)!.slice(0, 20));
    }
    await expect(lstat(join(folder, "untouched"))).rejects.toThrow("ENOENT");
  });
});
