import { beforeAll, describe, expect, test } from "vitest";
import { searchBounds, timePattern } from "../../../schemas/filters.ts";
import { archiveParameters, asOfParameter } from "../../../schemas/query.ts";
import { maxLabelBytes } from "../../../schemas/shapes.ts";
import { forgeTiers } from "../../../schemas/versions.ts";
import { timeOf } from "../../../snapshots/read/parameters.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { until } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { market, marketsOf, publishRecords } from "../../helpers/publish/records.ts";

const kibibyte = 1024;
/** A label that takes as many bytes as one may, and most in a cursor. */
const longest = "%".repeat(maxLabelBytes);
const tier = forgeTiers[0];
/** A word that takes four bytes a character. */
const longestWord = "\u{10428}".repeat(searchBounds.characters);
/** Every filter that can be given at once finds these two, and none can be spelled longer. */
const found = [40, 41].map((index) => {
  const { dimensions, ...rest } = market(index);
  return {
    ...rest,
    category: longest,
    resolvedOutcome: longest,
    formulaVersion: longest,
    weightVersion: longest,
    question: longestWord,
    tier,
    disputed: false,
    composite: 1000,
    resolvedAt: "2025-12-31T23:59:59.999Z",
    dimensions: dimensions.map((dimension) => ({ ...dimension, score: 100 })),
  };
});

const proxy = serveTestProxy({ empty: true });
let aegis: string;
beforeAll(async () => {
  await publishRecords(proxy.storage, [...marketsOf(0, 40), ...found]);
  await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
  aegis = await proxy.issue({ quota: 1_000_000 });
});

test("times are of days that there are, in the schema as in the service", () => {
  const two = (number: number) => String(number).padStart(2, "0");
  const wrong: string[] = [];
  for (const year of [1900, 2000, 2023, 2024, 2100])
    for (let month = 0; month <= 13; month += 1)
      for (let day = 0; day <= 32; day += 1)
        for (const clock of ["", "T23:59:59.9-23:59"]) {
          const date = new Date(Date.UTC(year, month - 1, day));
          const real = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
          const text = `${year}-${two(month)}-${two(day)}${clock}`;
          const { success } = asOfParameter.schema.safeParse(text);
          const taken = timePattern.test(text);
          if (success !== real || taken !== real) wrong.push(text);
          if (real && !clock) expect(timeOf("from", text, 0)).toBe(date.getTime());
        }
  expect(wrong).toEqual([]);
});

describe("the longest filters that are accepted", () => {
  const values: Record<string, string> = {
    category: longest,
    outcome: longest,
    formula_version: longest,
    weight_version: longest,
    tier: forgeTiers.join(","),
    disputed: "false",
    q: longestWord,
  };
  const longestOf = (name: string) => {
    if (name === "from" || name === "to") return "2025-12-31T23:59:59.999+00:00";
    return values[name] ?? (name.endsWith("_composite") ? "1000" : "100");
  };
  const filters = archiveParameters
    .map(({ name }) => name)
    .filter((name) => !["page", "pageSize", "cursor", "skip"].includes(name))
    .map((name): [string, string] => [name, longestOf(name)]);
  const target = (extra: Record<string, string> = {}) =>
    `/api/v1/markets/historical?${new URLSearchParams([...filters, ...Object.entries(extra)])}`;
  /** An answer's head, byte for byte. */
  const headOf = async (method: string, path: string, fields: Record<string, string> = {}) => {
    const all = { Host: "x", Connection: "close", "x-api-key": aegis, ...fields };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    const [head = ""] = (await proxy.raw(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`)).split(
      "\r\n\r\n",
    );
    return head;
  };

  test("make no head of an answer longer than 8 KiB, and cursors that go on", async () => {
    const first = await proxy.as(aegis)(target({ pageSize: "1" }));
    const { total, nextCursor } = first.json();
    expect(total).toBe(2);
    // With skip the cursor of rows names a market, too.
    const rest = target({ cursor: nextCursor, skip: "0" });
    for (const [method, path, fields] of [
      ["GET", target({ pageSize: "1" }), {}],
      ["GET", rest, wantsRows],
      ["HEAD", rest, wantsRows],
      ["GET", rest, { ...wantsRows, "If-None-Match": "*" }],
    ] as const) {
      const head = await headOf(method, path, fields);
      expect(head).toMatch(/^HTTP\/1\.1 (200|304) /);
      expect(head.length).toBeLessThan(8 * kibibyte);
    }
    const cursor = /^X-Cursor: (.*)$/m.exec(await headOf("HEAD", rest, wantsRows))?.[1]?.trim() ?? "";
    expect(cursor.length).toBeGreaterThan(4 * 4 * maxLabelBytes);
    for (const path of [target({ cursor }), `/api/v1/markets/historical?cursor=${cursor}`])
      expect((await proxy.as(aegis)(path)).json()).toMatchObject({ total: 2, count: 1 });
  });
});
