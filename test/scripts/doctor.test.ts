import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { expectEnd, runCommand, snapshotCommand } from "../helpers/publish/commands.ts";
import { writePlainSources } from "../helpers/publish/sample-sources.ts";
import { serveTree } from "../helpers/servers/public-tree.ts";
import { keyText, testKey } from "../helpers/store/signing.ts";
import { contentOf } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
let cdn: string;
/** What the environment of the tests may have. */
const bare = {
  ...{ AWS_REGION: "x", STORE: "", SNAPSHOT_STORE: "", API_URL: "", SITE_URL: "" },
  ...{ SIGNING_KEY: "", TRUSTED_KEYS: "" },
};

/** Runs the doctor over a file of variables. */
async function examine(variables: string, args: readonly string[] = []) {
  await writeFile(join(folder, "given.env"), variables.replaceAll("CDN", cdn));
  return runCommand("doctor", ["--env", "given.env", ...args], { from: folder, env: bare });
}

beforeAll(async () => {
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) vi.stubEnv(name, "test");
  const storage = directoryStorage(join(folder, "store"));
  await writeFile(join(folder, "signing.key"), keyText("prs.example/scores"));
  await writeFile(join(folder, "trusted.keys"), verifierText(testKey()));
  await writeFile(join(folder, "other.keys"), verifierText(testKey("prs.example/scores", "other")));
  await writePlainSources(join(folder, "sources"), 30);
  const env = { SIGNING_KEY: "signing.key" };
  const publish = ["publish", "--sources", "sources", "--store", "store"];
  expect(await snapshotCommand(publish, { from: folder, env })).toMatchObject({ code: 0 });
  const { server, home } = await serveTree(storage, "/public/");
  cdn = home.replace(/\/public\/$/, "");
  return () => {
    vi.unstubAllEnvs();
    server.close();
  };
});

describe("npm run doctor", () => {
  test("finds nothing wrong with a proxy and with a publisher, and changes nothing for a proxy", async () => {
    const storage = directoryStorage(join(folder, "store"));
    const before = await contentOf(storage);
    const proxy = await examine("SNAPSHOT_STORE=store\nTRUSTED_KEYS=trusted.keys\nPUBLIC_ORIGIN=CDN\n");
    expectEnd(
      proxy,
      0,
      /\nNothing is wrong\n$/,
      /^ok {6}settings: SNAPSHOT_STORE, PUBLIC_ORIGIN, TRUSTED_KEYS/m,
      /^ok {6}store: commit 1 with \d+ markets, publish run at 20/m,
      /^ok {6}keys: none; `npm run keys -- issue --plan aegis --owner NAME --store store` makes one$/m,
      /^ok {6}signing: the newest commit is signed$/m,
      /^ok {6}addresses: found http/m,
      /^ok {6}quota: .*quota\.sqlite is made at the first start$/m,
    );
    expect(proxy.stderr).toBe("");
    expect(await contentOf(storage)).toEqual(before);
    const publisher = "SOURCES=sources\nSTORE=store\nSIGNING_KEY=signing.key\nSITE_URL=CDN/public\n";
    expectEnd(await examine(publisher), 0, /^ok {6}rights: reads, lists and/m);
  });

  test.for<[variables: string, ...told: string[]]>([
    [
      "SNAPSHOT_STORE=store\nPOL_SECONDS=5\nPUBLIC_ORIGIN=CDN/public\nAPI_URL=CDN",
      "settings: POL_SECONDS is no setting. Did you mean POLL_SECONDS?",
      "PUBLIC_ORIGIN: CDN/public/public/site/api.json answers 404, so links, badges and frames lead nowhere.",
      "API_URL: CDN/api/v1/status answers 404",
      "signing: commits are signed, and nobody checks it: set TRUSTED_KEYS",
    ],
    [
      "SNAPSHOT_STORE=stor\nPORT=x",
      "settings: PORT must be an integer from 0 to 65535.",
      "store: there is no store at FOLDER/stor; a publish makes one",
    ],
    ["SNAPSHOT_STORE=s3://b-b\nAWS_ENDPOINT_URL_S3=http://127.0.0.1:9", "does it answer this machine?"],
    [
      "SNAPSHOT_STORE=store\nTRUSTED_KEYS=none\nQUOTA_STORE=redis://127.0.0.1:9",
      "store: TRUSTED_KEYS: FOLDER/none cannot be read",
      "quota: QUOTA_STORE does not answer: ",
    ],
    [
      "SNAPSHOT_STORE=store\nTRUSTED_KEYS=other.keys",
      "store: what is newest is not taken up: commits/0000000001.json",
    ],
    [
      "STORE=store\nSOURCES=nowhere\nSITE_URL=CDN",
      "sources: there is nothing at FOLDER/nowhere (SOURCES)",
      "SITE_URL: CDN/site/api.json answers 404, so links, badges and frames lead nowhere.",
      "signing: FOLDER/store: commit 1 is signed, and SIGNING_KEY is not set",
    ],
    ["STORE=store\nSOURCES=sources\nSIGNING_KEY=no.key", "signing: FOLDER/no.key cannot be read"],
  ])("names what is wrong, and the way out: %s", async ([variables, ...told]) => {
    const { code, stdout } = await examine(variables);
    const wrong = stdout.split("\n").filter((line) => line.startsWith("wrong   "));
    const lines = told.map((line) => line.replaceAll("FOLDER", folder).replaceAll("CDN", cdn));
    const wanted = lines.map((line) => expect.stringContaining(line));
    expect([code, wrong]).toEqual([1, expect.arrayContaining(wanted)]);
    expect(wrong).toHaveLength(wrong.filter((line) => lines.some((each) => line.includes(each))).length);
    expect(stdout).toMatch(/\n\d checks? failed\n$/);
  });

  test("tells of a publish that is too long ago, and of a clock that is behind", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 86_400_000 });
    const late = await examine("SNAPSHOT_STORE=store\nSTALE_AFTER_SECONDS=3600\n").finally(() =>
      vi.useRealTimers(),
    );
    const long = /^wrong {3}store: the last publish was at .*, longer ago than STALE_AFTER_SECONDS/m;
    expect(late.stdout).toMatch(long);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 86_400_000 });
    const early = await examine("STORE=store\n", ["--json"]).finally(() => vi.useRealTimers());
    const { findings } = JSON.parse(early.stdout);
    const clock = findings.find(({ check }: { check: string }) => check === "clock");
    const says = expect.stringContaining("and the newest commit's time is");
    expect(clock).toMatchObject({ state: "wrong", says });
  });

  test("needs the name of a store, and a file that is there", async () => {
    expectEnd(await examine("PORT=1"), 2, "--store is missing");
    expectEnd(await runCommand("doctor", ["--env", "none.env"], { from: folder }), 1, "none.env");
    expect(await snapshotCommand(["list", "--store", "store"], { from: folder })).toMatchObject({ code: 0 });
  });
});
