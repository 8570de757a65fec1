import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { csv, ndjson } from "../../schemas/media.ts";
import { describeApi } from "../../schemas/openapi/document.ts";
import { publish } from "../../snapshots/publish/publish.ts";
import { writeSample } from "../../snapshots/sample/sample.ts";
import { openSources } from "../../snapshots/sources/open-sources.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { call } from "../helpers/http/proxy-client.ts";
import { testKey } from "../helpers/store/signing.ts";

// The client is the one that /docs/ uses: it makes its requests of nothing but the description.

type Values = Record<string, unknown>;
type Build = (wish: {
  spec: object;
  operationId: string;
  parameters: Values;
  requestBody?: unknown;
  responseContentType: string;
  securities: { authorized: Record<string, string> };
}) => { url: string; method: string; headers: Record<string, string>; body?: string };

const document = describeApi();
const spec = JSON.parse(JSON.stringify(document));

const Parameter = z.looseObject({
  name: z.string(),
  schema: z.looseObject({
    pattern: z.string().optional(),
  }),
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

let folder: string;
let proxy: TestProxy;
let build: Build;
let key: string;
/** Parameters that an operation needs, by name. */
let needed: Values;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "prs-openapi-client-"));
  proxy = await startTestProxy({ empty: true });
  const directory = join(folder, "sources");
  await writeSample({ directory, markets: 60, protocols: 3, days: 2, outcomes: 6, seed: 1 });
  const { snapshotId } = await publish({
    sources: () =>
      openSources({ path: directory }, { temporaryDirectory: folder, now: new Date(proxy.clock.now) }),
    storage: proxy.storage,
    temporaryDirectory: folder,
    now: () => new Date(proxy.clock.now),
    signing: { key: testKey() },
  });
  await exportNewest(proxy.storage, folder, { signing: { key: testKey() } });
  await takenUp(proxy, snapshotId);
  key = await proxy.issue();
  // The bundle is written for browsers; its client alone needs no more of one.
  vi.stubGlobal("window", { location: {} });
  const { SwaggerUIBundle } = createRequire(import.meta.url)("swagger-ui-dist");
  build = SwaggerUIBundle({}).fn.buildRequest;
  const { markets } = JSON.parse((await ask("marketsHistorical", { pageSize: 1 })).text);
  const { scores } = JSON.parse((await ask("listScores", {})).text);
  const id: string = markets[0].id;
  const [{ header, ids }] = JSON.parse((await ask("marketIndex", {})).text).segments;
  needed = {
    by: "tier",
    hash: header.hash,
    id,
    name: "markets-0001.parquet",
    of: `${header.hash},${ids.hash}`,
    since: snapshotId,
    slug: scores[0].slug,
    snapshotId,
  };
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await proxy?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** What the service answers to the request that the client makes. */
async function ask(operationId: string, parameters: Values, responseContentType = "application/json") {
  const requestBody = operationId === "batchScores" ? JSON.stringify({ slugs: ["unheard-of"] }) : undefined;
  const securities = { authorized: { apiKey: key } };
  const { url, method, headers, body } = build({
    spec,
    operationId,
    parameters,
    requestBody,
    responseContentType,
    securities,
  });
  return call(proxy.port, url, { method, headers, ...(body !== undefined && { body: String(body) }) });
}

/** Those of the needed parameters that an operation has. */
const neededOf = ({ id, parameters }: (typeof operations)[number]) => ({
  ...Object.fromEntries(parameters.flatMap(({ name }) => (name in needed ? [[name, needed[name]]] : []))),
  // No market has this one.
  ...(id === "marketAbsence" && { id: "00000000-0000-4000-8000-000000000000" }),
});

const lists = operations.flatMap((operation) =>
  operation.parameters
    .filter(({ schema }) => schema.pattern?.endsWith(")*$") && schema.pattern.includes("(,"))
    .map(({ name, schema }) => ({ operation, id: operation.id, name, pattern: schema.pattern ?? "" })),
);
// Such a client encodes the slashes in the names of the log's files.
const others = operations.filter(({ id }) => id !== "log");
const answers = others.flatMap((operation) =>
  operation.types.map((type) => ({ operation, id: operation.id, type })),
);

describe("a client made of the description", () => {
  test("finds the parameters that take lists, and the answers with several media types", () => {
    expect(lists.map(({ id, name }) => `${id} ${name}`)).toEqual([
      "marketsHistorical tier",
      "marketFacets by",
      "marketFacets tier",
      "indexParts of",
    ]);
    const several = operations.filter(({ types }) => types.length > 1);
    const tables = ["listScores", "getScore", "scoreHistory", "scoreDimensions", "marketFacets"];
    expect(new Map(several.map(({ id, types }) => [id, types]))).toEqual(
      new Map([
        ...tables.map((id): [string, string[]] => [id, ["application/json", csv]]),
        ["marketsHistorical", ["application/json", ndjson, csv]],
      ]),
    );
  });

  test.each(lists)("$id takes several values of $name in one text", async ({ operation, name, pattern }) => {
    const several: string = { by: "tier,category", tier: "RAW,CAST" }[name] ?? String(needed[name]);
    for (const text of [several, several.slice(0, several.indexOf(","))]) {
      expect(text).toMatch(new RegExp(pattern));
      const answer = await ask(operation.id, { ...neededOf(operation), [name]: text });
      expect([answer.status, answer.status < 400 || answer.text]).toEqual([200, true]);
    }
  });

  test.each(answers)("$id is answered as $type", async ({ operation, type }) => {
    const answer = await ask(operation.id, neededOf(operation), type);
    expect([answer.status, answer.status < 400 || answer.text]).toEqual([200, true]);
    expect(answer.headers["content-type"]?.split(";")[0]).toBe(type.split(";")[0]);
    expect(answer.headers["content-length"]).not.toBe("0");
  });
});
