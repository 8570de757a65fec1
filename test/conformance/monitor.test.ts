import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leafHash } from "../../snapshots/format/tree.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readLog } from "../../snapshots/store/log/commits.ts";
import { entryOf } from "../../snapshots/store/log/tiles.ts";
import { parsePolicy, verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { Witnesses } from "../../snapshots/trust/witnesses.ts";
import { blocksIn, guide } from "../helpers/publish/guides.ts";
import { market, publishRecords } from "../helpers/publish/records.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { findWitness, startWitness, type TestWitness } from "../helpers/servers/witness.ts";
import { testKey } from "../helpers/store/signing.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// A monitor that others have written reads the public log from a static server, with a policy of two witnesses.

const run = promisify(execFile);
const folder = testFolder();
const objects = new Map<string, Buffer>();
const server = createServer((request, response) => {
  const bytes = objects.get(`public/log${request.url}`);
  response.writeHead(bytes ? 200 : 404).end(bytes);
});

const programs = findWitness();
describe.skipIf(!programs)("a monitor without any of our code", () => {
  const key = testKey();
  let witnesses: TestWitness[] = [];
  let base: string;

  beforeAll(async () => {
    const log = { origin: key.name, vkeys: [verifierText(key)] };
    const kinds = ["ed25519", "ml-dsa-44"] as const;
    witnesses = await Promise.all(
      kinds.map((kind, n) => startWitness(programs!, `witness.example/m${n}`, log, kind)),
    );
    const text = [
      `log ${verifierText(key)}`,
      ...witnesses.map(({ url, vkey }, n) => `witness w${n} ${vkey} ${url}`),
      "group both all w0 w1",
      "quorum both\n",
    ].join("\n");
    await writeFile(join(folder, "trust.policy"), text);
    const policy = parsePolicy(Buffer.from(text), "policy");
    for (const bri of [601, 602, 603])
      await publishRecords(memoryStorage(objects), [market(1)], bri, {
        signing: { key, witnesses: new Witnesses(policy, 590_000) },
      });
    base = `http://127.0.0.1:${await listenLocally(server)}/`;
  });
  afterAll(async () => {
    server.close();
    await Promise.all(witnesses.map((witness) => witness.stop()));
  });

  test("reads every entry as the commits have them and refuses an altered one, also run as OPERATING.md says", async () => {
    const leaves = (await readLog(memoryStorage(objects))).map(entryOf);
    const monitor = () => run(programs!.monitor, ["-policy", join(folder, "trust.policy"), "-log", base]);
    expect((await monitor()).stdout.trim().split("\n")).toEqual(leaves.map(String));
    expect(leaves).toHaveLength(3);

    const [, page] = guide(".github/deploy/OPERATING.md").split("### Monitoring with other tools\n");
    const [commands] = blocksIn(page!);
    await mkdir(join(folder, "tools"));
    await symlink(programs!.monitor, join(folder, "tools/monitor"));
    const env = { ...process.env, LOG: base.slice(0, -1) };
    const { stdout } = await run("bash", ["-euo", "pipefail", "-c", commands!.text], { cwd: folder, env });
    // It finds the newest entry's hash by hand, too.
    const hash = leafHash(leaves.at(-1)!).toString("hex");
    expect(stdout.split("\n")).toEqual([hash, hash, ""]);

    const at = layout.logTile("entries/000.p/3");
    objects.set(at, Buffer.from(String(objects.get(at)!).replace('"commit":2', '"commit":4')));
    await expect(monitor()).rejects.toMatchObject({ code: 1 });
  });
});
