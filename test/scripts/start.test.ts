import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ExportList, SnapshotList } from "../../schemas/envelopes.ts";
import { readKeys, revokeKey } from "../../snapshots/keys/keys.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { signalGroup } from "../helpers/http/proxy-command.ts";
import { copyProject } from "../helpers/publish/copies.ts";
import { blocksIn, guide } from "../helpers/publish/guides.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { listenLocally, nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

/** Fewer than a user gets, as the whole sample takes long. */
const markets = 2000;
/** A copy of the project, so that the store of this one is left alone. */
const project = testFolder();
const children: ChildProcess[] = [];

beforeAll(async () => {
  await copyProject(project);
  const file = join(project, "snapshots/sample/sample.ts");
  const text = await readFile(file, "utf8");
  expect(text).toContain("{ markets: 20_000,");
  await writeFile(file, text.replace("{ markets: 20_000,", `{ markets: ${markets},`));
});

afterAll(() => {
  for (const child of children) if (child.exitCode === null) signalGroup(child, "SIGKILL");
});

/** Runs what `npm start` runs, until it is ready, or has said that it is `about` to do something, or has ended. */
async function start(port: string, about = "/api/v1/status") {
  const child = spawn(process.execPath, [...nodeOptions, "scripts/start.ts"], {
    cwd: project,
    // Whatever store is set is not the sample's.
    env: { PATH: process.env.PATH, PORT: port, SNAPSHOT_STORE: "/nowhere" },
    detached: true,
  });
  children.push(child);
  const output = { out: "", err: "" };
  child.stdout.on("data", (chunk) => (output.out += chunk));
  child.stderr.on("data", (chunk) => (output.err += chunk));
  const ended = once(child, "close").then(([code]) => code as number);
  await until(
    "the greeting, or the command to end",
    () => (output.out + output.err).includes(about) || child.exitCode !== null,
  );
  return { child, output, ended };
}

const run = promisify(execFile);
const keysIn = (text: string) => [...new Set(text.match(/prs_live_\w+/g))];

describe("npm start", () => {
  test("names a taken PORT before it makes the sample", async () => {
    const other = createServer();
    const port = await listenLocally(other);
    const taken = await start(String(port));
    expect(await taken.ended).toBe(1);
    expect(taken.output.err).toMatch(new RegExp(`^PORT ${port} is taken.*\\n$`));
    expect(await readdir(project)).not.toContain(".local");
    other.close();
  });

  test("makes, publishes, exports and serves a sample of two snapshots, in place of another version's", async () => {
    // Earlier versions made one snapshot.
    await publishArchive(directoryStorage(join(project, ".local/store")));
    const first = await start("0");
    expect(first.output.err).toMatch(/^The sample was made by another version/);
    const keys = keysIn(first.output.out);
    expect(keys).toHaveLength(2);
    expect((await stat(join(project, ".local/demo-keys.json"))).mode & 0o777).toBe(0o600);
    const lines = first.output.out.split("\n").filter((line) => line.startsWith("  curl "));
    expect(lines).toHaveLength(8);
    const [, mcp = "", header = ""] = /at (\S+\/mcp) .* header (.+)$/m.exec(first.output.out) ?? [];
    const call = { name: "count_markets", arguments: { by: ["tier"] } };
    const [name = "", value = ""] = header.split(": ");
    const json = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: call });
    const called = await fetch(mcp, { method: "POST", headers: { ...json, [name]: value }, body });
    expect(await called.text()).toContain(`"total":${markets}`);
    const answers: string[] = [];
    for (const line of lines) {
      const { stdout } = await run("sh", ["-c", `${line} -sSi --max-time 60`], { maxBuffer: 2 ** 26 });
      expect(stdout, line).toMatch(/^HTTP\/1\.1 200 /);
      if (line.includes("historical")) expect(Number(/"total":(\d+)/.exec(stdout)?.[1])).toBeGreaterThan(2);
      answers.push(stdout.slice(stdout.indexOf("\r\n\r\n") + 4));
    }

    // What time travel, a copy and downloads show: two snapshots, what lies between them, and the newest one's files.
    const address = lines.at(-1)!.trim().split(" ")[1]!;
    const list = await (await fetch(address.replace("status", "snapshots"))).json();
    const [newest, earlier, ...others] = SnapshotList.parse(list).snapshots;
    const added = newest!.counts.markets - earlier!.counts.markets;
    expect([newest!.counts.markets, others]).toEqual([markets, []]);
    expect(added).toBeGreaterThan(10);
    expect(answers[5]!.trimEnd().split("\n").length).toBeGreaterThan(added);
    const { exports } = ExportList.parse(JSON.parse(answers[6]!));
    expect(exports).toMatchObject([
      { snapshotId: newest!.snapshotId, rows: markets },
      { snapshotId: earlier!.snapshotId, rows: earlier!.counts.markets },
    ]);
    const table = "/delta-sharing/shares/prs/schemas/archive/tables/markets";
    const changed = await fetch(new URL(`${table}/changes?startingVersion=2`, address), {
      headers: { authorization: `Bearer ${keys[1]}` },
    });
    expect(await changed.text()).toContain('"cdf":{');
    // The README begins with a row that everybody finds.
    const [row] = blocksIn(guide("README.md")).filter(({ language }) => language === "json");
    expect(JSON.parse(answers[0]!).scores).toContainEqual(JSON.parse(row!.text));
    const disputed = lines[3]!.replace("tier=MITHRIL&", "").replace("&pageSize=2", "&pageSize=1");
    const [then, now] = await Promise.all(
      [`&asOf=${earlier!.snapshotId}`, ""].map(async (asOf) => {
        const { stdout } = await run("sh", ["-c", `${disputed.replace(/'$/, `${asOf}'`)} -sS --max-time 60`]);
        return JSON.parse(stdout).total as number;
      }),
    );
    expect(now).toBeGreaterThan(then!);
    first.child.kill("SIGINT");
    expect(await first.ended).toBe(0);
  });

  test("a start that was interrupted is gone on with, and a later one uses what is there", async () => {
    const records = join(project, ".local/store/private/exports/records");
    await rm(records, { recursive: true });
    const second = await start("0");
    expect(second.output.err).toMatch(/^Exporting the sample/);
    expect(second.output.err).not.toContain("reading markets");
    expect(await readdir(records)).toHaveLength(1);
    const saved = JSON.parse(await readFile(join(project, ".local/demo-keys.json"), "utf8"));
    expect(keysIn(second.output.out)).toEqual(Object.values(saved));
    second.child.kill("SIGINT");
    expect(await second.ended).toBe(0);
  });

  test("demo keys that open nothing, or something else, are replaced", async () => {
    const storage = directoryStorage(join(project, ".local/store"));
    const file = join(project, ".local/demo-keys.json");
    const saved = await readFile(file, "utf8");
    const { developer, aegis } = JSON.parse(saved);
    const { records } = await readKeys(storage);
    const idOf = (key: string) => records.find(({ secretHash }) => secretHash === sha256(key))!.id;
    for (const harm of [
      () => writeFile(file, JSON.stringify({ developer: aegis, aegis: developer })),
      () => revokeKey(storage, idOf(aegis), new Date()).then(() => writeFile(file, saved)),
    ]) {
      await harm();
      const { child, output, ended } = await start("0");
      expect(output.err).toBe("");
      const keys = keysIn(output.out);
      expect(Object.values(JSON.parse(await readFile(file, "utf8")))).toEqual(keys);
      expect(keys.map((key) => saved.includes(key))).toEqual([false, false]);
      child.kill("SIGTERM");
      expect(await ended).toBe(0);
    }
  });

  test("a sample that cannot be read is replaced", async () => {
    const manifests = join(project, ".local/store/manifests");
    const files = (await readdir(manifests)).map((name) => join(manifests, name));
    for (const file of files) await writeFile(file, "{}");
    const replaced = await start("0", "Making a sample");
    expect(replaced.output.err).toMatch(/^The sample was made by another version/);
    // How it goes on is seen above.
    for (const file of files) expect(await readFile(file, "utf8").catch(() => "gone")).not.toBe("{}");
    signalGroup(replaced.child, "SIGINT");
    await replaced.ended;
  });
});
