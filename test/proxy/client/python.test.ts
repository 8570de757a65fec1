import { readFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client } from "../../../proxy/site/client/client.ts";
import { filterFields } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { feedVersions } from "../../../schemas/versions.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { inPython, python } from "../../conformance/python.ts";
import { type Link, startLink } from "../../helpers/http/link.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, until } from "../../helpers/http/proxy-client.ts";
import { market, marketsOf, publishRecords } from "../../helpers/publish/records.ts";
import { freePort, serveLocally } from "../../helpers/servers/programs.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// What the client in Python asks and checks over HTTP. test/conformance has it evaluate and verify at random.

const file = new URL("../../../proxy/site/client/client.py", import.meta.url).pathname;
const signing = { key: testKey() };
const trusted = verifierText(signing.key);

/** What a program prints as JSON, with the client imported and `given` at hand. */
const says = <Said>(program: string, given: unknown): Promise<Said> =>
  inPython(
    `import json, sys
from client import *
given = json.load(sys.stdin)
def failing(work):
    try:
        work()
        return []
    except ApiError as error:
        return [type(error).__name__, getattr(error, "what", error.code), error.status, error.parameter]
${program}`,
    given,
  );

describe.skipIf(!python)("the client in Python", () => {
  test("is one file of the standard library that Python 3.9 can read, and typed", async () => {
    const text = readFileSync(file, "utf8");
    expect(text.split("\n").length - 1).toBeLessThanOrEqual(600);
    expect(text.split("\n").filter((line) => line.length > 120)).toEqual([]);
    const said = await says<[string[], string[]]>(
      `
import ast
tree = [*ast.walk(ast.parse(given, feature_version=(3, 9)))]
names = {name.name.split(".")[0] for one in tree if isinstance(one, ast.Import) for name in one.names}
names |= {one.module for one in tree if isinstance(one, ast.ImportFrom)}
functions = [one for one in tree if isinstance(one, ast.FunctionDef) and one.name != "__init__"]
print(json.dumps([sorted(names - {*sys.stdlib_module_names}), [one.name for one in functions if not one.returns]]))`,
      text,
    );
    expect(said).toEqual([[], []]);
  });

  test("knows the fields of the feed as the service does", async () => {
    const said = await says("print(json.dumps([FEEDS, LABELS, INTEGERS]))", null);
    const integers = filterFields.flatMap((row) =>
      row.kind === "integer" ? [[row.field, [row.min, row.max, row.bucketWidth, row.values ?? []]]] : [],
    );
    const labels = filterFields.flatMap((row) => (row.kind === "label" ? row.field : []));
    expect(said).toEqual([feedVersions, labels, Object.fromEntries(integers)]);
  });

  const before = marketsOf(0, 150);
  // A character that no version of Unicode has.
  const strange = "Sport\uffff";
  const now = before
    .slice(20)
    .map(
      (one, n): HistoricalMarket =>
        n === 5 ? { ...one, question: "Corrected?" } : n === 6 ? { ...one, category: strange } : one,
    );
  const absent = market(3).id;
  const present = market(30).id;
  const folder = testFolder();
  let proxy: TestProxy;
  let link: Link;
  let key: string;
  let url: string;
  let js: Client;
  const snapshots: string[] = [];

  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true, pollSeconds: 0.1 });
    key = await proxy.issue();
    for (const markets of [before, now]) {
      const { snapshotId } = await publishRecords(proxy.storage, markets, 700 + snapshots.length, {
        signing,
      });
      snapshots.push(snapshotId);
    }
    link = await startLink(proxy.port);
    url = `http://127.0.0.1:${proxy.port}`;
    js = new Client({ url, key });
    await until("the snapshot", async () => (await js.status()).snapshotId === snapshots[1]);
  });
  afterAll(async () => {
    await link?.stop();
    await proxy?.stop();
  });

  test("gives what the client in JavaScript gives", async () => {
    const [since = ""] = snapshots;
    const { scores } = await js.scores();
    const slug = scores[0]!.slug;
    const answers: [python: string, js: Promise<unknown>][] = [
      ["scores()", js.scores()],
      ["score(slug)", js.score(slug)],
      ["batch([slug, 'none'])", js.batch([slug, "none"])],
      ["history(slug)", js.history(slug)],
      ["dimensions(slug)", js.dimensions(slug)],
      ["tiers()", js.tiers()],
      ["snapshots()", js.snapshots()],
      ["exports()", js.exports()],
      ["market(id)", js.market(present)],
      ["proof(id)", js.proof(present)],
      ["score_proof(slug)", js.scoreProof(slug)],
      ["checkpoint()", js.checkpoint()],
      ["scores(as_of=since)", js.scores({ asOf: since })],
      ["facets(['tier'], {'disputed': True})", js.facets(["tier"], { disputed: true })],
    ];
    const said = await says<Record<string, unknown>>(
      `
client, (slug, id, since) = Client(given["url"], given["key"]), given["asked"]
rows, changes = client.rows({"disputed": True}), client.changes(since)
print(json.dumps({
    "answers": [${answers.map(([call]) => `client.${call}`).join()}],
    "pages": [page["markets"] for page in client.pages({"min_composite": 400, "pageSize": 30})],
    "rows": [row.text for row in rows], "of rows": [rows.snapshot_id, rows.total, rows.count, rows.skip],
    "changes": [[row.op, row.id, row.text] for row in changes], "of changes": [changes.snapshot_id, changes.archive_root]}))`,
      { url, key, asked: [slug, present, since] },
    );
    expect(said.answers).toEqual(await Promise.all(answers.map(([, answer]) => answer)));
    expect(said.pages).toEqual(
      (await Array.fromAsync(js.pages({ min_composite: 400, pageSize: 30 }))).map(({ markets }) => markets),
    );
    const rows = js.rows({ disputed: true });
    expect(said.rows).toEqual((await Array.fromAsync(rows)).map(({ text }) => text));
    expect(said["of rows"]).toEqual([rows.snapshotId, rows.total, rows.count, rows.skip]);
    const changes = js.changes(since);
    const lines = await Array.fromAsync(changes);
    expect(lines.length).toBe(22);
    expect(said.changes).toEqual(lines.map(({ op, id, text }) => [op, id, text]));
    expect(said["of changes"]).toEqual([changes.snapshotId, changes.archiveRoot]);
  });

  test("checks proofs, totals and an absence against the publisher's key, and says what its Unicode cannot tell", async () => {
    const asked = { filters: { disputed: true }, by: ["tier", "month"] };
    const found = await js.recompute({ ...asked, trust: { key: trusted } });
    const [said, notes, categories] = await says<[unknown[], unknown[], unknown[]]>(
      `
client, trust = Client(given["url"], given["key"]), Trust(key=given["trusted"])
found = client.recompute({"disputed": True}, ["tier", "month"], trust=trust)
record = verify_proof(client.proof(given["present"]), given["present"], trust)
nobody = client.absent(given["absent"], trust)
then = client.absent(given["other"], trust, as_of=given["since"])
note = client.checkpoint()
of = [client.recompute({"category": one}, trust=trust) for one in given["categories"]]
print(json.dumps([[found.total, found.facets, found.vouched.entry, found.vouched.by, found.vouched.complete,
                   found.vouched.checkpoint.signed, record, nobody.markets, then.markets],
                  [verify_checkpoint(note, given["trusted"]).signed,
                   *[failing(lambda: verify_checkpoint(note, keys)) for keys in (None, (), "")]],
                  [[one.total, one.vouched.complete, len(one.vouched.unjudged)] for one in of]]))`,
      {
        ...{ url, key, trusted, present, absent, other: market(200).id, since: snapshots[0] },
        categories: [strange, strange.toUpperCase(), "sport\ufffe", "Crypto"],
      },
    );
    const { total, facets, vouched } = found;
    const record = await js.market(present);
    expect(said).toEqual([total, facets, vouched.entry, ["key"], true, true, record, 130, 150]);
    // Without a key no checkpoint is signed.
    const refused = ["VerificationError", "checkpoint", 0, null];
    expect(notes).toEqual([true, refused, refused, ["ApiError", "INVALID_PARAMETER", 0, "key"]]);
    const known = [1, true, 0];
    expect(categories).toEqual([known, known, [0, false, 1], [expect.any(Number), true, 0]]);
  });

  test("goes on behind rows that broke off", async () => {
    link.alter = (target, answer) => {
      if (target.includes("skip=")) return undefined;
      return { ...answer, body: answer.body.split("\n").slice(0, 40).join("\n").slice(0, -9) };
    };
    const said = await says<[unknown, string[]]>(
      `
client = Client(given["url"], given["key"])
rows, texts = client.rows(), []
failed = failing(lambda: [texts.append(row.text) for row in rows])
texts += [row.text for row in client.rows({"cursor": rows.cursor, "skip": rows.skip})]
print(json.dumps([failed, texts]))`,
      { url: link.url, key },
    );
    link.alter = undefined;
    expect(said[0]).toEqual(["ApiError", "BROKEN_ANSWER", 0, null]);
    expect(said[1]).toEqual((await Array.fromAsync(js.rows())).map(({ text }) => text));
  });

  // That no altered proof or total is taken is tried at random in test/conformance.
  test("names what is wrong with an answer that somebody altered, or that is of another snapshot", async () => {
    // What shows that another id is absent, whose place is in another chunk.
    const shown = async (id: string) =>
      (await proxy.get(`/api/v1/markets/index/absence?id=${id}`, { headers: bearer(key) })).text;
    const chunkIn = (text: string) => /"chunks":\[\{"index":\d+/.exec(text)?.[0];
    const own = await shown(absent);
    let other = own;
    for (let n = 202; chunkIn(other) === chunkIn(own); n += 1) other = await shown(market(n).id);
    const [chunkless, elsewhere] = [market(200).id, market(201).id];
    const ways: [target: string, altered: string | RegExp, by: string][] = [
      [`${present}/proof`, '\\"question\\":\\"', '\\"question\\":\\"!'],
      ["aave/proof", '\\"bri\\":', '\\"bri\\":1'],
      [`id=${absent}`, own, other],
      [`id=${chunkless}`, /"chunks":\[\{.*?\}\]/, '"chunks":[]'],
      [`id=${elsewhere}`, /"header":"\w{4}/, '"header":"0000'],
      ["index", '"checkpoint":', '"checkpoint":null,"":'],
      ["historical", "Will", "Shall"],
    ];
    link.alter = (target, answer) => {
      const [, altered = "", by = ""] = ways.find(([part]) => target.includes(part)) ?? [];
      return { ...answer, body: answer.body.replace(altered, () => by) };
    };
    const said = await says<unknown[][]>(
      `
client, (present, since, now) = Client(given["link"], given["key"]), given["asked"]
trust, old = Trust(key=given["trusted"]), Client(given["url"], given["key"]).proof(present, as_of=since)
print(json.dumps([failing(work) for work in (
    lambda: verify_proof(client.proof(present), present, trust),
    lambda: verify_score_proof(client.score_proof("aave"), "aave", trust),
    lambda: client.recompute({"disputed": True}, trust=trust),
    lambda: client.copy(given["folder"]),
    *[(lambda id: lambda: client.absent(id, trust))(id) for id in given["absent"]],
    *[(lambda asked: lambda: verify_proof(old, *asked))(asked) for asked in (
        (None, trust), (None, trust, since), (given["absent"][0], trust, since), (None, trust, now), (None, trust, "2020-01-01"),
        (None, Trust(entry="0" * 64)), (None, Trust(snapshot_id=now)), (None, Trust(snapshot_id=since)))])]))`,
      {
        ...{ url, link: link.url, key, trusted, folder },
        ...{ absent: [absent, chunkless, elsewhere], asked: [present, ...snapshots] },
      },
    );
    link.alter = undefined;
    const altered = ["proof", "proof", "checkpoint", "archive root", "absence", "absence", "index root"];
    const older = ["entry", undefined, "proof", ...Array(4).fill("entry"), undefined];
    expect(said.map(([, what]) => what)).toEqual([...altered, ...older]);
  });

  test("has the service's errors, and its own", async () => {
    const problem = { "content-type": "application/problem+json" };
    const ways: Record<string, RequestListener> = {
      elsewhere: (_, response) => response.writeHead(302, { location: link.url }).end(),
      "long problem": (_, response) => {
        const detail = "Long. ".repeat(2 ** 14);
        const body = gzipSync(JSON.stringify({ code: "LONG", detail }));
        response.writeHead(503, { ...problem, "content-encoding": "gzip" }).end(body);
      },
      // What breaks off, and what is no gzip.
      cut: (_, response) => {
        response.writeHead(200, { "content-length": 900, "x-snapshot-id": "0" });
        response.write('{"count":', () => response.destroy());
      },
      "cut problem": (_, response) => {
        response.writeHead(503, problem).write('{"code":', () => response.destroy());
      },
      garbled: (_, response) =>
        response.writeHead(503, { ...problem, "content-encoding": "gzip" }).end("no gzip"),
    };
    const servers = await Promise.all(
      Object.values(ways).map((answer) => serveLocally(createServer(answer))),
    );
    const others = servers.map((server) => server.url);
    const closed = `http://127.0.0.1:${await freePort()}`;
    const said = await says<unknown[]>(
      `
client, alone = Client(given["url"], given["key"]), Client(given["url"])
print(json.dumps([failing(work) for work in (
    lambda: client.score("nothing"), lambda: alone.market(given["present"]), lambda: client.absent(given["present"]),
    lambda: client.page({"min_composite": 7}), lambda: Client("ftp://here"), lambda: Client(given["url"], "a key"),
    lambda: Client(given["closed"]).scores(), *[(lambda at: lambda: Client(at).page())(at) for at in given["others"]],
    lambda: client.recompute({"q": "will"}), lambda: client.recompute({"tier": "IRON"}), lambda: client.recompute(by=["id"]),
    lambda: client.recompute({"from": "2026-02-30"}), lambda: client.recompute(trust=Trust(snapshot_id="0" * 64)),
    lambda: client.recompute(trust=Trust(key="name+id+key")), lambda: client.recompute(as_of="2026-02-01"))]))`,
      { url, key, present, closed, others },
    );
    for (const server of servers) await server.stop();
    const own = (parameter: string) => ["ApiError", "INVALID_PARAMETER", 0, parameter];
    expect(said).toEqual([
      ["ApiError", "PROTOCOL_NOT_FOUND", 404, null],
      ["ApiError", "API_KEY_REQUIRED", 401, null],
      ["ApiError", "NOT_FOUND", 404, null],
      ["ApiError", "INVALID_PARAMETER", 400, "min_composite"],
      ["ApiError", "INVALID_URL", 0, null],
      ["ApiError", "INVALID_API_KEY", 0, null],
      ["ApiError", "UNREACHABLE", 0, null],
      ["ApiError", "UNEXPECTED_ANSWER", 302, null],
      ["VerificationError", "answer", 0, null],
      ...others.slice(2).map(() => ["ApiError", "BROKEN_ANSWER", 0, null]),
      ...["q", "tier", "by", "from", "trust", "key", "asOf"].map(own),
    ]);
  });
});
