import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { layout } from "../../snapshots/store/layout.ts";
import { parseSigningKey, verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signNote } from "../../snapshots/trust/notes/signed-note.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
import { writeSources } from "../helpers/publish/sample-sources.ts";
import { findWitness, startWitness, type TestWitness } from "../helpers/servers/witness.ts";
import { keyText, testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const path = (name: string) => join(folder, name);
const ours = testKey();
const quantum = testKey(ours.name, "", "ml-dsa-44");
const clean = {
  ...{ SIGNING_KEY: "", SIGNING_NAME: "", TRUSTED_KEYS: "" },
  ...{ TRUST_POLICY: "", WITNESS_POLICY: "", CHECKPOINT_FILE: "" },
};
const run = (line: string, env: NodeJS.ProcessEnv = {}) =>
  snapshotCommand(line.split(" "), { from: folder, env: { ...clean, ...env } });
const ends = async (line: string, env: NodeJS.ProcessEnv, code: number, ...told: (string | RegExp)[]) =>
  expectEnd(await run(line, env), code, ...told);
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
  expectEnd(
    await run("signing-key --out third.key --algorithm rsa"),
    2,
    "--algorithm is ed25519 or ml-dsa-44",
  );

  const files: [string, RegExp][] = [
    [secret, /no Ed25519 key; that of ML-DSA-44 goes into a line below one/],
    [`${keyText(ours.name)}\n${secret}`, /both keys of a log have its name/],
    [`${keyText(ours.name)}\n${keyText("other")}\n`, /line 2: a run signs with one key of Ed25519/],
    [keyText("w", "", "cosignature-ed25519"), /line 1: it is the key of a witness/],
  ];
  for (const [text, message] of files) {
    await writeFile(path("wrong.key"), text);
    expectEnd(await run(publish, { SIGNING_KEY: "wrong.key" }), 2, message);
  }
});

test("a policy names whose commits count, with its file and line where it is wrong", async () => {
  await writeFile(path("wrong.policy"), `log ${verifierText(ours)}\nquorum w\n`);
  await writeFile(path("empty.policy"), "quorum none\n");
  await run(publish);
  for (const line of ["verify", "gc", "export", "diff 1 1", "rollback 1", "list", "witness"]) {
    const command = `${line} --store store`;
    await ends(`${command} --trust-policy wrong.policy`, {}, 2, /wrong.policy, line 2: "w" is no witness/);
    await ends(command, { TRUST_POLICY: "empty.policy" }, 2, /empty.policy names no log/);
    const both = { TRUST_POLICY: "none.policy", TRUSTED_KEYS: "ours.pub" };
    await ends(command, both, 2, /neither --trusted-key nor TRUSTED_KEYS goes with it/);
  }
  // What the command is given goes before the environment.
  const given = await run("verify --store store --trust-policy none.policy", { TRUSTED_KEYS: "nowhere" });
  const unsigned = expect.stringContaining(`${layout.commit(1)}: nobody signed it`);
  expect([given.code, given.stdout]).toEqual([1, unsigned]);
  await ends("witness --store store", {}, 2, "witness goes with SIGNING_KEY and WITNESS_POLICY");
});

test("gc and verify ask CHECKPOINT_FILE as publish does whether a store was set back", async () => {
  const store = "--store set-back";
  const signing = { SIGNING_KEY: "ours.key", CHECKPOINT_FILE: "remembered" };
  await ends(`publish --sources sources ${store}`, signing, 0);
  await cp(path("set-back"), path("older"), { recursive: true });
  await writeSources(path("other"), { markets: 21, seed: 2 });
  await ends(`publish --sources other ${store} --allow-changed 492`, signing, 0);
  for (const line of [`gc ${store} --dry-run`, `verify ${store}`]) await ends(line, signing, 0);
  // All that the old copy has is put back as it was; what only the newest commit needs is still there.
  for (const key of ["commits", "checked.json", "public"]) {
    await rm(path(`set-back/${key}`), { recursive: true });
    await cp(path(`older/${key}`), path(`set-back/${key}`), { recursive: true });
  }
  const told = "remembered names commit 2, root ";
  for (const env of [signing, { ...signing, SIGNING_KEY: "", TRUSTED_KEYS: "ours.pub" }]) {
    await ends(`gc ${store} --keep-hours 0`, env, 3, told);
    const stdout = expect.stringContaining(told);
    expect(await run(`verify ${store}`, env)).toMatchObject({ code: 1, stdout });
  }
  await ends(`publish --sources other ${store}`, signing, 3);
  // Nobody else remembers what the copy does not have.
  await ends(`verify ${store} --trusted-key ours.pub`, {}, 0);
});

const programs = findWitness();
describe.skipIf(!programs)("a publisher with a witness", () => {
  let witness: TestWitness;
  beforeAll(async () => {
    const log = { origin: ours.name, vkeys: [ours, quantum].map(verifierText) };
    witness = await startWitness(programs!, "witness.example/w", log);
    await writeFile(path("both.key"), `${keyText(ours.name)}\n${keyText(ours.name, "", "ml-dsa-44")}\n`);
    const policy = `log ${verifierText(ours)}\nwitness w ${witness.vkey} ${witness.url}\nquorum w\n`;
    await writeFile(path("w.policy"), policy);
  });
  afterAll(() => witness.stop());
  const signing = { SIGNING_KEY: "both.key", WITNESS_POLICY: "w.policy" };
  const store = "--store signed";

  test("says who did not cosign, asks again by hand, and list shows who did", async () => {
    await witness.kill();
    const nobody = /^cosigned by 0 of 1 witness\n {2}not by w: it cannot be asked: .*ECONNREFUSED/m;
    await ends(`publish --sources sources ${store}`, signing, 0, nobody);
    const lacking = await run(`verify ${store} --trust-policy w.policy`);
    const quorum = `${layout.logCheckpoint}: the quorum w is not reached: no witness cosigned; w did not`;
    expect([lacking.code, lacking.stdout]).toEqual([1, expect.stringContaining(quorum)]);
    expect((await run(`list ${store}`, signing)).stdout).not.toContain("cosigned");

    await witness.start();
    const now = /^Commit 1, snapshot [0-9a-f]{64}\ncosigned by 1 of 1 witness: w\n$/;
    await ends(`witness ${store}`, signing, 0, now);
    await ends(`verify ${store} --trust-policy w.policy`, {}, 0);
    await ends(`list ${store}`, signing, 0, /^1 .* {2}cosigned by w\n$/);
    await ends(`list ${store}`, {}, 0, "cosigned by witness.example/w");
    const { commits } = JSON.parse((await run(`list ${store} --json --trust-policy w.policy`)).stdout);
    expect(commits[0].cosigned).toEqual([{ name: "w", time: expect.stringMatching(/^20\d\d-.*Z$/) }]);
    await ends(
      `publish --sources sources ${store}`,
      { WITNESS_POLICY: "w.policy" },
      2,
      "goes with SIGNING_KEY",
    );
    // A collector without the private key shows the witnesses what the publisher signed.
    await cp(path("signed"), path("copy"), { recursive: true });
    await writeSources(path("sources"), { markets: 21, seed: 2 });
    await ends(`publish --sources sources ${store} --allow-changed 492`, signing, 0);
    const whose = { TRUSTED_KEYS: "ours.pub", WITNESS_POLICY: "w.policy" };
    await ends(`gc ${store}`, whose, 0);
    const ahead = "witness w has seen a log with commit 2, ";
    await ends("gc --store copy", whose, 3, ahead);
    const stdout = expect.stringContaining(ahead);
    expect(await run("verify --store copy", whose)).toMatchObject({ code: 1, stdout });
    // The publisher's own file remembers more than a store that was set back.
    const remembering = { ...signing, CHECKPOINT_FILE: "seen" };
    await writeFile(path("seen"), signNote(`${ours.name}\n9\n${"A".repeat(43)}=\n`, ours));
    await ends(`publish --sources sources ${store}`, remembering, 3, "seen names commit 9, root ");
    await writeFile(path("seen"), "no note");
    await ends(`publish --sources sources ${store}`, remembering, 5, /seen cannot be used/);
    // Witnesses that are down stop nothing that writes.
    await witness.kill();
    for (const line of [`export ${store} --unsigned`, `gc ${store} --dry-run`])
      await ends(`${line} --trust-policy w.policy`, {}, 0);
  });
});
