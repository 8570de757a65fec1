import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { type AlteringLink, startAlteringLink } from "../helpers/http/altering-link.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { runCommand } from "../helpers/publish/commands.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const [ours, stranger] = [testKey(), testKey("prs.example/other")];
const markets = recordsOf(0, 60);
const disputed = markets.filter((market) => market.disputed);
let proxy: TestProxy;
let link: AlteringLink;

beforeAll(async () => {
  proxy = await startTestProxy({ empty: true, pollSeconds: 0.1 });
  link = await startAlteringLink(proxy.port);
  const { snapshotId } = await publishRecords(proxy.storage, markets, 700, { signing: { key: ours } });
  await takenUp(proxy, snapshotId);
  await writeFile(join(folder, "key"), await proxy.issue());
  await writeFile(join(folder, "free"), await proxy.issue({ plan: "developer" }));
  for (const [name, key] of Object.entries({ ours, stranger }))
    await writeFile(join(folder, `${name}.pub`), `${verifierText(key)}\n`);
});
afterAll(async () => {
  await link?.stop();
  await proxy?.stop();
});

const ask = (query: string, more: readonly string[] = [], port = proxy.port, key = "key") =>
  runCommand("ask", ["--url", `http://127.0.0.1:${port}`, "--key-file", key, ...more, query], {
    from: folder,
  });

test("prints a total and facets that it computed, and who vouches for them", async () => {
  const { code, stdout } = await ask("disputed=true", ["--by", "tier", "--trusted-key", "ours.pub"]);
  expect(code).toBe(0);
  const lines = stdout.split("\n");
  expect(lines[0]).toBe(`${disputed.length} markets with disputed=true`);
  const [{ tier }] = disputed as [(typeof disputed)[number]];
  const count = disputed.filter((market) => market.tier === tier).length;
  expect(stdout).toMatch(new RegExp(`^ +${tier} +${count}, ${count} of them disputed$`, "m"));
  expect(stdout).toContain(`vouched for by ${ours.name}: they signed the log of 1 commit with this entry`);
  const entry = /^entry ([0-9a-f]{64})$/m.exec(stdout)![1]!;
  const pinned = await ask("", ["--entry", entry, "--json"]);
  expect(JSON.parse(pinned.stdout)).toMatchObject({
    total: 60,
    facets: {},
    vouched: { by: ["entry"], entry },
  });
  expect((await ask("")).stdout).toContain("nobody vouches for it");
});

test.each([
  ["a stranger's key", "", ["--trusted-key", "stranger.pub"], 6, /None of the keys signed/],
  ["another entry", "", ["--entry", "0".repeat(64)], 6, /entry/],
  ["a filter that there is not", "catgory=x", [], 2, /Did you mean category\?/],
  ["a facet that there is not", "", ["--by", "tear"], 2, /tier/],
  ["a filter given twice", "disputed=true&disputed=true", [], 2, /more than once/],
  ["a limit of nothing", "", ["--limit", "0"], 2, /--limit/],
  ["a time before all snapshots", "", ["--as-of", "2001-01-01"], 5, /published at or before/],
] as const)("refuses %s", async (_, query, more, code, message) => {
  const said = await ask(query, more);
  expect(said).toMatchObject({ code, stdout: "" });
  expect(said.stderr).toMatch(message);
});

test("prints no number where a byte of the index is another or the plan is too low", async () => {
  // An altered answer goes on as text, which spoils the bytes of sections.
  link.alter = (_, answer) => answer;
  const altered = await ask("min_composite=500", ["--json"], Number(new URL(link.url).port));
  expect(altered.code).toBe(6);
  expect(JSON.parse(altered.stdout)).toEqual({
    error: { exitCode: 6, message: expect.stringMatching(/section|header/i), refusals: [] },
  });
  expect(await ask("", [], proxy.port, "free")).toMatchObject({ code: 2, stdout: "" });
});
