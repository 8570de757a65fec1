import { readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { verifyProof, verifyScoreProof } from "../../proxy/site/client/client.ts";
import { type Endpoint, type EndpointId, endpoints } from "../../schemas/endpoints.ts";
import { ChangeLine, type ExportList, type MarketIndex, makeProblem } from "../../schemas/envelopes.ts";
import type { ErrorCode } from "../../schemas/errors.ts";
import { ofLines } from "../../schemas/headers.ts";
import { csv, ndjson, octets, parquet } from "../../schemas/media.ts";
import { describeApi } from "../../schemas/openapi/document.ts";
import { HistoricalMarket, tableColumns } from "../../schemas/records.ts";
import { headFrom, leafHash } from "../../snapshots/format/tree.ts";
import { publish } from "../../snapshots/publish/publish.ts";
import { decodeCursor, encodeCursor } from "../../snapshots/read/archive/paging.ts";
import { writeSample } from "../../snapshots/sample/sample.ts";
import { openSources } from "../../snapshots/sources/open-sources.ts";
import type { Sources } from "../../snapshots/sources/sources.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { openStorage } from "../../snapshots/store/open-storage.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { parseCheckpoint, signCheckpoint } from "../../snapshots/trust/notes/signed-note.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { listen, takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer, type Call, problemOf } from "../helpers/http/proxy-client.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// The examples of the API's description are what a proxy over a sample answers. vitest -u writes them anew.

const folder = testFolder();
let proxy: TestProxy;
let snapshots: string[];
let aegis: string;
let developer: string;
let spent: string;
let part: { hash: string; bytes: number };
beforeAll(async () => {
  snapshots = [await publishSample(2), await publishSample(1), await publishSample(0)];
  // As if the first one had been collected.
  const store = await openStorage("store", folder);
  const { manifest } = (await readCommit(store, 1))!;
  await store.delete(layout.manifest(manifest.hash));
  await exportNewest(store, folder, { signing: { key } });
  proxy = await startTestProxy({ snapshotStore: join(folder, "store"), empty: true });
  proxy.clock.now = publishedAt.getTime() + 90_000;
  await takenUp(proxy, snapshots[2]!);
  aegis = await proxy.issue();
  developer = await proxy.issue({ plan: "developer" });
  spent = await proxy.issue({ plan: "developer", owner: "spent", quota: 1 });
  await proxy.get("/api/v1/scores", { headers: bearer(spent) });
  const [segment] = (await proxy.get(indexPath, keyed())).json().segments;
  part = segment.header;
  Object.assign(needed, { hash: part.hash, of: `${part.hash},${segment.ids.hash}` });
  Object.assign(needed, { since: snapshots[1], snapshotId: snapshots[2] });
  for (const [id, path, how] of good.filter(([id]) => id === "getMarket" || id === "getScore"))
    shown.set(JSON.stringify((await proxy.get(path, how())).json()), id);
});
afterAll(() => proxy?.stop());

const publishedAt = new Date("2026-03-01T12:00:00.000Z");

/** Publishes a sample as it was so many days before its end; returns the snapshot's id. */
async function publishSample(daysBack: number): Promise<string> {
  const directory = join(folder, `sources-${daysBack}`);
  await writeSample({ directory, markets: 60, protocols: 3, days: 12, outcomes: 6, seed: 1, daysBack });
  const where = { temporaryDirectory: folder, now: publishedAt };
  const open = () => openSources({ path: directory }, where);
  const { snapshotId } = await publish({
    sources: daysBack === 1 ? async () => otherwise(await open()) : open,
    storage: await openStorage("store", folder),
    temporaryDirectory: folder,
    now: () => publishedAt,
    signing: { key },
  });
  return snapshotId;
}

/** The same sources without one market, and with another id for one. */
function otherwise(sources: Sources): Sources {
  return {
    ...sources,
    marketCount: sources.marketCount - 1,
    // All rows, also those that the snapshot before has.
    async *markets() {
      for await (const [, market, ...others] of sources.markets()) {
        const id = "00000000-0000-4000-8000-000000000000";
        const line = Buffer.from(String(market!.line).replace(market!.id, id));
        yield [{ ...market!, id, line, digest: market!.digest ^ 1n }, ...others];
      }
    },
  };
}

const key = testKey();

const rootOfNone: Buffer = Buffer.alloc(32, 7);

/** A checkpoint that does not depend on how zlib compresses, which digests of commits do. */
function steadyCheckpoint(note: string, head = rootOfNone): string {
  const { origin, size } = parseCheckpoint(note);
  expect(origin).toBe(key.name);
  return signCheckpoint({ key }, { size, head });
}

/** A proof of which the same is true. It still holds. */
function steadyProof(
  body: Pick<MarketIndex, "snapshotId" | "commit" | "entry" | "checkpoint">,
  proof: Pick<MarketIndex, "inclusion">,
): void {
  body.entry = body.entry.replace(/[0-9a-f]{64}"\}$/, `${body.snapshotId}"}`);
  const beside = proof.inclusion!.map((_, n) => Buffer.alloc(32, n + 1));
  proof.inclusion = beside.map((hash) => hash.toString("hex"));
  const place = { index: body.commit - 1, size: parseCheckpoint(body.checkpoint!).size, path: beside };
  body.checkpoint = steadyCheckpoint(body.checkpoint!, headFrom(leafHash(Buffer.from(body.entry)), place));
}

/** Replaces what depends on how Parquet is written by what does not. */
function steadyFiles({ exports }: ExportList): void {
  for (const each of exports) {
    each.bytes = 1000 * each.rows;
    for (const file of each.files)
      Object.assign(file, { bytes: 1000 * file.rows, sha256: sha256(Buffer.from(file.name)) });
  }
}

const archive = "/api/v1/markets/historical";
const exportsList = "/api/v1/markets/exports";
const indexPath = "/api/v1/markets/index";
const exportName = "markets-0001.parquet";
const facets = "/api/v1/markets/facets?by=category,disputed,composite,month";
const slug = "kestrel-lend";
const marketId = "bbfb8fdf-a355-4d14-a479-30c72827f998";
/** Parameters that operations need, by name. */
const needed: Record<string, unknown> = { by: "tier", id: marketId, name: exportName, slug };
const json = { "content-type": "application/json" };
const batch = (body: string, headers: Record<string, string> = json): Call => ({
  method: "POST",
  headers,
  body,
});
const batchPath = "/api/v1/scores/batch";

/** A request of each endpoint that answers data, made when the keys are known. */
const good: [EndpointId, string, () => Call][] = [
  ["listScores", "/api/v1/scores", () => ({})],
  ["getScore", `/api/v1/scores/${slug}`, () => ({})],
  ["batchScores", batchPath, () => batch(JSON.stringify({ slugs: [slug, "unheard-of"] }))],
  ["scoreHistory", `/api/v1/scores/${slug}/history`, () => ({ headers: bearer(developer) })],
  ["scoreDimensions", `/api/v1/scores/${slug}/dimensions`, () => ({ headers: { "x-api-key": developer } })],
  ["tiers", "/api/v1/tiers", () => ({})],
  ["scoreProof", `/api/v1/scores/${slug}/proof`, () => ({})],
  ["marketsHistorical", `${archive}?disputed=false&min_composite=600&pageSize=1`, () => keyed()],
  ["marketFacets", `${facets}&limit=2&min_composite=600`, () => keyed()],
  ["listExports", exportsList, () => keyed()],
  ["marketIndex", indexPath, () => keyed()],
  ["marketAbsence", `${indexPath}/absence?id=${marketId.replace(/.$/, "0")}`, () => keyed()],
  ["getMarket", `/api/v1/markets/${marketId}`, () => keyed()],
  ["marketProof", `/api/v1/markets/${marketId}/proof`, () => keyed()],
  ["listSnapshots", "/api/v1/snapshots", () => ({})],
  ["status", "/api/v1/status", () => ({})],
  ["checkpoint", "/api/v1/checkpoint", () => ({})],
  ["usage", "/api/v1/usage", () => ({ headers: bearer(spent) })],
  ["healthz", "/healthz", () => ({})],
  ["readyz", "/readyz", () => ({})],
  ["openapi", "/openapi.json", () => ({})],
];
/** Those that also come as tables. */
const tabled = good.filter(([id]) => Object.hasOwn(tableColumns, id));
const keyed = (): Call => ({ headers: bearer(aegis) });

const rows = (least: number) => () => `${archive}?disputed=true&min_composite=${least}`;
const exportedFile = () => `${exportsList}/${snapshots[2]}/${exportName}`;
const indexPart = () => `${indexPath}/${part.hash}`;
/** Requests of what comes in other media types, and of ranges. */
const others: [EndpointId, media: string, path: () => string, range?: string][] = [
  ...tabled.map(([id, path]): [EndpointId, string, () => string] => [id, csv, () => path]),
  ["marketsHistorical", ndjson, rows(650)],
  ["marketsHistorical", csv, rows(700)],
  ["marketChanges", ndjson, () => `/api/v1/markets/changes?since=${snapshots[1]}`],
  ["exportFile", parquet, exportedFile],
  ["exportFile", parquet, exportedFile, "bytes=0-3"],
  ["indexPart", octets, indexPart],
  ["indexPart", octets, indexPart, "bytes=0-3"],
  ["indexParts", octets, () => `${indexPath}/sections?of=${part.hash}`],
];

const tooMany = Array.from({ length: 51 }, (_, index) => `p${index}`);
const both = (): Call => ({ headers: { ...bearer(aegis), "x-api-key": developer } });
const beyond = (): Call => ({ headers: { ...bearer(aegis), range: "bytes=99999999-" } });
/** Requests that are refused, by the code they are refused with. */
const refused: Partial<Record<ErrorCode, [EndpointId, string, () => Call]>> = {
  INVALID_PARAMETER: ["marketsHistorical", `${archive}?min_compsite=600`, keyed],
  INVALID_BODY: ["batchScores", batchPath, () => batch('{"slug":"x"}')],
  BATCH_TOO_LARGE: ["batchScores", batchPath, () => batch(JSON.stringify({ slugs: tooMany }))],
  UNSUPPORTED_MEDIA_TYPE: ["batchScores", batchPath, () => batch("{}", { "content-type": "text/plain" })],
  BODY_TOO_LARGE: ["batchScores", batchPath, () => batch(" ".repeat(20_000))],
  CURSOR_MISMATCH: ["marketsHistorical", `${archive}?tier=MITHRIL&cursor=CURSOR`, keyed],
  INVALID_CURSOR: ["marketsHistorical", `${archive}?cursor=12`, keyed],
  CURSOR_EXPIRED: ["marketsHistorical", `${archive}?cursor=EXPIRED`, keyed],
  CONFLICTING_CREDENTIALS: ["listScores", "/api/v1/scores", both],
  INVALID_API_KEY: ["listScores", "/api/v1/scores", () => ({ headers: { "x-api-key": "KEY" } })],
  API_KEY_REQUIRED: ["scoreHistory", `/api/v1/scores/${slug}/history`, () => ({})],
  AEGIS_REQUIRED: ["marketsHistorical", archive, () => ({ headers: bearer(developer) })],
  SNAPSHOT_NOT_FOUND: ["marketChanges", `/api/v1/markets/changes?since=${"0".repeat(64)}`, keyed],
  PROTOCOL_NOT_FOUND: ["getScore", "/api/v1/scores/unheard-of", () => ({})],
  MARKET_NOT_FOUND: ["getMarket", `/api/v1/markets/${marketId.replace(/.$/, "0")}`, keyed],
  SECTION_NOT_FOUND: ["indexPart", `${indexPath}/${"0".repeat(64)}`, keyed],
  SNAPSHOT_EXPIRED: ["listScores", "/api/v1/scores?asOf=GONE", keyed],
  RANGE_NOT_SATISFIABLE: ["exportFile", `${exportsList}/EXPORTED/${exportName}`, beyond],
  UPGRADE_REQUIRED: ["scoreFeed", "/api/v1/ws/scores", () => ({ headers: bearer(developer) })],
  QUOTA_EXCEEDED: ["listScores", "/api/v1/scores", () => ({ headers: bearer(spent) })],
};

interface Described {
  headers: Record<string, unknown>;
  content?: Record<string, unknown>;
  "x-codes"?: string[];
}

const document = describeApi();
const known = Object.keys(document.components?.headers ?? {});

/** What the description says of an answer of an endpoint. */
function describedOf(id: EndpointId, status: number): Described {
  const { path, method }: Endpoint = endpoints[id];
  const item = document.paths?.[path.replaceAll(/[:*](\w+)/g, "{$1}")];
  const operation = method === "WS" ? item?.["x-websocket"] : method === "POST" ? item?.post : item?.get;
  return operation?.responses?.[status] as Described;
}

/** Headers of an answer out of those that the description knows, and the described ones; equal except for rare ones. */
function comparedHeaders(id: EndpointId, answer: Pick<Answer, "headers" | "status">) {
  const rare = ["Age", "Cache-Status"];
  const described = Object.keys(describedOf(id, answer.status).headers);
  // Pages name the one that follows; answers with all rows tell where they end.
  if (answer.headers["x-count"] === undefined) rare.push(...ofLines);
  else rare.push("Link");
  const sent = known.filter((name) => answer.headers[name.toLowerCase()] !== undefined);
  return { sent: sent.sort(), described: described.filter((name) => !rare.includes(name)).sort() };
}

function expectHeaders(id: EndpointId, answer: Pick<Answer, "headers" | "status">): void {
  const { sent, described } = comparedHeaders(id, answer);
  expect(sent).toEqual(described);
}

/** Whoever has an answer gets 304 for it, with the headers described. */
async function expectHeld(id: EndpointId, path: string, headers: Call["headers"], answer: Answer) {
  const held = await proxy.get(path, { headers: { ...headers, "if-none-match": answer.headers.etag! } });
  expect([held.status, describedOf(id, 304).content]).toEqual([304, undefined]);
  expectHeaders(id, held);
}

const compared = new Set<string>();
function golden(name: string, extension = "json"): string {
  compared.add(`${name}.${extension}`);
  return `../../schemas/openapi/examples/${name}.${extension}`;
}
/** The records that have examples of their own, by their text. Other examples refer to these. */
const shown = new Map<string, EndpointId>();
const pretty = (value: unknown) =>
  `${JSON.stringify(value, (name, each) => (name !== "" && refTo(each)) || each, 2)}\n`;

function refTo(value: unknown) {
  const id = shown.get(JSON.stringify(value));
  return id && { $ref: id };
}

describe("examples of answers", () => {
  test.each(good)("%s: the example, with the headers described", async (id, path, how) => {
    const answer = await proxy.get(path, how());
    expect(answer.status).toBe(200);
    const { headers, content } = describedOf(id, 200);
    expect(Object.keys(content ?? {})[0]).toBe(answer.headers["content-type"]);
    expectHeaders(id, answer);
    const { response, media }: Endpoint = endpoints[id];
    const body = media ? steadyCheckpoint(answer.text) : answer.json();
    if (id === "listExports") steadyFiles(body);
    if (id === "marketIndex" || id === "marketAbsence") steadyProof(body, body);
    if (id === "marketProof" || id === "scoreProof") {
      steadyProof(body, body.proof);
      const known = { key: verifierText(key) };
      await (id === "marketProof" ? verifyProof(body, known) : verifyScoreProof(body, known));
    }
    response?.parse(body);
    if (id !== "openapi") await expect(pretty(body)).toMatchFileSnapshot(golden(id));
    if (headers.ETag) await expectHeld(id, path, how().headers, answer);
  });

  test.each(others)("%s as %s: the example, with the headers described", async (id, media, pathOf, range) => {
    const headers = { ...bearer(aegis), accept: media };
    const answer = await proxy.get(pathOf(), { headers: { ...headers, ...(range && { range }) } });
    const status = range ? 206 : 200;
    expect([answer.status, answer.headers["content-type"]?.split(";")[0]]).toEqual([status, media]);
    expect(Object.keys(describedOf(id, status).content ?? {})).toContain(media);
    expectHeaders(id, answer);
    if (media === ndjson) {
      const lines = answer.text.trimEnd().split("\n");
      expect(lines).toHaveLength(Number(answer.headers["x-count"]));
      const line = id === "marketChanges" ? ChangeLine : HistoricalMarket;
      for (const each of lines) line.parse(JSON.parse(each));
    }
    if (media === parquet) expect(answer.text.slice(0, 4)).toBe("PAR1");
    const extension = { [csv]: "csv", [ndjson]: "ndjson" }[media];
    if (extension) await expect(answer.text).toMatchFileSnapshot(golden(id, extension));
    else expect(answer.body.length).toBe(range ? 4 : Number(answer.headers["content-length"] ?? part.bytes));
    if (!range) await expectHeld(id, pathOf(), headers, answer);
  });

  test("errors: each code is described where it occurs", async () => {
    const problems: Record<string, unknown> = {};
    const first = await proxy.get(`${archive}?pageSize=1`, keyed());
    const cursor = first.json().nextCursor;
    const expired = encodeCursor({ ...decodeCursor(cursor), commit: 1, snapshotId: snapshots[0]! });
    for (const [code, [id, path, how]] of Object.entries(refused)) {
      const named = { EXPIRED: expired, CURSOR: cursor, GONE: snapshots[0]!, EXPORTED: snapshots[2]! };
      const target = path.replace(/(?<=[=/])[A-Z]{4,}/g, (name) => named[name as keyof typeof named] ?? name);
      const answer = await proxy.get(target, how());
      const problem = problemOf(answer);
      expect(problem.code).toBe(code);
      const described = describedOf(id, answer.status);
      expect(described["x-codes"]).toContain(code);
      const schema = { $ref: "#/components/schemas/Problem" };
      const content = { [answer.headers["content-type"]!]: expect.objectContaining({ schema }) };
      expect(described.content).toEqual(content);
      const compared = comparedHeaders(id, answer);
      // Refused before a unit was taken, under a status of which others are refused after.
      const untaken = code === "CONFLICTING_CREDENTIALS";
      const due = compared.described.filter((name) => !(untaken && /RateLimit/.test(name)));
      expect([code, compared.sent]).toEqual([code, due]);
      const { type: _, title: __, status: ___, code: ____, requestId, ...said } = problem;
      expect(makeProblem(problem.code, { requestId, ...said })).toEqual(problem);
      problems[code] = { endpoint: id, ...said };
    }
    await expect(pretty(problems)).toMatchFileSnapshot(golden("problems"));
  });

  test("the live feed: its messages, and the headers of the answer that opens it", async () => {
    const listener = await listen(proxy.port, developer, { since: snapshots[1]! });
    await listener.count(4);
    listener.socket.close();
    expectHeaders("scoreFeed", { status: 101, headers: listener.headers });
    const hello = listener.heard.filter(({ type }) => type === "hello");
    const heard = [...listener.changes().slice(0, 1), ...hello];
    await expect(pretty(heard)).toMatchFileSnapshot(golden("scoreFeed"));
  });
});

// After all others, which name the files that they compare with.
test("examples are of every endpoint that answers data, and no others are kept", async () => {
  const kept = await readdir(new URL("../../schemas/openapi/examples/", import.meta.url));
  expect(kept.sort()).toEqual([...compared].sort());
  const answering = Object.entries<Endpoint>(endpoints).filter(([, { response }]) => response);
  const without = answering.filter(([id]) => !kept.some((name) => name.startsWith(`${id}.`)));
  expect(without.map(([id]) => id).sort()).toEqual([
    "exportFile",
    "indexPart",
    "indexParts",
    "log",
    "openapi",
  ]);
});

// The client is the one that /docs/ uses: it makes its requests of nothing but the description.
describe("a client made of the description", () => {
  type Values = Record<string, unknown>;
  type Built = { url: string; method: string; headers: Record<string, string>; body?: string };
  const spec = JSON.parse(JSON.stringify(document));
  const Parameter = z.looseObject({
    name: z.string(),
    schema: z.looseObject({ pattern: z.string().default("") }),
  });
  const Response = z.looseObject({ content: z.record(z.string(), z.unknown()) });
  const operations = Object.values(document.paths ?? {})
    .flatMap(({ get, post }) => [get, post])
    .flatMap((operation) => {
      if (!operation) return [];
      const parameters = z.array(Parameter).parse(operation.parameters ?? []);
      const types = Object.keys(Response.parse(operation.responses?.[200]).content);
      return [{ id: operation.operationId ?? "", parameters, types }];
    });
  let build: (wish: object) => Built;
  beforeAll(() => {
    // The bundle is written for browsers; its client alone needs no more of one.
    vi.stubGlobal("window", { location: {} });
    const { SwaggerUIBundle } = createRequire(import.meta.url)("swagger-ui-dist");
    build = SwaggerUIBundle({}).fn.buildRequest;
  });
  afterAll(() => void vi.unstubAllGlobals());

  /** What the service answers to the request that the client makes of these parameters and others that are needed. */
  async function ask(
    { id, parameters: all }: (typeof operations)[number],
    given: Values,
    responseContentType?: string,
  ) {
    const known = all.flatMap(({ name }) => (name in needed ? [[name, needed[name]]] : []));
    // No market has this one.
    const absent = id === "marketAbsence" && { id: "00000000-0000-4000-8000-000000000000" };
    const parameters = { ...Object.fromEntries(known), ...absent, ...given };
    const requestBody = id === "batchScores" ? JSON.stringify({ slugs: ["unheard-of"] }) : undefined;
    const securities = { authorized: { apiKey: aegis } };
    const wish = { spec, operationId: id, parameters, requestBody, responseContentType, securities };
    const { url, method, headers, body } = build(wish);
    const answer = await proxy.get(url, { method, headers, ...(body !== undefined && { body: `${body}` }) });
    expect([answer.status, answer.status < 400 || answer.text]).toEqual([200, true]);
    return answer;
  }

  const lists = operations.flatMap((operation) =>
    operation.parameters
      .filter(({ schema: { pattern } }) => pattern.endsWith(")*$") && pattern.includes("(,"))
      .map(({ name, schema: { pattern } }) => ({ operation, id: operation.id, name, pattern })),
  );

  test("finds the parameters that take lists", () => {
    expect(lists.map(({ id, name }) => `${id} ${name}`)).toEqual([
      "marketsHistorical tier",
      "marketFacets by",
      "marketFacets tier",
      "indexParts of",
    ]);
  });

  test.each(lists)("$id takes several values of $name in one text", async ({ operation, name, pattern }) => {
    const several: string = { by: "tier,category", tier: "RAW,CAST" }[name] ?? String(needed[name]);
    for (const text of [several, several.slice(0, several.indexOf(","))]) {
      expect(text).toMatch(new RegExp(pattern));
      await ask(operation, { [name]: text });
    }
  });

  // Such a client encodes the slashes in the names of the log's files.
  const others = operations.filter(({ id }) => id !== "log");
  const answers = others.flatMap((operation) =>
    operation.types.map((type) => ({ operation, id: operation.id, type })),
  );
  test.each(answers)("$id is answered as $type", async ({ operation, type }) => {
    const { headers } = await ask(operation, {}, type);
    expect(headers["content-type"]?.split(";")[0]).toBe(type.split(";")[0]);
    expect(headers["content-length"]).not.toBe("0");
  });
});
