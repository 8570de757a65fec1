import { cp, readFile, writeFile } from "node:fs/promises";
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

beforeAll(async () => {
  await writeSources(path("sources"), { markets: 20 });
  await writeFile(path("ours.pub"), `${verifierText(ours)}\n`);
});

// What keys, policies and files that are wrong are told is in sessions/trust.txt.

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
