import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { layout } from "../../snapshots/store/layout.ts";
import { parseSigningKey, verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signNote } from "../../snapshots/trust/notes/signed-note.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { writeSources } from "../helpers/publish/sample-sources.ts";
import { findWitness, startWitness, type TestWitness } from "../helpers/servers/witness.ts";
import { keyText, testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const path = (name: string) => join(folder, name);
const ours = testKey();
const quantum = testKey(ours.name, "", "ml-dsa-44");
const clean = {
  SIGNING_KEY: "",
  TRUSTED_KEYS: "",
  TRUST_POLICY: "",
  WITNESS_POLICY: "",
  CHECKPOINT_FILE: "",
  SIGNING_NAME: "",
};
const run = (line: string, env: NodeJS.ProcessEnv = {}) =>
  snapshotCommand(line.split(" "), { from: folder, env: { ...clean, ...env } });
const publish = "publish --sources sources --store store";

beforeAll(async () => {
  await writeSources(path("sources"), { markets: 20 });
  await writeFile(path("ours.key"), `${keyText(ours.name)}\n`);
  await writeFile(path("ours.pub"), `${verifierText(ours)}\n`);
  await writeFile(path("none.policy"), `log ${verifierText(ours)}\nquorum none\n`);
});

test("a key of ML-DSA-44 is made for the second line of a publisher's file", async () => {
  const made = await run("signing-key --out second.key --name prs.example --algorithm ml-dsa-44 --json");
  expect(made).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("a second line of the file SIGNING_KEY"),
  });
  const secret = await readFile(path("second.key"), "utf8");
  const { publicKey } = JSON.parse(made.stdout);
  expect(verifierText(parseSigningKey(secret.trim()))).toBe(publicKey);
  expect(publicKey).toMatch(/^prs\.example\+[0-9a-f]{8}\+B/);
  expect(await run("signing-key --out third.key --algorithm rsa")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--algorithm is ed25519 or ml-dsa-44"),
  });

  const files: [string, RegExp][] = [
    [secret, /no Ed25519 key; that of ML-DSA-44 goes into a line below one/],
    [`${keyText(ours.name)}\n${secret}`, /both keys of a log have its name/],
    [`${keyText(ours.name)}\n${keyText("other")}\n`, /line 2: a run signs with one key of Ed25519/],
    [keyText("w", "", "cosignature-ed25519"), /line 1: it is the key of a witness/],
  ];
  for (const [text, message] of files) {
    await writeFile(path("wrong.key"), text);
    expect(await run(publish, { SIGNING_KEY: "wrong.key" })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(message),
    });
  }
});

test("a policy names whose commits count, with its file and line where it is wrong", async () => {
  await writeFile(path("wrong.policy"), `log ${verifierText(ours)}\nquorum w\n`);
  await writeFile(path("empty.policy"), "quorum none\n");
  await run(publish);
  const message = async (line: string, env?: NodeJS.ProcessEnv) => {
    const { code, stderr } = await run(line, env);
    expect([line, code]).toEqual([line, 2]);
    return stderr;
  };
  for (const line of ["verify", "gc", "export", "diff 1 1", "rollback 1", "list", "witness"]) {
    const command = `${line} --store store`;
    expect(await message(`${command} --trust-policy wrong.policy`)).toMatch(
      /wrong.policy, line 2: "w" is no witness/,
    );
    expect(await message(command, { TRUST_POLICY: "empty.policy" })).toMatch(/empty.policy names no log/);
    expect(await message(command, { TRUST_POLICY: "none.policy", TRUSTED_KEYS: "ours.pub" })).toMatch(
      /neither --trusted-key nor TRUSTED_KEYS goes with it/,
    );
  }
  // What the command is given goes before the environment.
  const given = await run("verify --store store --trust-policy none.policy", { TRUSTED_KEYS: "nowhere" });
  expect([given.code, given.stdout]).toEqual([
    1,
    expect.stringContaining(`${layout.commit(1)}: nobody signed it`),
  ]);
  expect(await run("witness --store store")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("witness goes with SIGNING_KEY and WITNESS_POLICY"),
  });
});

test("gc and verify ask CHECKPOINT_FILE as publish does whether a store was set back", async () => {
  const store = "--store set-back";
  const signing = { SIGNING_KEY: "ours.key", CHECKPOINT_FILE: "remembered" };
  await writeFile(path("ours.key"), `${keyText(ours.name)}\n`);
  expect(await run(`publish --sources sources ${store}`, signing)).toMatchObject({ code: 0 });
  await cp(path("set-back"), path("older"), { recursive: true });
  await writeSources(path("other"), { markets: 21, seed: 2 });
  expect(await run(`publish --sources other ${store} --allow-changed 492`, signing)).toMatchObject({
    code: 0,
  });
  for (const line of [`gc ${store} --dry-run`, `verify ${store}`])
    expect(await run(line, signing)).toMatchObject({ code: 0 });
  // All that the old copy has is put back as it was; what only the newest commit needs is still there.
  for (const key of ["commits", "checked.json", "public"]) {
    await rm(path(`set-back/${key}`), { recursive: true });
    await cp(path(`older/${key}`), path(`set-back/${key}`), { recursive: true });
  }
  const told = "remembered names commit 2, root ";
  for (const env of [signing, { ...signing, SIGNING_KEY: "", TRUSTED_KEYS: "ours.pub" }]) {
    const collected = await run(`gc ${store} --keep-hours 0`, env);
    expect(collected).toMatchObject({ code: 3, stderr: expect.stringContaining(told) });
    const verified = await run(`verify ${store}`, env);
    expect(verified).toMatchObject({ code: 1, stdout: expect.stringContaining(told) });
  }
  expect(await run(`publish --sources other ${store}`, signing)).toMatchObject({ code: 3 });
  // Nobody else remembers what the copy does not have.
  expect(await run(`verify ${store} --trusted-key ours.pub`)).toMatchObject({ code: 0 });
});

const programs = findWitness();
describe.skipIf(!programs)("a publisher with a witness", () => {
  let witness: TestWitness;
  beforeAll(async () => {
    const log = { origin: ours.name, vkeys: [ours, quantum].map(verifierText) };
    witness = await startWitness(programs!, "witness.example/w", log);
    await writeFile(path("both.key"), `${keyText(ours.name)}\n${keyText(ours.name, "", "ml-dsa-44")}\n`);
    await writeFile(
      path("w.policy"),
      `log ${verifierText(ours)}\nwitness w ${witness.vkey} ${witness.url}\nquorum w\n`,
    );
  });
  afterAll(() => witness.stop());
  const signing = { SIGNING_KEY: "both.key", WITNESS_POLICY: "w.policy" };
  const store = "--store signed";

  test("says who did not cosign, asks again by hand, and list shows who did", async () => {
    await witness.kill();
    const made = await run(`publish --sources sources ${store}`, signing);
    expect(made).toMatchObject({ code: 0 });
    expect(made.stdout).toMatch(
      /^cosigned by 0 of 1 witness\n {2}not by w: it cannot be asked: .*ECONNREFUSED/m,
    );
    const lacking = await run(`verify ${store} --trust-policy w.policy`);
    expect([lacking.code, lacking.stdout]).toEqual([
      1,
      expect.stringContaining(
        `${layout.logCheckpoint}: the quorum w is not reached: no witness cosigned; w did not`,
      ),
    ]);
    expect((await run(`list ${store}`, signing)).stdout).not.toContain("cosigned");

    await witness.start();
    expect(await run(`witness ${store}`, signing)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^Commit 1, snapshot [0-9a-f]{64}\ncosigned by 1 of 1 witness: w\n$/),
    });
    expect(await run(`verify ${store} --trust-policy w.policy`)).toMatchObject({ code: 0 });
    expect((await run(`list ${store}`, signing)).stdout).toMatch(/^1 .* {2}cosigned by w\n$/);
    expect((await run(`list ${store}`)).stdout).toContain("cosigned by witness.example/w");
    const { commits } = JSON.parse((await run(`list ${store} --json --trust-policy w.policy`)).stdout);
    expect(commits[0].cosigned).toEqual([{ name: "w", time: expect.stringMatching(/^20\d\d-.*Z$/) }]);
    const without = await run(`publish --sources sources ${store}`, { WITNESS_POLICY: "w.policy" });
    expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining("goes with SIGNING_KEY") });
    // A collector without the private key shows the witnesses what the publisher signed.
    await cp(path("signed"), path("copy"), { recursive: true });
    await writeSources(path("sources"), { markets: 21, seed: 2 });
    const next = await run(`publish --sources sources ${store} --allow-changed 492`, signing);
    expect(next).toMatchObject({ code: 0 });
    const whose = { TRUSTED_KEYS: "ours.pub", WITNESS_POLICY: "w.policy" };
    expect(await run(`gc ${store}`, whose)).toMatchObject({ code: 0 });
    const ahead = expect.stringContaining("witness w has seen a log with commit 2, ");
    expect(await run("gc --store copy", whose)).toMatchObject({ code: 3, stderr: ahead });
    expect(await run("verify --store copy", whose)).toMatchObject({ code: 1, stdout: ahead });
    // The publisher's own file remembers more than a store that was set back.
    await writeFile(path("seen"), signNote(`${ours.name}\n9\n${"A".repeat(43)}=\n`, ours));
    const forgot = await run(`publish --sources sources ${store}`, {
      ...signing,
      CHECKPOINT_FILE: "seen",
    });
    expect([forgot.code, forgot.stderr]).toEqual([3, expect.stringContaining("seen names commit 9, root ")]);
    await writeFile(path("seen"), "no note");
    const unread = await run(`publish --sources sources ${store}`, { ...signing, CHECKPOINT_FILE: "seen" });
    expect(unread).toMatchObject({ code: 5, stderr: expect.stringMatching(/seen cannot be used/) });
    // Witnesses that are down stop nothing that writes.
    await witness.kill();
    for (const line of [`export ${store} --unsigned`, `gc ${store} --dry-run`])
      expect(await run(`${line} --trust-policy w.policy`)).toMatchObject({ code: 0 });
  });
});
