import { createConfig, lintFromString } from "@redocly/openapi-core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import { errorCodes } from "../../schemas/envelopes.ts";
import { type ErrorCode, errors } from "../../schemas/errors.ts";
import { meanings } from "../../schemas/meanings.ts";
import { describeApi } from "../../schemas/openapi/document.ts";
import { archiveParameters } from "../../schemas/query.ts";
import { archiveQuery, rowsQuery } from "../helpers/archive/query.ts";

const document = describeApi();
const config = await createConfig({ extends: ["recommended"] });

/** What the linter has to say, each with the place it is about. */
async function lint(api: object): Promise<string[]> {
  const problems = await lintFromString({ source: JSON.stringify(api), absoluteRef: "openapi.json", config });
  return problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer}`);
}

const table: [string, Endpoint][] = Object.entries(endpoints);
const described = table.filter(([, { response }]) => response);

const operations = Object.values(document.paths ?? {}).flatMap(({ get, post }) =>
  [get, post].filter((each) => each !== undefined),
);

type Operation = NonNullable<NonNullable<(typeof document)["paths"]>[string]["get"]>;

/** The operation of an endpoint, if there is one; of a WebSocket what is told in an extension. */
function operationOf({ path, method }: Endpoint, api = document): Operation | undefined {
  const item = api.paths?.[path.replaceAll(/[:*](\w+)/g, "{$1}")];
  if (method === "WS") return item?.["x-websocket"];
  return method === "POST" ? item?.post : item?.get;
}

/** Codes that an operation's responses tell of, by status. */
function codesOf({ responses = {} }: Operation): [status: string, codes: string[]][] {
  return Object.entries(responses).map(([status, response]) => [
    status,
    z.array(z.string()).parse(response["x-codes"] ?? []),
  ]);
}

describe("the API's description", () => {
  test("is OpenAPI 3.1 by the linter's recommended rules, examples included", async () => {
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(await lint(document)).toEqual([
      // The service gives no license.
      "info-license #/info",
      // Neither `index` is an id nor `proof` a hash, so no path fits this one and that of a part of the index.
      "no-ambiguous-paths #/paths/~1api~1v1~1markets~1{id}~1proof",
      // OpenAPI knows no sequences of lines.
      "no-unused-components #/components/schemas/ChangeLine",
      // Nor WebSockets: an extension refers to these, where the rule does not look.
      "no-unused-components #/components/schemas/FeedMessage",
      "no-unused-components #/components/schemas/FeedCommand",
      "no-unused-components #/components/examples/UPGRADE_REQUIRED",
      ...["Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol"].map(
        (name) => `no-unused-components #/components/headers/${name}`,
      ),
    ]);
  });

  test("has an operation for every endpoint that answers data, with its plan and its quota", () => {
    expect(described.length).toBeGreaterThan(10);
    const answered = described.filter(([, { method }]) => method !== "WS");
    expect(operations.map(({ operationId }) => operationId).sort()).toEqual(
      answered.map(([id]) => id).sort(),
    );
    for (const [id, endpoint] of described) {
      const operation = operationOf(endpoint)!;
      expect(operation).toMatchObject({
        operationId: id,
        summary: endpoint.summary,
        "x-plan": endpoint.plan,
      });
      expect(operation.description).toContain(endpoint.metered ? "Costs one unit" : "");
      const anonymous =
        operation.security?.length === 0 || operation.security?.some((way) => !Object.keys(way)[0]);
      expect([id, anonymous]).toEqual([id, endpoint.plan === "free"]);
    }
  });

  test("says which way every score points, where it stands", () => {
    const Schema = z.looseObject({ properties: z.record(z.string(), z.looseObject({})) });
    const described = (name: string, field: string) =>
      Schema.parse(document.components?.schemas?.[name]).properties[field]?.description;
    const { bri, tier, confidence, delta, composite, topRiskDriver } = meanings;
    for (const name of ["ScoreListEntry", "ScorePoint", "ProtocolScore"])
      for (const [field, { meaning }] of Object.entries({ bri, forgeScale: tier, confidence, delta }))
        expect([name, field, described(name, field)]).toEqual([name, field, meaning]);
    for (const [field, { meaning }] of Object.entries({ composite, tier, topRiskDriver }))
      expect(described("HistoricalMarket", field)).toBe(meaning);
    const { protocolDimension, marketDimension } = meanings;
    expect(described("ProtocolScore", "dimensions")).toContain(protocolDimension.meaning);
    expect(described("HistoricalMarket", "dimensions")).toContain(marketDimension.meaning);
    expect(described("MarketDimension", "score")).toBe(marketDimension.meaning);
    for (const { meaning } of Object.values(meanings)) expect(document.info.description).toContain(meaning);
  });

  // test/schemas/openapi-examples.test.ts makes one of them, and asks for every media type. openapi-typescript 7.13.0
  // with openapi-fetch 0.17.0 and @hey-api/openapi-ts 0.99.0 were tried by hand, since they need TypeScript 5.
  describe("suits generators of clients:", () => {
    test("a schema has one type or none, and no alternatives that have no names", () => {
      const faults: string[] = [];
      const look = (at: string, node: unknown): void => {
        if (typeof node !== "object" || node === null) return;
        const { anyOf, allOf, type, format, pattern, additionalProperties, explode } = node as Record<
          string,
          unknown
        >;
        const several = Array.isArray(type) && (type.length > 2 || type[1] !== "null");
        const both = format === "date-time" && pattern !== undefined;
        if (anyOf || allOf || several || both || type === "null" || explode !== undefined) faults.push(at);
        if (additionalProperties === false && !/BatchRequest|FeedCommand/.test(at)) faults.push(at);
        for (const [name, next] of Object.entries(node))
          if (!["example", "examples"].includes(name)) look(`${at}/${name}`, next);
      };
      look("", document);
      expect(faults).toEqual([]);
      const { supersededAt } = z
        .looseObject({ properties: z.looseObject({ snapshots: z.any() }) })
        .parse(document.components?.schemas?.SnapshotList).properties.snapshots.items.properties;
      expect(supersededAt).toMatchObject({ type: ["string", "null"], format: "date-time" });
      const of = Object.fromEntries(
        (operationOf(endpoints.marketFacets)!.parameters ?? []).map((each) =>
          "name" in each ? [each.name, each.schema] : [],
        ),
      ) as Record<string, { type: string; pattern: string }>;
      const hash = "0".repeat(64);
      // What takes a list takes it as one text.
      for (const [name, right, wrong] of [
        ["asOf", [hash, "2026-02-02", "2026-02-02T08:21:59Z"], [`0${hash}`, "yesterday", ""]],
        ["tier", ["RAW", "RAW,CAST"], ["", "RAW,", "RAWCAST", "WOOD", "RAW,WOOD", "RAW CAST"]],
        ["by", ["tier", "tier,category"], ["", "tier,", "week"]],
      ] as const) {
        const schema = of[name]!;
        expect(schema.type).toBe("string");
        for (const text of right) expect(text).toMatch(new RegExp(schema.pattern));
        for (const text of wrong) expect(text).not.toMatch(new RegExp(schema.pattern));
      }
    });

    test("no schema refers to itself", () => {
      const named = new Map(Object.entries(document.components?.schemas ?? {}));
      const reached = (name: string, seen: ReadonlySet<string>): void => {
        expect(seen).not.toContain(name);
        const text = JSON.stringify(named.get(name));
        for (const [, next = ""] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g))
          reached(next, new Set([...seen, name]));
      };
      expect(named.size).toBeGreaterThan(20);
      for (const name of named.keys()) reached(name, new Set());
    });
  });

  test("has every parameter of the archive with the bounds it is held to, and the one of the feed", () => {
    const parameters = operationOf(endpoints.marketsHistorical)?.parameters ?? [];
    expect(parameters.map((parameter) => "name" in parameter && parameter.name)).toEqual([
      ...archiveParameters.map(({ name }) => name),
      "asOf",
    ]);
    const description = "Bound on the composite score: higher is safer.";
    expect(parameters).toContainEqual({
      in: "query",
      name: "min_composite",
      description,
      schema: { type: "integer", minimum: 300, maximum: 1000, description },
    });
    expect(operationOf(endpoints.scoreFeed)?.parameters).toEqual([
      expect.objectContaining({ name: "since", in: "query" }),
    ]);
  });

  test("lets the archive's parameters have the values that are not refused", () => {
    const texts = [
      ..."0 1 100 101 299 300 500 501 1000 1001 2147483648 -1 1.5".split(" "),
      ..."2026-02-02 2026-02-02T08:21:59Z 2026-02-02T08:21:59.2+02:00 2026-2-2 2026-02-02T24:00:00Z".split(
        " ",
      ),
      ..."RAW raw RAW,CAST RAW,x true TRUE x".split(" "),
    ];
    const refused = (name: string, value: string) => {
      try {
        if (name === "skip") rowsQuery(new URLSearchParams({ cursor: "x", skip: value }).toString());
        else archiveQuery(new URLSearchParams({ [name]: value }).toString());
        return false;
      } catch {
        return true;
      }
    };
    for (const { name, type, schema } of archiveParameters) {
      for (const text of texts) {
        const boolean = type === "boolean" && ["true", "false"].includes(text);
        const scalar = type.startsWith("integer") ? Number(text) : boolean ? text === "true" : text;
        const value = name === "tier" ? text.split(",") : scalar;
        expect([name, text, schema.safeParse(value).success]).toEqual([name, text, !refused(name, text)]);
      }
    }
  });

  test("tells every error code where it can occur, under its status", () => {
    const told = new Set<string>();
    for (const [, endpoint] of described) {
      for (const [status, codes] of codesOf(operationOf(endpoint)!)) {
        expect(Number(status) < 400).toBe(codes.length === 0);
        for (const code of codes) {
          told.add(code);
          expect(errors[code as ErrorCode].status).toBe(Number(status));
        }
      }
    }
    // The first is about methods that an address lacks, the second about an endpoint that is only announced. Delta
    // Sharing is described by its protocol.
    const sharing = ["INVALID_FILE_ADDRESS", "SHARE_NOT_FOUND", "VERSION_NOT_FOUND"];
    const elsewhere = ["METHOD_NOT_ALLOWED", "COMING_SOON", ...sharing];
    expect([...told, ...elsewhere].sort()).toEqual(errorCodes.sort());
    const { Problem } = document.components?.schemas ?? {};
    for (const code of errorCodes) expect(JSON.stringify(Problem)).toMatch(new RegExp(`[ "]${code} \\(`));
    for (const code of ["NOT_FOUND", "METHOD_NOT_ALLOWED"]) expect(document.info.description).toContain(code);
  });

  test("of an announced endpoint tells that it answers 501, and nothing of what it will answer", () => {
    const row = { ...endpoints.scoreHistory, availability: "announced" } as const;
    const operation = operationOf(row, describeApi({ ...endpoints, scoreHistory: row }))!;
    expect(operation.description).toContain("answers 501 `COMING_SOON`");
    const told = codesOf(operation).flatMap(([status, codes]) => codes.map((code) => `${status} ${code}`));
    expect(told).toEqual([
      ...["400 BAD_REQUEST", "400 CONFLICTING_CREDENTIALS", "401 INVALID_API_KEY", "404 NOT_FOUND"],
      ...["408 REQUEST_TIMEOUT", "431 HEADERS_TOO_LARGE", "500 INTERNAL", "501 COMING_SOON"],
      "503 SNAPSHOT_UNAVAILABLE",
    ]);
    expect(Object.keys(operation.responses ?? {})).not.toContain("200");
  });

  test("holds no key, and names no other site but where an example does", () => {
    const text = JSON.stringify(document);
    expect(text).not.toMatch(/prs_live_[0-9A-Za-z]{38}/);
    const { components: _, paths: __, ...rest } = document;
    expect(JSON.stringify(rest)).not.toMatch(/https?:/);
    expect(document.servers).toEqual([{ url: "/" }]);
    for (const [contact, named] of [
      ["https://example.org/keys", { url: "https://example.org/keys" }],
      ["mailto:keys@example.org", { email: "keys@example.org" }],
      [undefined, undefined],
    ] as const)
      expect(describeApi(endpoints, { contact }).info.contact).toEqual(named);
    for (const url of [
      "https://scores.example.org",
      "https://example.org/scores",
      "https://example.org/scores/",
    ])
      expect(describeApi(endpoints, { apiUrl: new URL(url) }).servers).toEqual([
        { url: url.replace(/\/$/, "") },
      ]);
  });
});
