import { existsSync } from "node:fs";
import { appendFile, cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { readExported } from "../../snapshots/export/export-records.ts";
import { quoted } from "../../snapshots/sources/duckdb/sql-literals.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { ifPresent } from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { addMarkets } from "../helpers/archive/odd-markets.ts";
import { runSql } from "../helpers/archive/sql.ts";
import { type ArchiveProxy, startArchiveProxy } from "../helpers/http/archive-proxy.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
import { publishSources, writePlainSources, writeSources } from "../helpers/publish/sample-sources.ts";
import { freePort, listenLocally } from "../helpers/servers/programs.ts";
import { contentOf } from "../helpers/store/storages.ts";
import { describeStores } from "../helpers/store/stores.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const sources = join(folder, "sources");
const store = join(folder, "store");
const run = (args: string, how: Partial<Parameters<typeof snapshotCommand>[1]> = {}) =>
  snapshotCommand(args.split(" "), { from: folder, ...how });

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

let snapshotId: string;

beforeAll(async () => {
  await writePlainSources(sources, 120);
  ({ snapshotId } = await publishSources(sources, directoryStorage(store), folder));
});

describe("npm run snapshot -- publish", () => {
  test("publishes from and to folders relative to the user's, in any time zone and language", async () => {
    const env = { TZ: "America/St_Johns", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8" };
    const publish = "publish --sources sources --store elsewhere/store";
    const first = await run(publish, { npm: true, env });
    const sizes = /objects: \d+ \(\d+ bytes\) uploaded, 0 \(0 bytes\) unchanged, \d+ \(\d+ bytes\) total/;
    expectEnd(first, 0, `Published commit 1, snapshot ${snapshotId}`, sizes);
    // Plain lines where there is no terminal.
    expect(first.stderr).toMatch(/^writing pages: \d+ of \d+ \(100 %\)$/m);
    expect(first.stderr).not.toContain("\r");
    const cdn = await startCdn(join(folder, "elsewhere/store"));
    const namedBy = async (options: string) => {
      expectEnd(
        await run(`${publish} ${options}`),
        0,
        `Nothing new: commit 1 already has snapshot ${snapshotId}`,
      );
      return JSON.parse(await readFile(join(folder, "elsewhere/store", layout.siteFile("api.json")), "utf8"));
    };
    const places = { api: "https://api.example.org/api/v1", site: `${cdn}/public/` };
    expect(await namedBy(`--api-url https://api.example.org/ --site-url ${cdn}/public`)).toEqual(places);
    const terms = { license: "https://spdx.org/licenses/CC-BY-4.0", citeAs: "Scores" };
    expect(await namedBy(`--license ${terms.license} --cite-as Scores`)).toEqual({ ...places, ...terms });
    const contact = "mailto:keys@example.org";
    expect(await namedBy("--contact keys@example.org")).toEqual({ ...places, ...terms, contact });
    const none = await namedBy("--api-url none --license none --cite-as none --contact none");
    expect(none).toEqual({ api: null, site: places.site });
  });

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

  test("says first that there is no store yet, where its address may be mistyped", async () => {
    const publish = (more = "") => run(`publish --sources sources --store mistyped${more}`);
    const told = `there is no store at ${join(folder, "mistyped")} yet: publish makes one\n`;
    expect((await publish(" --dry-run")).stderr.startsWith(told)).toBe(true);
    expect((await publish()).stderr.startsWith(told)).toBe(true);
    expect((await publish()).stderr).not.toContain("there is no store");
  });

  test("--json puts one object on stdout and nothing else", async () => {
    const { code, stdout } = await run("publish --sources sources --store store --dry-run --json");
    expect([code, stdout.match(/\n/g)]).toEqual([0, ["\n"]]);
    const report = { outcome: "dry-run", commit: 1, snapshotId, uploaded: { objects: 0 } };
    expect(JSON.parse(stdout)).toMatchObject(report);
  });

  test("--statement: a file that cannot be made ends the run; a full disk does not hide the report", async () => {
    const publish = "publish --sources sources --store stated --json --statement";
    const nowhere = await run(`${publish} nowhere/statement.json`);
    expect([nowhere.code, existsSync(join(folder, "stated"))]).toEqual([1, false]);
    expect(nowhere.stderr).toMatch(/^cannot open .*nowhere\/statement\.json: ENOENT: .*\n$/);
    const full = await run(`${publish} /dev/full`);
    expect([full.code, JSON.parse(full.stdout).outcome]).toEqual([5, "published"]);
    expect(full.stderr).toMatch(/^The statement could not be written, .* published: ENOSPC/m);
    // The next run makes up for it.
    const again = await run(`${publish} statement.json`);
    expect([again.code, JSON.parse(again.stdout).outcome]).toEqual([0, "unchanged"]);
    const said = JSON.parse(await readFile(join(folder, "statement.json"), "utf8"));
    expect(said).toMatchObject({ snapshotId, commit: 1, sources: [{}, {}] });
    // A run that is refused says nothing in its place.
    const refused = await run("publish --sources nothing --store stated --statement statement.json");
    expect(refused.code).not.toBe(0);
    expect(JSON.parse(await readFile(join(folder, "statement.json"), "utf8"))).toEqual(said);
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

  test("warns of a column it ignores, and publishes the same", async () => {
    const wider = await copyOfSources("wider");
    const file = quoted(join(wider, "protocol_scores.parquet"));
    const wide = `SELECT 1 AS extra, * FROM read_parquet(${file})`;
    await runSql(folder, `COPY (${wide}) TO ${file} (FORMAT parquet)`);
    const [scores = ""] = await readdir(join(folder, "store", layout.publicObject.prefix));
    await rm(join(folder, "store", layout.publicObject.prefix, scores), { recursive: true });
    const again = await run("publish --sources wider --store store");
    expectEnd(
      again,
      0,
      /^Nothing new(?:.|\n)*\nmade \d+ objects? anew that the store had not, or not whole\n$/,
    );
    expect(again.stderr).toMatch(/Warning: protocol_scores: .*extra/);
  });

  test("of several at once, one takes each commit, and the others lose with exit code 4", async () => {
    await publishSources(sources, directoryStorage(join(folder, "contested")), folder);
    const rivals = [1, 2];
    for (const more of rivals) await addMarkets(await copyOfSources(`rival-${more}`), more);
    const ended = await Promise.all(
      rivals.map((more) => run(`publish --sources rival-${more} --store contested --json`)),
    );
    const winners = ended.filter(({ code }) => code === 0);
    expect(winners.length).toBeGreaterThan(0);
    for (const { code, stderr, stdout } of ended) {
      if (code === 0) continue;
      expect([code, stderr]).toEqual([4, expect.stringContaining("another publisher made commit")]);
      expect(JSON.parse(stdout).error).toMatchObject({ exitCode: 4, refusals: [] });
    }
    const { commits } = JSON.parse((await run("list --store contested --json")).stdout);
    expect(commits).toHaveLength(1 + winners.length);
    expect((await run("verify --store contested")).code).toBe(0);
  });
});

describe("refused sources", () => {
  let proxy: ArchiveProxy;
  beforeAll(async () => {
    proxy = await startArchiveProxy(directoryStorage(store));
  });
  afterAll(() => proxy.stop());

  test("end with exit code 3 and the place, and the store goes on", async () => {
    const directory = await copyOfSources("refused");
    const path = quoted(join(directory, "markets/part-00000.parquet"));
    const composite = "CASE WHEN slug LIKE '%-17' THEN 1001 ELSE composite END AS composite";
    const broken = `SELECT * REPLACE (${composite}) FROM read_parquet(${path})`;
    await runSql(folder, `COPY (${broken}) TO ${path} (FORMAT parquet)`);
    const place =
      /^markets\/part-00000\.parquet, row 17 \(.{36}\), column composite: 1001, must be from 300 to 1000$/m;
    const before = await contentOf(directoryStorage(store));
    const ended = await run(`publish --sources ${directory} --store store --json`);
    expectEnd(ended, 3, place);
    const { error } = JSON.parse(ended.stdout);
    expect(error).toMatchObject({ exitCode: 3, message: expect.stringMatching(place) });
    const refusal = { rule: expect.any(String), total: expect.any(Number) };
    expect(error.refusals[0]).toMatchObject({ file: "markets/part-00000.parquet", ...refusal });
    expect(ended.stderr).not.toMatch(/^\s+at /m);
    expect(await contentOf(directoryStorage(store))).toEqual(before);
    await proxy.refresh();
    expect(proxy.catalog.current()?.commit.snapshotId).toBe(snapshotId);
    expect((await proxy.page({})).count).toBe(100);
  });
});

describe("list and verify", () => {
  test("list tells the commits, newest first", async () => {
    const { code, stdout } = await run("list --store store");
    expect(code).toBe(0);
    const line = `1  2030-01-01T00:00:00.000Z  ${snapshotId.slice(0, 16)}  N markets  12 protocols  N (N bytes)\n`;
    expect(stdout.replace(/\d+(?= markets| \(| bytes)/g, "N")).toBe(line);
  });

  test("verify finds all good, or names the object and ends with exit code 1", async () => {
    const good =
      /^All good: 1 commit \(0 collected\), \d+ markets, \d+ objects \(\d+ bytes\), 0 of them unreferenced\n$/;
    expectEnd(await run("verify --store store"), 0, good);
    const copy = join(folder, "damaged");
    await publishSources(sources, directoryStorage(copy), folder);
    const names = Object.keys(await contentOf(directoryStorage(copy)));
    const isRecord = (key: string) =>
      key.startsWith(layout.stableScore.prefix) && key !== layout.stableScoreList;
    const record = names.find(isRecord)!;
    await appendFile(join(copy, record), " ");
    const path = join(copy, layout.stableScoreList);
    const bytes = await readFile(path);
    bytes[20]! ^= 1;
    await writeFile(path, bytes);
    const reason = "its content belongs to no snapshot: publish again";
    const faults = [
      { key: layout.stableScoreList, reason },
      { key: record, reason },
    ];
    const bad = await run("verify --store damaged --json");
    expect([bad.code, JSON.parse(bad.stdout).faults]).toEqual([1, faults]);
    const told = await run("verify --store damaged");
    const lines = told.stdout.split("\n").map((line) => line.split(": ")[0]);
    const { stableScoreList: list } = layout;
    expect([told.code, lines]).toEqual([1, [list, record, `For ${list}`, "2 faults", ""]]);
  });
});

describe("verify --repair", () => {
  test("makes anew what rotted where publishing again sees nothing new, and tells it", async () => {
    // More markets than publish looks at again.
    const many = await writeSources(join(folder, "many"), { markets: 120 });
    const rotten = directoryStorage(join(folder, "rotten"));
    await publishSources(many, rotten, folder);
    const key = Object.keys(await contentOf(rotten)).find((name) => name.startsWith(layout.page.prefix))!;
    const bytes = (await rotten.get(key))!;
    bytes[40]! ^= 1;
    await rotten.put(key, bytes);
    expect(await publishSources(many, rotten, folder)).toMatchObject({ outcome: "unchanged", commit: 1 });
    const { code, stdout, stderr } = await run("verify --repair --sources many --store rotten --json");
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { commits: 1, faults: [], repaired: [key] }]);
    expect(stderr).toContain(`${key}: its content does not match its name\n`);
    expect(stderr).toContain("1 of 1 object repaired");
    expect((await verify(rotten, () => {})).faults).toEqual([]);
  });
});

test("a store that cannot be written to ends with exit code 5 and names it", async () => {
  await writeFile(join(folder, "file"), "");
  const ended = await run("publish --sources sources --store file/store");
  expectEnd(ended, 5, join(folder, "file/store"));
  expect(ended.stdout).toBe("");
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
