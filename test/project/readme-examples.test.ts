import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readConfig } from "../../proxy/config.ts";
import { endpoints } from "../../schemas/endpoints.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/versions.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { type Query, search } from "../helpers/http/archive-proxy.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { wantsRows } from "../helpers/http/ndjson.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer } from "../helpers/http/proxy-client.ts";
import { type programs as commands, type Ended, runCommand } from "../helpers/publish/commands.ts";
import { loadSample, publishCounted, writeTables } from "../helpers/publish/editable-sources.ts";
import { type Block, blocksIn, guide, guides } from "../helpers/publish/guides.ts";
import { findClients } from "../helpers/servers/clients.ts";
import { findDuckDbHome } from "../helpers/servers/duckdb-home.ts";
import { findProgram, serveLocally } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// Every block of the guides is run here as it stands there, or named with what covers it.

const vitest = "npm exec -- vitest run --config test/vitest.config.ts";

/** How blocks begin that are not run here, and why. */
const elsewhere: [start: string, covered: string][] = [
  ["npm ci\nnpm start\n", "start.test.ts runs what npm start runs, .ci/run npm ci"],
  ["npm ci\nnpm test\n", ".ci/run"],
  [`${vitest} test/schemas/`, "openapi-examples.test.ts compares what this would write anew"],
  ['{"type": "hello"', "shapes of messages: live-feed.test.ts"],
  [`${vitest} test/proxy/`, "readme.test.ts knows the folder; npm test runs the same command"],
  ["npm run bench\n", "it takes minutes to hours; commands.test.ts asks for its help"],
  ["claude mcp add", "a program of its own: agents.test.ts connects as it does"],
  ["import pandas\n", "csv.test.ts, where pandas is installed"],
  ["log prs.example.org", "a policy of real keys: policy.test.ts"],
  ["SET allowed_directories = ", "script-sources.test.ts keeps a script to a folder by the same settings"],
  ["export SIGNING_KEY=publisher.key WITNESS_POLICY", "with a real witness: witness-commands.test.ts"],
  ["tools/monitor -policy", "with real witnesses and a static server: monitor.test.ts"],
];

/**
 * Guides with tests of their own. Of the one for machines, files.test.ts installs as it says, and deployment.test.ts
 * follows it; own-sources.test.ts runs every block of the one for sources.
 */
const elsewhereRun = [".github/deploy/README.md", ".github/deploy/SOURCES.md"];

const blocks = guides.filter((file) => !elsewhereRun.includes(file)).flatMap((file) => blocksIn(guide(file)));
const ran = new Set<Block>();

/** The one block of a language that begins so; it counts as run from here on. */
function block(language: string, start: string): string {
  const found = blocks.filter((one) => one.language === language && one.text.startsWith(start));
  expect([start, found.length]).toEqual([start, 1]);
  ran.add(found[0]!);
  return found[0]!.text;
}

/** The one block of Python that begins with imports and has these words. */
function pythonBlock(words: string): string {
  const [found, ...others] = blocks.filter(
    ({ language, text }) => language === "python" && text.includes(words),
  );
  expect([words, others]).toEqual([words, []]);
  ran.add(found!);
  return found!.text;
}

const linesOf = (text: string) => text.trimEnd().split("\n");
const programs = ["bash", "curl", "jq", "python3"].map((name) => findProgram(name));
const root = new URL("../..", import.meta.url).pathname;
const run = promisify(execFile);

describe.skipIf(programs.includes(undefined))("blocks of the guides", () => {
  const folder = testFolder();
  let proxy: TestProxy;
  let key: string;
  let newest: string;
  let commit: number;
  /** Where commands are asked for that `npm run` names. */
  let runner: string;

  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true, cacheBytes: 64 * 1024 * 1024 });
    key = await proxy.issue();
    const server = await serveLocally(
      createServer(async (request, response) => {
        const { code, stdout, stderr } = await runCommandOf(await text(request));
        // A program writes it to where users read it.
        process.stderr.write(code === 0 ? "" : stderr);
        response.writeHead(code === 0 ? 200 : 500).end(stdout);
      }),
    );
    runner = `${server.url}/`;
    await withDuckDb(folder, async (sql) => {
      await loadSample(sql, folder, { markets: 600 });
      await publish(await writeTables(sql, join(folder, "sources")));
    });
    for (const name of ["lines", "copy", "client", "export", "index", "types"])
      await mkdir(join(folder, name));
    return server.stop;
  });
  afterAll(() => proxy?.stop());

  /** Publishes sources, and waits until the proxy answers from them. */
  async function publish(sources: string): Promise<void> {
    const { report } = await publishCounted(sources, proxy.storage, folder);
    [newest, commit] = [report.snapshotId, report.commit];
    await takenUp(proxy, newest);
  }

  /** What a program prints, run as a user would in a folder below the test's; throws when it fails. */
  async function prints(program: string, parameters: string[], where = "."): Promise<string> {
    const env = {
      ...process.env,
      PATH: [join(root, "node_modules/.bin"), process.env.PATH].join(delimiter),
      BASE: `http://127.0.0.1:${proxy.port}`,
      KEY: key,
      PYTHONPATH: folder,
      PYTHONDONTWRITEBYTECODE: "1",
      npm_config_offline: "true",
      npm_config_cache: join(folder, "npm-cache"),
    };
    const { stdout } = await run(program, parameters, { cwd: join(folder, where), env });
    return stdout;
  }
  const bash = (text: string, where?: string) => prints("bash", ["-c", text], where);
  /**
   * Runs a text as a user would, whose `npm run` runs the command in this process: one of its own would take most of
   * its time to load. Names, folder, words and variables go over loopback, each with a zero byte behind it.
   */
  const npm = (text: string, where?: string) =>
    bash(
      `set -e
npm() { local name=$2; shift 3; { printf '%s\\0' "$name" "$PWD" $# "$@"; env -0; } | curl -sS --fail --data-binary @- "${runner}"; }
${text}`,
      where,
    );
  async function runCommandOf(body: string): Promise<Ended> {
    const [name, from = "", count, ...rest] = body.split("\0");
    const variables = rest.slice(Number(count), -1).map((line) => /^([^=]*)=(.*)$/s.exec(line)!.slice(1));
    const env = Object.fromEntries(variables);
    return runCommand(name as keyof typeof commands, rest.slice(0, Number(count)), { from, env });
  }

  /** A line of the guides with the address of this service. */
  const here = (text: string) => text.replaceAll("127.0.0.1:8080", `127.0.0.1:${proxy.port}`);
  /** What a query finds in a folder, behind other statements. */
  const rowsOf = (where: string, query: string, before: readonly string[] = []) =>
    withDuckDb(join(folder, where), async (sql) => {
      for (const statement of before) await sql.run(statement);
      return (await sql.runAndReadAll(query)).getRowsJson();
    });
  /** Counts by tier, as the service has them. */
  const tiers = async (): Promise<{ value: string; count: number; disputed: number }[]> =>
    (
      await proxy.get("/api/v1/markets/facets?by=tier", {
        headers: bearer(key),
      })
    ).json().facets.tier.buckets;

  const archive = "/api/v1/markets/historical";
  const ask = (query: Query, headers = {}): Promise<Answer> =>
    proxy.get(`${archive}?${search(query)}`, { headers: { ...bearer(key), ...headers } });
  const totalOf = async (query: Query): Promise<number> =>
    (await ask({ ...query, pageSize: 1 })).json().total;
  const wholeArchive = async () => (await ask({}, wantsRows)).text;

  test("setting out: where npm start serves, and a key, with no file that only npm start makes", async () => {
    const printed = await bash(`${block("sh", "export BASE=")}env | grep -E '^(BASE|KEY)=' | sort`);
    const { host, port } = readConfig({ SNAPSHOT_STORE: "store" });
    expect(printed).toBe(`BASE=http://${host}:${port}\nKEY=YOUR_AEGIS_KEY\n`);
    for (const { text } of blocks) {
      expect(text).not.toContain(".local/");
      expect(text).not.toMatch(/\bnpx (?!--yes )/);
    }
  });

  test("the answer that the README begins with is one that the description has, too", () => {
    const { scores } = JSON.parse(guide("schemas/openapi/examples/listScores.json"));
    const [{ bri, forgeScale, delta }] = scores;
    expect(JSON.parse(block("json", '{\n  "slug"'))).toEqual(scores[0]);
    expect(guide("README.md")).toContain(
      `${bri} of 1,000 points, which makes it ${forgeScale}, the third of seven tiers. It gained five in its last run.`,
    );
    expect([delta, forgeTiers[2], forgeTiers.length]).toEqual([5, forgeScale, 7]);
  });

  test("curl and jq: best and worst protocol, total and first markets of a filter", async () => {
    const lines = (await bash(`set -e\n${block("sh", 'curl -sS --fail "$BASE/api/v1/scores" |')}`)).split(
      "\n",
    );
    const { scores } = (await proxy.get("/api/v1/scores")).json();
    const { total, markets } = (await ask({ disputed: "true", min_composite: 600, pageSize: 5 })).json();
    expect(lines.slice(0, 3)).toEqual(
      [scores[0], scores.at(-1)].map(({ bri, slug }) => `${bri} ${slug}`).concat(String(total)),
    );
    expect(scores[0].bri).toBeGreaterThan(scores.at(-1).bri);
    expect(total).toBeGreaterThan(5);
    const rows = (markets as Record<string, string>[]).map(
      ({ resolvedAt, tier, resolvedOutcome, question }) =>
        [resolvedAt, tier, resolvedOutcome, question].join("\t"),
    );
    expect(rows).toHaveLength(5);
    expect(lines.slice(3)).toEqual([...rows, ""]);
  });

  test("curl and jq: markets by tier", async () => {
    const [first, ...tiers] = (
      await bash(block("sh", 'curl -sS --fail -H "x-api-key: $KEY" "$BASE/api/v1/markets/facets'))
    )
      .trimEnd()
      .split("\n");
    expect(Number(first)).toBe(await totalOf({ category: "politics" }));
    expect(tiers.length).toBeGreaterThan(1);
    for (const line of tiers) expect(line).toMatch(/^[A-Z]+: \d+, \d+ disputed$/);
  });

  test("agents: the settings name the service, and a tool called by curl counts as the archive does", async () => {
    const { mcpServers } = JSON.parse(block("json", '{\n  "mcpServers"'));
    const { host, port } = readConfig({ SNAPSHOT_STORE: "store" });
    expect(mcpServers.prs).toEqual({
      url: `http://${host}:${port}${endpoints.agents.path}`,
      headers: bearer("YOUR_AEGIS_KEY"),
    });
    const printed = await bash(block("sh", 'curl -sS --fail "$BASE/mcp"'));
    expect(printed).toBe(`${await totalOf({ disputed: "true" })}\n`);
  });

  test("Python: a walk through all pages", async () => {
    await bash(block("sh", 'curl -sS --fail -O "$BASE/client.py"'));
    await writeFile(join(folder, "walk.py"), pythonBlock("client, ids"));
    const total = await totalOf({ min_composite: 400 });
    expect(total).toBeGreaterThan(200);
    expect(await prints("python3", ["walk.py"])).toBe(`${total} of ${total} markets\n`);
  });

  test("Python: a total, an absence and a score that the client checks", async () => {
    await writeFile(join(folder, "recompute.py"), pythonBlock("verify_score_proof"));
    const total = await totalOf({ category: "Politics", min_composite: 700, disputed: "false" });
    expect(total).toBeGreaterThan(0);
    const { scores } = (await proxy.get("/api/v1/scores")).json();
    expect(await prints("python3", ["recompute.py"])).toMatch(
      new RegExp(
        `^${total} markets, [1-7] tiers; the entry to pin is [0-9a-f]{64}\nUnicode [0-9.]+ of this Python .*\n` +
          `None left out of ${await totalOf({})} markets; ${scores[0].slug} has ${scores[0].bri} points\n$`,
      ),
    );
  });

  test("NDJSON: a download, and going on behind its last whole line", async () => {
    await bash(block("sh", "curl -sS --fail --compressed -D head.txt"), "lines");
    const file = join(folder, "lines/markets.ndjson");
    const whole = await readFile(file);
    expect(whole.toString()).toBe((await ask({ disputed: "true" }, wantsRows)).text);
    // As if the connection had been cut within the last but one line.
    await writeFile(file, whole.subarray(0, whole.lastIndexOf("\n", -2) - 100));
    await bash(block("sh", "CURSOR=$(grep"), "lines");
    expect(await readFile(join(folder, "lines/whole.ndjson"))).toEqual(whole);
    await prints("bash", ["-c", block("sh", "curl -sS --fail --compressed -o markets.csv")], "lines");
    const rows = (await readFile(join(folder, "lines/markets.csv"), "utf8")).split("\r\n");
    expect(rows).toHaveLength(whole.toString().split("\n").length + 1);
    const counts = await bash(block("sh", "curl -sS --fail --compressed -o scores.csv"), "lines");
    expect(counts).toMatch(/^facet,kind,value,from,to,count,disputed\r\ntier,value,/);
    expect(await readFile(join(folder, "lines/scores.csv"), "utf8")).toMatch(/^slug,bri,.*\r\n$/s);
  });

  describe("a copy", () => {
    const read = (name: string) => readFile(join(folder, "copy", name), "utf8");
    const sync = () => prints("python3", ["copy.py"], "copy");
    const archiveNow = () => read(`archive-${newest}.ndjson`);

    test("is the archive, by Python", async () => {
      await writeFile(join(folder, "copy/copy.py"), pythonBlock("client.copy"));
      expect(await sync()).toMatch(
        new RegExp(`^archive-${newest}\\.ndjson: ${await totalOf({})} markets with`),
      );
      expect((await archiveNow()) === (await wholeArchive())).toBe(true);
    });

    test("has late and corrected markets, which asking from the newest time misses", async () => {
      const before = linesOf(await archiveNow());
      const copy = new Map(before.map((line) => [JSON.parse(line).id as string, line]));
      const [first, flipped] = [JSON.parse(before[0]!), JSON.parse(before[70]!)];
      const { etag = "" } = (await ask({}, { ...wantsRows, "if-none-match": "*" })).headers;
      const late = "0000dead-0000-4000-8000-000000000000";
      await withDuckDb(folder, async (sql) => {
        await loadSample(sql, folder, { markets: 600 });
        await sql.run(`UPDATE markets SET resolved_outcome = 'Corrected' WHERE id = '${flipped.id}'`);
        await sql.run(`INSERT INTO markets
          SELECT * REPLACE ('${late}' AS id, resolved_at - INTERVAL 1 HOUR AS resolved_at)
          FROM markets WHERE id = '${flipped.id}'`);
        await publish(await writeTables(sql, join(folder, "sources-later")));
      });
      const published = await wholeArchive();

      // The control: what was asked for from the newest time on, put over the copy.
      const since = linesOf((await ask({ from: first.resolvedAt }, wantsRows)).text);
      for (const line of since) copy.set(JSON.parse(line).id, line);
      const missed = linesOf(published).filter((line) => copy.get(JSON.parse(line).id) !== line);
      expect(missed.map((line) => JSON.parse(line).id).sort()).toEqual([late, flipped.id].sort());

      expect((await ask({}, { ...wantsRows, "if-none-match": etag })).status).toBe(200);
      await sync();
      expect((await archiveNow()) === published).toBe(true);
    });

    test("is brought up to date by changes, and back, and is refused when it has another root", async () => {
      for (const sources of ["sources", "sources-later"]) {
        await publish(join(folder, sources));
        await sync();
        expect((await archiveNow()) === (await wholeArchive())).toBe(true);
        expect((await readdir(join(folder, "copy"))).sort()).toEqual([`archive-${newest}.ndjson`, "copy.py"]);
      }
      const held = await archiveNow();
      const path = join(folder, "copy", `archive-${newest}.ndjson`);
      await writeFile(path, held.replace("disputed", "disputeD"));
      await expect(sync()).rejects.toThrow("The copy is not the archive");
      await writeFile(path, held);
    });

    test("is what npm run sync makes of it", async () => {
      await writeFile(join(folder, "copy/key.txt"), key);
      await npm(here(block("", "npm run sync -- --url")), "copy");
      expect((await read("copy/archive.ndjson")) === (await wholeArchive())).toBe(true);
    });

    test("DuckDB: the share of disputed markets by tier", async () => {
      const query = block("sql", "SELECT tier, count(*) AS markets, round");
      const rows = await rowsOf("copy", query.replace("'archive", `'${folder}/copy/copy/archive`));
      const share = (disputed: number, count: number) => Math.round((1000 * disputed) / count) / 10;
      const expected = (await tiers()).map(({ value, count, disputed }) => [
        ...[value, String(count), share(disputed, count)],
      ]);
      expect(rows.sort()).toEqual(expected.sort());
      expect(rows.length).toBeGreaterThan(3);
    });
  });

  test("npm run ask: a total by tier that is computed here", async () => {
    const line = block("", "npm run ask -- --url");
    const [, query = ""] = /'(.*)'\n$/.exec(line)!;
    await writeFile(join(folder, "key.txt"), key);
    const total = await totalOf(Object.fromEntries(new URLSearchParams(query)));
    expect(total).toBeGreaterThan(0);
    expect(await npm(here(line))).toMatch(new RegExp(`^${total} markets with ${query}\n\nby tier:\n`));
  });

  test("curl and DuckDB: an export, resumed where it broke off, and the oracle's scores by category", async () => {
    await exportNewest(proxy.storage, folder);
    proxy.clock.now += 60_000;
    const download = `set -e\n${block("sh", 'curl -sS --fail -H "x-api-key: $KEY" "$BASE/api/v1/markets/exports')}`;
    await bash(download, "export");
    const path = join(folder, "export/markets-0001.parquet");
    const whole = await readFile(path);
    await writeFile(path, whole.subarray(0, 1000));
    for (const _ of ["goes on", "is whole"]) await bash(download, "export");
    expect((await readFile(path)).equals(whole)).toBe(true);
    const query = block("sql", "SELECT category").replace("markets-*", `${folder}/export/markets-*`);
    const rows = await rowsOf("export", query);
    const markets: HistoricalMarket[] = linesOf(await wholeArchive()).map((line) => JSON.parse(line));
    const asked = markets.filter(({ resolvedAt }) => resolvedAt >= "2025-01-01");
    const oracle = ({ dimensions }: HistoricalMarket) =>
      dimensions.find(({ key }) => key === "oracle")!.score;
    const expected = [...Map.groupBy(asked, ({ category }) => category)].map(([category, some]) => [
      category,
      String(some.length),
      expect.closeTo(some.reduce((sum, each) => sum + oracle(each), 0) / some.length),
    ]);
    expect(rows).toEqual(expected.sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
    expect(rows.length).toBeGreaterThan(1);
  });

  test("DuckDB: an export where it is, by its ranges", async ({ skip }) => {
    const text = block("sql", "INSTALL httpfs");
    const home = findDuckDbHome();
    if (!home) return skip();
    const { snapshotId } = await exportNewest(proxy.storage, folder);
    proxy.clock.now += 60_000;
    const asked = here(text).replace("YOUR_AEGIS_KEY", key).replace("SNAPSHOT_ID", snapshotId);
    const [install = "", load = "", secret = "", query = ""] = asked.split(";\n");
    const extensions = `SET extension_directory = '${join(home, ".duckdb/extensions")}'`;
    const rows = await rowsOf("export", query, [extensions, install, load, secret]);
    expect(rows).toEqual((await tiers()).map(({ value, count }) => [value, String(count)]).sort());
    const path = `/api/v1/markets/exports/${snapshotId}/markets-0001.parquet`;
    expect((await proxy.get(path)).status).toBe(401);
  });

  test("curl and jq: what was published, and totals as of then and now", async () => {
    const printed = linesOf(await bash(`set -eo pipefail\n${block("sh", "list=$(curl")}`));
    const { snapshots } = (await proxy.get("/api/v1/snapshots")).json();
    expect(snapshots.length).toBeGreaterThan(2);
    const rows = (
      snapshots as { commit: number; publishedAt: string; counts: { markets: number }; snapshotId: string }[]
    ).map((one) => `${one.commit} ${one.publishedAt} ${one.counts.markets} markets ${one.snapshotId}`);
    const then = await totalOf({ disputed: "true", asOf: snapshots.at(-1).snapshotId });
    const now = await totalOf({ disputed: "true" });
    expect(printed).toEqual([...rows, String(then), String(now)]);
  });

  test("curl and jq: the filter index, and a header of it that has its hash", async () => {
    const printed = linesOf(await bash(`set -eo pipefail\n${block("sh", "index=$(curl")}`, "index"));
    const { sections } = JSON.parse(await readFile(join(folder, "index/header.json"), "utf8"));
    const named = Object.entries<[bytes: number, root: string]>(sections);
    expect(printed).toEqual(named.map(([name, [bytes]]) => `${bytes} bytes of ${name}`));
    expect(printed.length).toBeGreaterThan(10);
  });

  test("JavaScript: the client, from the service, with its types", async () => {
    const example = block("js", "import { archiveRoot");
    const names = ["client.mjs", "client.d.mts", "client.js"];
    await bash(
      `set -e; for name in ${names.join(" ")}; do curl -sS --fail "$BASE/$name" -o $name; done`,
      "client",
    );
    await writeFile(join(folder, "client/example.mjs"), example);
    // As npm makes new packages; the other name of the client fails there.
    await writeFile(join(folder, "client/package.json"), '{"type": "commonjs"}');
    await writeFile(join(folder, "client/failing.mjs"), example.replace("./client.mjs", "./client.js"));
    await expect(prints("node", ["failing.mjs"], "client")).rejects.toMatchObject({
      stderr: expect.stringContaining("SyntaxError"),
    });
    const [disputed, all] = [await totalOf({ disputed: "true", min_composite: 600 }), await totalOf({})];
    const { entry } = JSON.parse(String(await proxy.storage.get(layout.commit(commit))));
    expect(await prints("node", ["example.mjs"], "client")).toBe(
      `${disputed} of ${disputed} markets of snapshot ${newest}\n` +
        `the archive of ${all} markets has the root ${entry.archiveRoot}\n`,
    );
  });

  test("JavaScript: a total, rows and an absence that the client recomputes", async () => {
    await bash(
      'set -e; for name in client.mjs recompute.mjs; do curl -sS --fail "$BASE/$name" -o $name; done',
      "client",
    );
    await writeFile(join(folder, "client/recomputing.mjs"), block("js", "import { Client } from"));
    const total = await totalOf({ disputed: "true", min_composite: 600 });
    const printed = await prints("node", ["recomputing.mjs"], "client");
    expect(printed).toMatch(
      new RegExp(`^${total} markets, [1-7] tiers; checked against nothing\n${total} rows, and none left`),
    );
    expect(printed).toContain(`out of ${await totalOf({})} markets`);
  });

  test("Delta Sharing: a profile, and the share of disputed markets by tier with pandas", async () => {
    await mkdir(join(folder, "sharing"));
    await bash(block("sh", 'echo "{\\"shareCredentialsVersion'), "sharing");
    const profile = JSON.parse(await readFile(join(folder, "sharing/prs.share"), "utf8"));
    const endpoint = `http://127.0.0.1:${proxy.port}/delta-sharing/`;
    expect(profile).toEqual({ shareCredentialsVersion: 1, endpoint, bearerToken: key });
    await writeFile(join(folder, "sharing/load.py"), block("python", "import delta_sharing"));
    const clients = findClients();
    if (!clients) return;
    await exportNewest(proxy.storage, folder);
    proxy.clock.now += 60_000;
    const printed = await prints(clients, ["load.py"], "sharing");
    for (const { value, count, disputed } of await tiers()) {
      const [, share] = new RegExp(`^${value} +([0-9.]+)$`, "m").exec(printed) ?? [];
      expect(Number(share)).toBeCloseTo(disputed / count, 5);
    }
  });

  test("Parquet files of one's own: published, with a key, and served", async () => {
    await mkdir(join(folder, "own"));
    await symlink(join(folder, "sources"), join(folder, "own/sources"));
    const text = block("sh", "npm run snapshot -- publish --sources sources");
    const served = "npm run proxy\n";
    expect(text.endsWith(`PORT=8081 SNAPSHOT_STORE=store ${served}`)).toBe(true);
    // Beside what npm start serves, in a checkout that stays clean.
    expect(readConfig({ SNAPSHOT_STORE: "store" }).port).not.toBe(8081);
    for (const name of ["/sources/", "/store/"]) expect(linesOf(guide(".gitignore"))).toContain(name);
    const printed = await npm(text.replace(served, "printenv SNAPSHOT_STORE\n"), "own");
    expect(printed).toMatch(/^Published commit 1, [\s\S]*\nstore\n$/);
    const own = await startTestProxy({ empty: true, snapshotStore: join(folder, "own/store") });
    const [issued = ""] = /prs_live_\w+/.exec(printed) ?? [];
    const answer = await own.get(archive, { headers: bearer(issued) });
    await own.stop();
    expect(answer.status).toBe(200);
  });

  test("keys of callers: issued, rotated and revoked", async () => {
    const lines = linesOf(block("sh", "npm run keys -- issue --plan aegis --owner"));
    const call = (line: string) => npm(`STORE=store\n${line}`, "own");
    const listed = async () => JSON.parse(await call("npm run keys -- list --store store --json"));
    const [issue = "", ...others] = lines;
    expect(await call(issue)).toMatch(/^prs_live_\w+\n$/);
    const { id } = (await listed()).keys.find(({ owner }: { owner: string }) => owner === "Example Ltd");
    const printed = [];
    for (const line of others) printed.push(await call(line.replace(" ID ", ` ${id} `)));
    expect(printed).toEqual([
      expect.stringMatching(/^prs_live_\w+\n$/),
      expect.stringContaining(`key ${id} ends`),
    ]);
  });

  test("signing: a key, a signed publish that verifies, and its checkpoint from a proxy", async () => {
    await mkdir(join(folder, "signing"));
    const text = block("sh", "npm run snapshot -- signing-key");
    const printed = await npm(`SOURCES=../sources; STORE=store\n${text}`, "signing");
    const publicKey = await readFile(join(folder, "signing/publisher.key.pub"), "utf8");
    expect(printed.startsWith(publicKey)).toBe(true);
    expect(printed).toMatch(/\nPublished commit 1, snapshot [0-9a-f]+\n[\s\S]*\nAll good: 1 commit/);
    const snapshotStore = join(folder, "signing/store");
    const trustedKeys = join(folder, "signing/publisher.key.pub");
    const trusting = await startTestProxy({ empty: true, snapshotStore, trustedKeys });
    const ask = block("sh", 'curl -sS --fail "$BASE/api/v1/checkpoint"');
    const checkpoint = await bash(`BASE=http://127.0.0.1:${trusting.port}\n${ask}`);
    await trusting.stop();
    expect(checkpoint).toMatch(/^prs\.example\.org\/scores\n1\n[^\n]+\n\n— prs\.example\.org\/scores /);
  });

  test("TypeScript: types out of the description; a client compiles with them, and not with a wrong name", async () => {
    // What npx is to find, and not to fetch.
    expect(import.meta.resolve("json-schema-to-typescript")).toContain("/node_modules/");
    await symlink(join(root, "node_modules"), join(folder, "types/node_modules"));
    await bash(`set -eo pipefail\n${block("sh", 'curl -sS --fail "$BASE/openapi.json"')}`, "types");
    const client = block("ts", "import type { MarketPage");
    await writeFile(join(folder, "types/client.mts"), client);
    await writeFile(join(folder, "types/wrong.mts"), client.replaceAll("a.composite", "a.compsite"));
    const { stdout: faults } = await prints(
      "tsc",
      ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2023", "--lib", "es2023,dom"].concat(
        "--allowImportingTsExtensions",
        "--types",
        "node",
        "client.mts",
        "wrong.mts",
      ),
      "types",
    ).catch((error) => error);
    expect(faults).toMatch(/'compsite' does not exist on type 'HistoricalMarket'/);
    for (const line of linesOf(faults)) expect(line).toMatch(/^wrong\.mts\(/);
    const { total, markets } = (await ask({ tier: "MITHRIL" })).json();
    const lowest = Math.min(...markets.map(({ composite }: { composite: number }) => composite));
    const printed = await prints("node", ["client.mts"], "types");
    expect(printed.startsWith(`${total} ${lowest} `)).toBe(true);
    expect(total).toBeGreaterThan(1);
  });

  test("are all run here, or named with what covers them", () => {
    const named = new Set<Block>();
    for (const [start] of elsewhere) {
      const found = blocks.filter(({ text }) => text.startsWith(start));
      expect([start, found.length]).toEqual([start, 1]);
      named.add(found[0]!);
    }
    // growth.test.ts applies every patch.
    const left = blocks.filter((one) => !ran.has(one) && one.language !== "diff");
    expect(left.filter((one) => !named.has(one))).toEqual([]);
    expect(left).toHaveLength(named.size);
  });
});
