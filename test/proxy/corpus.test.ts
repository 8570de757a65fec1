import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client } from "../../proxy/site/client/client.ts";
import { generateKey, readKeys, revokeKey } from "../../snapshots/keys/keys.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { answerOf, answersIn, type WireAnswer } from "../helpers/attack/wire.ts";
import { connections, takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, problemOf, raw } from "../helpers/http/proxy-client.ts";
import { market, marketsOf, publishRecords } from "../helpers/publish/records.ts";
import { findNginx, startBalancer } from "../helpers/servers/nginx.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// The requests of corpus.txt, each alone, among others on its connection, behind nginx, and from the client.

interface Exchange {
  who: string;
  /** The line of the request and its fields, or all bytes of what is no request. */
  line: string;
  fields: string[];
  body: string | undefined;
  status: number;
  /** The code of a refusal, or what of an answer is to match `told`. */
  of: string;
  told: string;
  detail: string;
}

/** The exchanges of the corpus, by the lines that begin with >. */
function exchangesIn(text: string): [head: string, exchanges: Exchange[]][] {
  const lines = text.replace(/^(#.*)?\n/gm, "");
  return lines.split(/^> /m).flatMap((section): [string, Exchange[]][] => {
    const [head = "", ...rows] = section.trimEnd().split("\n");
    const [request = "", outcome = ""] = head.split(/ > (?=\d{3} )/);
    const [answer = "", ...usual] = outcome.split(" | ");
    const [status, of = ""] = answer.split(" ");
    const read = (row: string) => {
      const [values = "", told = usual[0] ?? "", detail = usual[1] ?? ""] = row.split(" | ");
      const asked = values.split("  ").flatMap((value) => {
        const whole = request.replace("…", () => (value === '""' ? "" : value));
        const [bracketed, paths = ""] = /(?<=\/)\[(.*?)\]/.exec(request) ?? [];
        return bracketed ? paths.split(" ").map((path) => whole.replace(bracketed, path)) : [whole];
      });
      return asked.map((whole): Exchange => {
        const [first = "", ...others] = whole.split(" | ");
        const who = first.split(" ")[0]!;
        const line = first.slice(who.length + 1);
        const [body] = others.filter((field) => field.startsWith("body: "));
        const fields = others.filter((field) => field !== body);
        return { who, line, fields, body: body?.slice(6), status: Number(status), of, told, detail };
      });
    };
    return rows.length > 0 ? [[head, rows.flatMap(read)]] : [];
  });
}

const corpus = exchangesIn(readFileSync(new URL("corpus.txt", import.meta.url), "utf8"));
const noon = (date: string) => new Date(`${date}T12:00:00.000Z`);
const days = ["2026-02-10", "2026-02-20", "2026-02-27", "2026-02-28", "2026-03-01"].map(noon);
const none = "0".repeat(64);
const modern = "2026-07-28";
const client = { name: "test", version: "1" };
const callOf = (name: string) =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: {} } });
/** What stands for the words in braces. */
const known: Record<string, string> = {
  NONE: none,
  MANY: Array.from({ length: 101 }, (_, n) => n.toString(16).padStart(64, "0")).join(),
  // A cursor with a filter that is too long.
  LONG: Buffer.from(JSON.stringify([1, none, 42, 0, "", 1, `category=${"x".repeat(257)}`])).toString(
    "base64url",
  ),
  PRESENT: market(7).id,
  LATER: market(47).id,
  HANDSHAKE: "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13",
  CLEARTEXT:
    "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA",
  NONCE: "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
  JSON: "content-type: application/json",
  BATCH: "/api/v1/scores/batch",
  NEXT: "GET /api/v1/scores/lido-dao HTTP/1.1\r\nHost: x\r\n\r\n",
  ODD: '"__proto__","toString","hasOwnProperty","valueOf","prototype","batch",""," ","AAVE","aave "',
  PATHS: '"../..","..%2f..","aave/history","/etc/passwd","1e999","\u202eaave"',
  LIST: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
  NOTE: '{"jsonrpc":"2.0","method":"notifications/initialized"}',
  EXPLAIN: callOf("explain_numbers"),
  SCORES: callOf("list_scores"),
  START: '"protocolVersion":"2025-11-25"',
  CLIENT: JSON.stringify(client),
  MODERN: `mcp-protocol-version: ${modern}\r\nmcp-method: tools/list`,
  ASKED: JSON.stringify({
    ...{ jsonrpc: "2.0", id: 1, method: "tools/list" },
    params: {
      _meta: {
        "io.modelcontextprotocol/protocolVersion": modern,
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    },
  }),
  // What is nested deeply is as harmless as anything else that is not made use of.
  DEEP: `{"a":{"a":${"[".repeat(1900)}${"]".repeat(1900)}}}`,
  HEADERS:
    "authorization, x-api-key, content-type, if-none-match, if-modified-since, cache-control, pragma, range, " +
    "if-range, traceparent, tracestate, x-requested-with, delta-sharing-capabilities",
  TABLE: "/delta-sharing/shares/prs/schemas/archive/tables/markets",
};

const folder = testFolder();
let proxy: TestProxy;
/** What comes in ranges, by path. */
const wholes = new Map<string, Buffer>();
let callers: Record<string, string[]>;
beforeAll(async () => {
  const [contact, apiUrl] = ["mailto:keys@example.org", new URL("https://scores.example.org")];
  proxy = await startTestProxy({ empty: true, contact, apiUrl });
  const { storage } = proxy;
  const signing = { key: testKey() };
  // The fourth is withdrawn by the fifth, which has the content of the third again, and the second is collected.
  for (const [n, name] of ["FIRST", "GONE", "KEPT", "WITHDRAWN"].entries()) {
    const choices = { now: () => days[n]!, signing };
    known[name] = (await publishRecords(storage, marketsOf(0, 40 + 5 * n), 700 + 10 * n, choices)).snapshotId;
  }
  await rollback(storage, "3", () => days[4]!, { signing });
  const { snapshotId, archiveRoot } = (await newestCommit(storage))!.entry;
  Object.assign(known, { NEWEST: snapshotId, ROOT: archiveRoot });
  await storage.delete(layout.manifest((await readCommit(storage, 2))!.manifest.hash));
  await exportNewest(storage, folder, { signing });
  // This one has seen nothing of what was before.
  const first = proxy;
  proxy = { ...(await first.another()), stop: first.stop };
  const now = Date.parse("2026-03-01T18:00:00Z");
  proxy.clock.now = now - 60_000;
  await takenUp(proxy, snapshotId);
  const quota = 1_000_000;
  const aegis = await proxy.issue({ quota });
  const developer = await proxy.issue({ plan: "developer", owner: "dev", quota });
  const spent = await proxy.issue({ plan: "developer", owner: "spent", quota: 1 });
  await proxy.get("/api/v1/scores", { headers: bearer(spent) });
  known.REVOKED = await proxy.issue({ owner: "revoked" });
  const { records } = await readKeys(storage);
  const { id } = records.find(({ owner }) => owner === "revoked")!;
  await revokeKey(storage, id, new Date(proxy.clock.now));
  await proxy.refuses(known.REVOKED);
  known.EXPIRED = await proxy.issue({ owner: "expires", expiresAt: new Date(now) });
  proxy.clock.now = now;
  Object.assign(known, {
    AEGIS: aegis,
    DEVELOPER: developer,
    SPENT: spent,
    UNKNOWN: `${aegis.slice(0, -3)}abc`,
    OTHER: generateKey(),
  });
  known.BEARER = `Authorization: Bearer ${aegis}`;
  const keyed = (key: string) => [`authorization: Bearer ${key}`];
  const wrong = ["x-api-key: nonsense"];
  callers = { free: [], aegis: keyed(aegis), developer: keyed(developer), spent: keyed(spent), wrong };
  callers.both = [...wrong, ...keyed(aegis)];
  const ask = proxy.as(aegis);
  const get = async (path: string) => (await ask(path)).json();
  known.CURSOR = (await get("/api/v1/markets/historical?outcome=Yes&pageSize=7")).nextCursor;
  const [segment] = (await get("/api/v1/markets/index")).segments;
  const { hash } = segment.header;
  Object.assign(known, { HASH: hash, IDS: segment.ids.hash, PART: `/api/v1/markets/index/${hash}` });
  const [{ url: file, bytes, sha256 }] = (await get("/api/v1/markets/exports")).exports[0].files;
  Object.assign(known, { FILE: file, SIZE: bytes, LAST: bytes - 1, SHA: sha256, TAG: `"${sha256}"` });
  const json = { "content-type": "application/json" };
  const shared = await ask(`${known.TABLE}/query`, json, { method: "POST", body: "{}" });
  const { pathname, search, searchParams } = new URL(JSON.parse(shared.text.split("\n")[2]!).file.url);
  const [who, expires, , signature] = [...searchParams.values()];
  Object.assign(known, {
    SIGNED: pathname,
    QUERY: search.slice(1),
    WHO: who,
    EXPIRES: expires,
    SIG: signature,
  });
  Object.assign(known, { AFTER: Number(expires) + 1, HEX: Number(expires).toString(16) });
  for (const path of [file, known.PART]) wholes.set(path, (await ask(path)).body);
  wholes.set(pathname, wholes.get(file)!);
});
afterAll(() => proxy?.stop());

const keys = () => [known.AEGIS, known.DEVELOPER, known.UNKNOWN, known.OTHER, known.EXPIRED, known.REVOKED];

/** A text of the corpus with what stands for its braces and escapes; bytes are characters. */
const written = (text: string) =>
  Buffer.from(repeated(text))
    .toString("latin1")
    .replace(/\\(?:x(..)|([rn]))/g, (_, hex, end) =>
      hex ? String.fromCharCode(Number.parseInt(hex, 16)) : end === "r" ? "\r" : "\n",
    );
const repeated = (text: string) =>
  text
    .replace(/\{(\d+)\*([^}]*)\}/g, (_, count, some) => some.repeat(count))
    .replace(/\{([A-Z]+)\}/g, (whole, name) => known[name] ?? whole);
const pattern = (text: string) => new RegExp(repeated(text), "s");

function bytesOf({ who, line, fields, body }: Exchange, last = true): string {
  if (who === "raw") return written(line);
  const all = ["host: proxy.test", ...callers[who]!, ...fields.map(written)];
  if (body !== undefined) all.push(`content-length: ${written(body).length}`);
  if (last && !all.some((field) => field.startsWith("connection:"))) all.push("connection: close");
  return `${written(line)} HTTP/1.1\r\n${all.join("\r\n")}\r\n\r\n${body === undefined ? "" : written(body)}`;
}

/** Headers of everything of the API. */
const ofApi = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": expect.stringMatching(
    /X-RateLimit-Remaining.*RateLimit-Policy.*Accept-Ranges, Content-Range, Delta-Table-Version.*ETag/,
  ),
  vary: expect.stringMatching(/^Accept-Encoding, Authorization, X-Api-Key/),
};

function check(
  { line, fields, body, status, of, told, detail, who }: Exchange,
  ...answers: WireAnswer[]
): void {
  const what = [line, ...fields, body].join(" | ").slice(0, 300);
  const [wire] = answers as [WireAnswer];
  expect([what, answers.map((each) => each.status)]).toEqual([what, [status]]);
  const headers = Object.fromEntries(wire.headers);
  expect(headers).toMatchObject({
    "x-content-type-options": "nosniff",
    "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
    "content-security-policy": expect.stringMatching(/^default-src '(none|self)'/),
  });
  if (/^\w+ \/(api\/v1|delta-sharing)\b/.test(written(line)) && of !== "BAD_REQUEST")
    expect([what, headers]).toEqual([what, expect.objectContaining(ofApi)]);
  if (who === "raw") expect(headers.connection).toBe("close");
  for (const key of keys()) expect(JSON.stringify(wire)).not.toContain(key);
  const origin = fields.find((field) => field.startsWith("origin: "))?.slice("origin: ".length);
  if (origin) {
    const mayRead = ["https://scores.example.org", "http://localhost:6274", "http://127.0.0.1"].includes(
      origin,
    );
    expect([what, headers["access-control-allow-origin"]]).toEqual([what, mayRead ? origin : undefined]);
    expect(headers.vary).toMatch(/, Origin$/);
  }
  const rates = Object.keys(headers).filter((name) => name.includes("ratelimit"));
  if (status === 401 || status === 204) expect([what, rates]).toEqual([what, []]);
  if (status !== 204) expect(headers).not.toHaveProperty("access-control-allow-methods");
  expect(headers).not.toHaveProperty("set-cookie");
  const path = /^\w+ ([^? ]*)/.exec(written(line))?.[1] ?? "";
  const whole = wholes.get(path) ?? Buffer.alloc(0);
  const [range, from = 0, to = whole.length] =
    /^bytes (\d+)-(\d+)/.exec(headers["content-range"] ?? "") ?? [];
  expect([what, range !== undefined]).toEqual([what, status === 206]);
  if (line.startsWith("HEAD")) expect(wire.text).toBe("");
  else if (wholes.has(path) && status < 300)
    expect(wire.text === String(whole.subarray(Number(from), Number(to) + 1)), what).toBe(true);
  if (status === 416) expect(headers["content-range"]).toBe(`bytes */${whole.length}`);
  if (status < 400 || line.startsWith("HEAD"))
    expect(of === "body" ? wire.text : (headers[of] ?? ""), what).toMatch(pattern(told));
  else if (headers["content-type"] === "application/json") {
    const { jsonrpc, id, error, ...said } = JSON.parse(wire.text);
    if (jsonrpc === undefined) expect(said).toEqual({ errorCode: of, message: expect.any(String) });
    else expect([what, error.data?.code ?? `${error.code}`]).toEqual([what, of]);
    if (status === 405 && error) expect([id, error.code]).toEqual([null, -32000]);
    expect(error?.message ?? said.message, what).toMatch(pattern(detail));
    // In words of the service.
    if (error && !error.data && of !== "-32000")
      expect([String(id), error.message]).toEqual([told, expect.stringMatching(/^[^{}[\]\n]*\.$/)]);
  } else {
    const problem = problemOf(answerOf(wire));
    const { code, parameter = "" } = problem;
    expect([what, code, parameter]).toEqual([what, of, expect.stringMatching(pattern(`^(${told})$`))]);
    expect(problem.detail, what).toMatch(pattern(detail));
    expect(problem.detail.length).toBeLessThan(2000);
    // Who lacks a key, or one of a plan, is told where one comes from, and nobody else is.
    const lacks = /^(API_KEY|DEVELOPER|AEGIS)_REQUIRED$/.test(code);
    expect(/ Ask for a key: keys@example\.org$/.test(problem.detail), what).toBe(lacks);
    expect([what, "retry-after" in headers]).toEqual([what, status === 429]);
    // RFC 9110, 15.5.22: an answer 426 must name the protocol.
    expect(headers.upgrade).toBe(status === 426 ? "websocket" : undefined);
    // RFC 6750 has no quotes, backslashes or other characters than those of ASCII here.
    const described = expect.stringContaining(`error="invalid_token", error_description="${problem.detail}"`);
    if (code === "INVALID_API_KEY")
      expect([headers["www-authenticate"], problem.detail]).toEqual([
        described,
        expect.stringMatching(/^[ !#-[\]-~]+$/),
      ]);
  }
}

/** Whether a connection goes on after a request. */
const isPlain = ({ who, of, fields }: Exchange) =>
  who !== "raw" &&
  !/^(BAD_REQUEST|HEADERS_TOO_LARGE)$/.test(of) &&
  !fields.some((field) => /upgrade/i.test(written(field)));

test.each(corpus)("%s", async (_head, exchanges) => {
  for (const exchange of exchanges) check(exchange, ...answersIn(await proxy.raw(bytesOf(exchange))));
  const requests = exchanges.filter((each) => isPlain(each) && each.line.startsWith("GET"));
  for (let at = 0; at < requests.length; at += 16) {
    const some = requests.slice(at, at + 16);
    const bytes = some.map((exchange, place) => bytesOf(exchange, place === some.length - 1));
    const answers = answersIn(await proxy.raw(bytes.join("")));
    expect(answers.length).toBe(some.length);
    for (const [place, exchange] of some.entries()) check(exchange, answers[place]!);
  }
  expect(await connections(proxy)).toBe(0);
});

const nginx = findNginx();
test.skipIf(!nginx)("behind nginx, but for what it refuses itself", async () => {
  const balancer = await startBalancer(nginx!, [proxy.port, proxy.port]);
  const own: string[] = [];
  for (const exchange of corpus.flatMap(([, exchanges]) => exchanges)) {
    // It gives a request of a whole address on as one of a path.
    if (!isPlain(exchange) || exchange.line.includes("://")) continue;
    const answers = answersIn(await raw(balancer.port, bytesOf(exchange)));
    if (answers[0]?.text.includes("<center>nginx")) own.push(`${answers[0].status} ${exchange.line}`);
    else check(exchange, ...answers);
  }
  await balancer.stop();
  // It takes no two fields Authorization either, nor 2,000 fields.
  const page = "/api/v1/markets/historical?pageSize=1";
  const paths = [
    ...["/api/v1/log/checkpoint%00", "/api/v1/scores/a%", "/api/v1/markets/historical%00", "*"],
    ...[page, page, "/api/v1/scores", page, page],
  ];
  expect(own).toEqual(paths.map((path) => `400 GET ${path}`));
});

test("from the client", async () => {
  const client = new Client({ url: `http://127.0.0.1:${proxy.port}`, key: known.AEGIS!, retries: 0 });
  const path = "GET /api/v1/markets/historical?";
  let asked = 0;
  for (const { who, line, fields, status, of, told } of corpus.flatMap(([, exchanges]) => exchanges)) {
    const query = [...new URLSearchParams(repeated(line.slice(path.length)))];
    const filters = Object.fromEntries(query);
    const odd = /%[fz]|&&|\?&|&$|=x$/.test(line) || Object.keys(filters).length < query.length;
    if (who !== "aegis" || !line.startsWith(path) || fields.length > 0 || status < 400 || odd) continue;
    asked += 1;
    const error = await client.page(filters).catch((thrown: unknown) => thrown);
    expect([line, error]).toEqual([line, expect.objectContaining({ status, code: of })]);
    if (told) expect(Reflect.get(error as object, "parameter")).toMatch(pattern(`^(${told})$`));
  }
  expect(asked).toBeGreaterThan(50);
});

test("the log holds patterns and names of known parameters; no target, value, body or key", async () => {
  const path = "/api/v1/markets/historical?outcome=CANARY&min_composite=300";
  await proxy.get(path, { headers: bearer(known.AEGIS!) });
  await proxy.logs('"route":"/api/v1/markets/historical","parameters":["outcome","min_composite"]');
  for (const secret of ["CANARY", known.SIG, ...keys()]) expect(proxy.logged.join("")).not.toContain(secret);
});

const get = (path: string, { as } = proxy) => as(known.AEGIS!)(`/api/v1/${path}`);

test("asOf names the snapshots beside one that is collected or withdrawn", async () => {
  const around = (place: number, name: string) => ({
    snapshotId: known[name],
    publishedAt: days[place]!.toISOString(),
  });
  for (const [name, before, after] of [
    ["GONE", around(0, "FIRST"), around(2, "KEPT")],
    ["WITHDRAWN", around(2, "KEPT"), around(4, "KEPT")],
  ] as const)
    expect(problemOf(await get(`markets/historical?asOf=${known[name]}`))).toMatchObject({
      ...{ status: 410, code: "SNAPSHOT_EXPIRED" },
      nearest: { before, after },
    });
});

test("what lies behind a damaged commit is 503 with the reason, and not said to be unknown", async () => {
  const { storage } = proxy;
  const key = layout.commit(2);
  const bytes = (await storage.get(key))!;
  const flipped = Buffer.from(bytes);
  flipped[100]! ^= 1;
  for (const damaged of [flipped, undefined]) {
    await (damaged ? storage.put(key, damaged) : storage.delete(key));
    await using other = await proxy.another();
    const { FIRST, KEPT } = known;
    for (const path of [
      `markets/historical?asOf=${FIRST}`,
      "markets/historical?asOf=2026-02-10",
      `markets/changes?since=${FIRST}`,
      `markets/changes?since=${KEPT}&until=${FIRST}`,
      `markets/exports/${FIRST}/markets-0001.parquet`,
      `scores?asOf=${FIRST}`,
    ]) {
      const { status, code, detail } = problemOf(await get(path, other));
      const told = expect.stringContaining(`before ${days[2]!.toISOString()} is damaged`);
      expect([path, status, code, detail]).toEqual([path, 503, "SNAPSHOT_UNAVAILABLE", told]);
    }
    expect(other.logged.some((line) => line.includes(key))).toBe(true);
    for (const path of ["historical", "historical?asOf=2026-02-27", `changes?since=${KEPT}`])
      expect((await get(`markets/${path}`, other)).status).toBe(200);
  }
  await storage.put(key, bytes);
});

test("what was deleted since it was loaded is 410, and never 500", async () => {
  const { storage } = proxy;
  const { scores } = await readManifest(storage, (await readCommit(storage, 1))!);
  const key = layout.publicObject(scores.records.aave!.hash);
  const bytes = (await storage.get(key))!;
  // A proxy that has the manifest in memory and nothing else.
  await using other = await proxy.another();
  expect((await get("scores?asOf=2026-02-10", other)).status).toBe(200);
  await storage.delete(key);
  const problem = problemOf(await get("scores/aave?asOf=2026-02-10", other));
  expect(problem).toMatchObject({ status: 410, code: "SNAPSHOT_EXPIRED", parameter: "asOf" });
  await storage.put(key, bytes);
});
