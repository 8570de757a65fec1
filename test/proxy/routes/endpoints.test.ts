import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Endpoint, type EndpointId, endpoints } from "../../../schemas/endpoints.ts";
import { csv, ndjson } from "../../../schemas/media.ts";
import { plans } from "../../../schemas/plans.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { handshake, takenUp } from "../../helpers/http/live-feed.ts";
import { startTestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, outcome, problemOf } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { market, marketsOf, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// What is true of the answers of every endpoint, by its row of the endpoint table. Which methods an address answers,
// and that HEAD has the headers of GET, is in test/attack/methods.test.ts.

const { id } = market(7);
const absent = "00000000-0000-4000-9000-000000000000";
const index = "/api/v1/markets/index";

/** A request that is answered, and the media type that it asks for where the endpoint has several. */
type Row = [id: EndpointId, target: string, accept?: string | undefined];
const rows: Row[] = [
  ["listScores", "/api/v1/scores"],
  ["listScores", "/api/v1/scores", csv],
  ["getScore", "/api/v1/scores/curve.fi"],
  ["getScore", "/api/v1/scores/curve.fi", csv],
  ["batchScores", "/api/v1/scores/batch"],
  ["scoreHistory", "/api/v1/scores/aave/history"],
  ["scoreHistory", "/api/v1/scores/aave/history", csv],
  ["scoreDimensions", "/api/v1/scores/aave/dimensions"],
  ["scoreDimensions", "/api/v1/scores/aave/dimensions", csv],
  ["scoreProof", "/api/v1/scores/aave/proof"],
  ["scoreProof", "/api/v1/scores/aave/proof", "text/plain"],
  ["tiers", "/api/v1/tiers"],
  ["marketsHistorical", "/api/v1/markets/historical?pageSize=20"],
  ["marketsHistorical", "/api/v1/markets/historical?category=crypto", ndjson],
  ["marketsHistorical", "/api/v1/markets/historical?category=crypto", csv],
  ["marketFacets", "/api/v1/markets/facets?by=tier"],
  ["marketFacets", "/api/v1/markets/facets?by=tier", csv],
  ["marketChanges", "/api/v1/markets/changes?since=SNAPSHOT"],
  ["listExports", "/api/v1/markets/exports"],
  ["exportFile", "/api/v1/markets/exports/NEWEST/markets-0001.parquet"],
  ["marketIndex", index],
  ["indexParts", `${index}/sections?of=HASH`],
  ["marketAbsence", `${index}/absence?id=${absent}`],
  ["indexPart", `${index}/HASH`],
  ["getMarket", `/api/v1/markets/${id}`],
  ["marketProof", `/api/v1/markets/${id}/proof`],
  ["marketProof", `/api/v1/markets/${id}/proof`, "text/plain"],
  ["listSnapshots", "/api/v1/snapshots"],
  ["status", "/api/v1/status"],
  ["checkpoint", "/api/v1/checkpoint"],
  ["log", "/api/v1/log/tile/0/000.p/2"],
  ["usage", "/api/v1/usage"],
  ["healthz", "/healthz"],
  ["readyz", "/readyz"],
];
const named = rows.map(([endpoint, target, accept]): [string, Row] => [
  `${endpoint}${accept ? ` as ${accept}` : ""}`,
  [endpoint, target, accept],
]);

const folder = testFolder();
const proxy = serveTestProxy({ empty: true });
let [developer, aegis] = ["", ""];
/** What stands for the words in capitals. */
const known: Record<string, string> = { HASH: "0".repeat(64) };
beforeAll(async () => {
  const signing = { key: testKey() };
  for (const [place, name] of ["SNAPSHOT", "NEWEST"].entries())
    known[name] = (
      await publishRecords(proxy.storage, marketsOf(0, 40 + place), 700, { signing })
    ).snapshotId;
  await exportNewest(proxy.storage, folder, { signing });
  await takenUp(proxy, known.NEWEST!);
  developer = await proxy.issue({ plan: "developer", owner: "dev", quota: 1_000_000 });
  aegis = await proxy.issue({ quota: 1_000_000 });
  known.HASH = (await proxy.as(aegis)(index)).json().segments[0].header.hash;
});

function ask(
  [endpoint, target, accept = "application/json"]: Row,
  key: string | undefined,
  headers: Record<string, string> = {},
  { search = "", method = "", by = proxy } = {},
): Promise<Answer> {
  const { body }: Endpoint = endpoints[endpoint];
  const all = {
    accept,
    ...(key && bearer(key)),
    ...(body && { "content-type": "application/json" }),
    ...headers,
  };
  const place = target.replace(/[A-Z]{4,}/g, (name) => known[name]!);
  const searched = search && `${place}${place.includes("?") ? "&" : "?"}${search}`;
  return by.get(searched || place, {
    method: method || endpoints[endpoint].method,
    headers: all,
    ...(body && { body: '{"slugs":["aave"]}' }),
  });
}
/** Header fields of a correct handshake. */
const upgrade = Object.entries(handshake)
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join("");
const rowOf = (endpoint: EndpointId): Endpoint => endpoints[endpoint];
function ruleOf(endpoint: EndpointId, keyed: boolean, tagged: boolean): string {
  if (endpoint === "checkpoint") return "public, max-age=5";
  if (endpoint === "log") return "public, max-age=31536000, immutable";
  if (endpoint === "indexPart" || endpoint === "indexParts") return "private, max-age=31536000, immutable";
  const open = endpoint === "listScores" || endpoint === "getScore";
  if (open && !keyed) return "private, max-age=60, stale-while-revalidate=600";
  return tagged ? "private, no-cache" : "no-store";
}
const rate = ({ headers }: Answer) => Object.keys(headers).filter((name) => name.includes("ratelimit"));

test("every endpoint that answers data over HTTP is asked", () => {
  const answering = Object.entries<Endpoint>(endpoints).filter(
    ([, { response, method }]) => response && method !== "WS",
  );
  const ids = answering.map(([each]) => each).filter((each) => each !== "openapi");
  expect([...new Set<string>(rows.map(([each]) => each))].sort()).toEqual(ids.sort());
});

describe.each(named)("%s", (_name, row) => {
  const { plan, metered, credentials, response, media, path } = rowOf(row[0]);
  const negotiated = rows.some(([each, , accept]) => each === row[0] && accept !== undefined);

  test("is for its plan and those above, and has the shape of its schema", async () => {
    const keys = { free: undefined, developer, aegis };
    for (const [own, key] of Object.entries(keys) as ["free" | "developer" | "aegis", string | undefined][]) {
      const answer = await ask(row, key);
      if (plans[own].rank >= plans[plan].rank) {
        expect([own, answer.status]).toEqual([own, 200]);
        if (!row[2] && !media) response!.parse(answer.json());
        continue;
      }
      const refused = plan === "aegis" ? "403 AEGIS_REQUIRED" : "403 DEVELOPER_REQUIRED";
      expect([own, outcome(answer)]).toEqual([own, key ? refused : "401 API_KEY_REQUIRED"]);
      expect([rate(answer), answer.headers["www-authenticate"]?.includes("Bearer")]).toEqual([
        [],
        key ? undefined : true,
      ]);
    }
    const wrong = await ask(row, "wrong");
    expect(outcome(wrong)).toBe(credentials === "checked" ? "401 INVALID_API_KEY" : "200");
    // A held tag lets nobody past that.
    const { etag = "*" } = (await ask(row, aegis)).headers;
    const held = await ask(row, undefined, { "if-none-match": etag });
    if (plan !== "free") expect(outcome(held)).toBe("401 API_KEY_REQUIRED");
  });

  test("takes a unit if it is metered, also when it is refused, and gives it back for a held tag", async () => {
    const key = await proxy.issue({ owner: `asks ${row.join()}`, quota: 5 });
    const unit = metered ? 1 : 0;
    const costs = async (headersSent: Record<string, string>, search = "") => {
      const before = await proxy.left(key);
      const { status, headers } = await ask(row, key, headersSent, { search });
      return [status, before - (await proxy.left(key)), headers["x-ratelimit-remaining"]];
    };
    const told = (left: number) => (metered ? String(left) : undefined);
    const first = await ask(row, key);
    expect([first.status, first.headers["x-ratelimit-limit"]]).toEqual([200, told(5)]);
    const { etag } = first.headers;
    if (etag) {
      expect(await costs({ "if-none-match": etag })).toEqual([304, 0, told(4)]);
      expect(await costs({ "if-none-match": "*" })).toEqual([304, unit, told(3)]);
    } else expect(await costs({ "if-none-match": "*" })).toEqual([200, unit, told(3)]);
    const strict = path.startsWith("/api/");
    expect(await costs({}, "x=1")).toEqual([strict ? 400 : 200, unit, told(2)]);
    const { parameter } = strict
      ? problemOf(await ask(row, aegis, {}, { search: "x=1" }))
      : { parameter: "x" };
    expect(parameter).toBe("x");
    for (let left = await proxy.left(key); metered && left > 0; left -= 1) await ask(row, key);
    const spent = await ask(row, key);
    expect(outcome(spent)).toBe(metered ? "429 QUOTA_EXCEEDED" : "200");
    if (metered)
      expect(spent.headers).toMatchObject({ "retry-after": "43200", "x-ratelimit-remaining": "0" });
  });

  // Headers of all answers are checked in test/proxy/corpus.test.ts, and which there are in openapi-examples.test.ts.
  test("has the headers that caches and readers need", async () => {
    for (const key of plan === "free" ? [undefined, aegis] : [aegis]) {
      const { headers, body } = await ask(row, key);
      const type = headers["content-type"]?.split(";")[0];
      expect(type).toBe(row[2] ?? media?.split(";")[0] ?? "application/json");
      expect(headers).toMatchObject({
        "x-snapshot-id": known.NEWEST,
        vary: `Accept-Encoding, Authorization, X-Api-Key${negotiated ? ", Accept" : ""}`,
      });
      if (headers["x-count"] === undefined) expect(headers["content-length"]).toBe(String(body.length));
      const rule = ruleOf(row[0], key !== undefined, headers.etag !== undefined);
      expect([row, headers["cache-control"]]).toEqual([row, rule]);
    }
  });

  test("is the same in gzip, and 304 for whoever holds it, by any spelling of its tag", async () => {
    const plain = await ask(row, aegis, { "accept-encoding": "identity" });
    const zipped = await ask(row, aegis, { "accept-encoding": "gzip" });
    expect(zipped.text).toBe(plain.text);
    expect(plain.headers).not.toHaveProperty("content-encoding");
    const compressed = zipped.headers["content-encoding"] === "gzip";
    const bytes = ["exportFile", "indexPart", "indexParts", "log", "checkpoint"].includes(row[0]);
    expect([row, compressed]).toEqual([row, !bytes && zipped.text.length > 0]);
    for (const [coding, answer] of [
      ["identity", plain],
      ["gzip", zipped],
    ] as const) {
      const { etag } = answer.headers;
      if (!etag) continue;
      expect(etag).toMatch(/^(W\/)?"[\w-]+"$/);
      const opaque = etag.replace(/^W\//, "");
      const asked = (tag: string) => ask(row, aegis, { "accept-encoding": coding, "if-none-match": tag });
      for (const tag of [etag, opaque, `W/${opaque}`, `"other", ${etag}`, `W/"x",${opaque}`]) {
        const held = await asked(tag);
        expect([tag, held.status, held.body.length, held.headers.etag]).toEqual([tag, 304, 0, etag]);
        expect(held.headers).not.toHaveProperty("content-encoding");
        for (const name of ["x-count", "x-total-count", "x-cursor"])
          expect(held.headers).not.toHaveProperty(name);
      }
      for (const tag of ['"other"', opaque.slice(1, -1), `${opaque.slice(0, -2)}"`])
        expect([tag, (await asked(tag)).status]).toEqual([tag, 200]);
    }
    // A strong tag is of one coding, and held where that is acceptable.
    const { etag } = plain.headers;
    if (!etag) return;
    expect(etag === zipped.headers.etag).toBe(etag.startsWith("W/") || !compressed);
    const held = async (coding: string, tag = "") =>
      (await ask(row, aegis, { "accept-encoding": coding, "if-none-match": tag })).status;
    const strange = etag === zipped.headers.etag ? 304 : 200;
    expect([await held("gzip", etag), await held("identity", zipped.headers.etag)]).toEqual([304, strange]);
    // Nor is it of another media type.
    for (const other of rows.filter(([, target, accept]) => target === row[1] && accept !== row[2])) {
      const answer = await ask(other, aegis, { "if-none-match": etag });
      expect([other, answer.status, answer.headers.etag === etag]).toEqual([other, 200, false]);
    }
  });
});

test("without a snapshot what needs one is 503, for no unit", async () => {
  await using by = await startTestProxy({ empty: true });
  const key = await by.issue({ quota: 1000 });
  const without = ["usage", "healthz", "log", "checkpoint"];
  for (const row of rows) {
    const answer = await ask(row, key, {}, { by });
    const told = [row, outcome(answer), answer.headers["retry-after"]];
    if (!without.includes(row[0])) expect(told).toEqual([row, "503 SNAPSHOT_UNAVAILABLE", "5"]);
    if (rowOf(row[0]).metered) expect([row, answer.headers["x-ratelimit-remaining"]]).toEqual([row, "1000"]);
  }
  expect(await by.left(key)).toBe(1000);
  expect(problemOf(await by.get("/api/v1/status")).detail).toMatch(/^No snapshot is loaded yet/);
  for (const [path, expected] of [
    ["/api/v1/scores?x=1", "400 INVALID_PARAMETER"],
    ["/api/v1/scores/UPPER", "404 PROTOCOL_NOT_FOUND"],
    ["/api/v1/scores/UPPER/history", "404 PROTOCOL_NOT_FOUND"],
    ["/healthz", "200"],
  ] as const)
    expect([path, outcome(await by.get(path, { headers: bearer(key) }))]).toEqual([path, expected]);
  const headers = { "content-type": "application/json" };
  const batch = await by.get("/api/v1/scores/batch", { method: "POST", headers, body: "{}" });
  expect(outcome(batch)).toBe("400 INVALID_BODY");
});

test.each([
  ["batchScores", "POST", "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n{"],
  ["scoreFeed", "GET", `${upgrade}\r\nx`],
] as const)(
  "%s is 501 behind its methods and credentials, for no unit, while it is announced",
  async (endpoint, method, rest) => {
    const row = rowOf(endpoint);
    const of = async (key?: string, search = "", how: Record<string, string> = {}, by: string = method) =>
      outcome(
        await proxy.get(row.path + search, { method: by, headers: { ...(key && bearer(key)), ...how } }),
      );
    const before = await proxy.left(aegis);
    row.availability = "announced";
    onTestFinished(() => {
      row.availability = "available";
    });
    for (const key of [undefined, developer, aegis])
      for (const search of ["", "?x=1"]) expect(await of(key, search)).toBe("501 COMING_SOON");
    expect(await of(undefined, "", {}, "DELETE")).toBe("405 METHOD_NOT_ALLOWED");
    expect(await of(undefined, "", {}, "OPTIONS")).toBe("204");
    expect(await of("wrong")).toBe("401 INVALID_API_KEY");
    expect(await of(aegis, "", { "x-api-key": developer })).toBe("400 CONFLICTING_CREDENTIALS");
    const head = `${method} ${row.path} HTTP/1.1\r\nHost: x\r\nx-api-key: ${aegis}\r\n`;
    expect(await proxy.raw(head + rest)).toMatch(
      /^HTTP\/1\.1 501 .*\r\nConnection: close\r\n.*"code":"COMING_SOON"/s,
    );
    expect(await proxy.left(aegis)).toBe(before);
    expect(proxy.logged.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  },
);
