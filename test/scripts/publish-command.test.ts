import { cp, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { readExported } from "../../snapshots/export/export-records.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { ifPresent } from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { addMarkets } from "../helpers/archive/odd-markets.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { writePlainSources } from "../helpers/publish/sample-sources.ts";
import { freePort, listenLocally } from "../helpers/servers/programs.ts";
import { contentOf } from "../helpers/store/storages.ts";
import { describeStores } from "../helpers/store/stores.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const sources = join(folder, "sources");
const run = (args: string, how: Partial<Parameters<typeof snapshotCommand>[1]> = {}) =>
  snapshotCommand(args.split(" "), { from: folder, ...how });

// What a publish says is in sessions/publish.txt.

/** A server that shows the public tree of a store below /public/, and nothing else of it. */
async function startCdn(root: string): Promise<string> {
  const server = createServer(async ({ url = "" }, response) => {
    if (url.startsWith("/other/")) return void response.end("<!doctype html>");
    if (url.startsWith("/long/")) return void response.end("x".repeat(70_000));
    const found = url.startsWith("/public/") && (await ifPresent(readFile(join(root, url))));
    response.writeHead(found ? 200 : 404).end(found || "");
  });
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${await listenLocally(server)}`;
}

/** Sources in a folder of this name, to be changed there. */
async function copyOfSources(name: string): Promise<string> {
  await cp(sources, join(folder, name), { recursive: true });
  return join(folder, name);
}

beforeAll(() => writePlainSources(sources, 120));

describe("npm run snapshot -- publish", () => {
  test("warns when the public tree is not found at the address of --site-url", async () => {
    const cdn = await startCdn(join(folder, "sited"));
    const publish = (site: string) => run(`publish --sources sources --store sited --site-url ${site}`);
    const nobody = `http://127.0.0.1:${await freePort()}`;
    for (const [site, fault] of [
      [cdn, "answers 404"],
      [`${cdn}/other`, "is another file"],
      [`${cdn}/long`, "cannot be had from here \\(it is too long\\)"],
      [nobody, "cannot be had from here \\(connect ECONNREFUSED .*\\)"],
    ] as const) {
      const { code, stderr } = await publish(site);
      const told = `^Warning: ${site}/site/api.json ${fault}, so .* --site-url is https://HOST/public\\.$`;
      expect([code, stderr]).toEqual([0, expect.stringMatching(new RegExp(told, "m"))]);
    }
    const { code, stderr } = await publish(`${cdn}/public`);
    expect([code, stderr]).toEqual([0, expect.not.stringContaining("Warning")]);
  });

  test("--export exports the snapshot and what its commit changed, once", async () => {
    const growing = await copyOfSources("growing");
    const storage = directoryStorage(join(folder, "exported"));
    const publish = async () => {
      const line = "publish --sources growing --store exported --export --json";
      const { code, stdout, stderr } = await run(line);
      expect([code, stderr]).toEqual([0, expect.stringMatching(/^Exported in \d+ files? \(\d+ bytes\)$/m)]);
      return JSON.parse(stdout);
    };
    expect(await publish()).toMatchObject({ outcome: "published", commit: 1 });
    await addMarkets(growing, 3);
    expect(await publish()).toMatchObject({ outcome: "published", commit: 2 });
    const { changes } = (await readCommit(storage, 2))!;
    const { files } = (await readExported(storage, layout.exportedChanges, changes!.hash))!;
    expect(files.map(({ rows }) => rows)).toEqual([3]);
    const before = await contentOf(storage);
    expect(await publish()).toMatchObject({ outcome: "unchanged", commit: 2 });
    expect(await contentOf(storage)).toEqual(before);
    expect((await verify(storage, () => {})).faults).toEqual([]);
  });
});

describeStores("to %s, a clock", ({ folder: own, newLocation, environment }) => {
  const hour = 3_600_000;
  afterEach(() => vi.useRealTimers());
  /** Publishes with this machine's clock so many hours ahead. A day ahead, it would remove what other tests left. */
  function publishAhead(hours: number, from: string, location: string) {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + hours * hour });
    return run(`publish --sources ${from} --store ${location}`, { env: { ...environment } }).finally(() =>
      vi.useRealTimers(),
    );
  }
  /** The times in a warning, in hours from now. */
  const timesIn = (text: string, pattern: RegExp) =>
    pattern
      .exec(text)
      ?.slice(1)
      .map((time) => Math.round((Date.parse(time) - Date.now()) / hour) + 0);

  test("that is ahead, or behind what the sources say, is warned of with what both clocks say", async () => {
    const location = newLocation();
    const gets =
      /^Warning: commit \d gets the time (\S+), .* store's clock says (\S+), and this machine's (\S+)$/m;
    const first = await publishAhead(2, "sources", location);
    expect([first.code, timesIn(first.stderr, gets)]).toEqual([0, [2, 0, 2]]);
    const grown = join(own, "grown");
    await cp(sources, grown, { recursive: true });
    await addMarkets(grown, 1);
    const second = await publishAhead(0, grown, location);
    expect([second.code, timesIn(second.stderr, gets)]).toEqual([0, [2, 0, 0]]);
    const says = /^Warning: times are too late: this machine's clock says (\S+), and the store's (\S+)$/m;
    const behind = await publishAhead(-100_000, "sources", location);
    expect([behind.code, timesIn(behind.stderr, says)]).toEqual([3, [-100_000, 0]]);
    expect(behind.stderr).toContain("five minutes after the start");
  });
});
