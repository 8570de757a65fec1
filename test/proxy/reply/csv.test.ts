import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { LabelFacet, ScoreFacet } from "../../../schemas/envelopes.ts";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { csvOf } from "../../../snapshots/read/archive/csv.ts";
import type { Query } from "../../helpers/http/archive-proxy.ts";
import { serveSample } from "../../helpers/http/archive-served.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { call } from "../../helpers/http/proxy-client.ts";
import { guide } from "../../helpers/publish/guides.ts";
import { market } from "../../helpers/publish/records.ts";
import { findProgram } from "../../helpers/servers/programs.ts";

const served = serveSample({ markets: 600, seed: 8 });
const wantsCsv = { accept: "text/csv" };
const get = (query: Query = {}, headers = {}) => served.proxy.get(query, { ...wantsCsv, ...headers });

const columns =
  "id,slug,question,category,composite,tier,resolvedOutcome,resolvedAt,resolutionSource,disputed,topRiskDriver," +
  "flaggedCount,formulaVersion,weightVersion,informed,integrity,oracle,catalyst,design,counterparty";

const hasPython = findProgram("python3") !== undefined;
// Debian's pandas belongs to Debian's Python, which need not be the first one.
const withPandas = ["python3", "/usr/bin/python3"].find(
  (program) => spawnSync(program, ["-c", "import pandas"]).status === 0,
);

function python(script: string, input: Buffer, program = "python3") {
  const { stdout, stderr, status } = spawnSync(program, ["-c", script], {
    input,
    maxBuffer: 64 * 1024 * 1024,
  });
  expect([status, stderr.toString()]).toEqual([0, ""]);
  return JSON.parse(stdout.toString());
}

const readStrictly = `
import csv, io, json, sys
rows = csv.reader(io.TextIOWrapper(sys.stdin.buffer, "utf-8", newline=""), strict=True)
print(json.dumps(list(rows)))`;

/** The fields of a market as a reader of CSV gets them. */
function fieldsOf(row: HistoricalMarket): string[] {
  const plain = columns.split(",").slice(0, 14) as (keyof HistoricalMarket)[];
  const scores = marketDimensionKeys.map((key) => row.dimensions.find((one) => one.key === key)?.score);
  return [...plain.map((name) => row[name]), ...scores].map((value) =>
    typeof value === "string" && "=+-@\t\r".includes(value[0] ?? "x") ? `'${value}` : String(value),
  );
}

/** The pattern with which the interface says that what was added is taken away. */
const added = new RegExp(/^ *`(\^'.*)`\.$/m.exec(guide("schemas/INTERFACE.md"))?.[1] ?? "no pattern", "g");

/** The cells of a spreadsheet that separates by this character, and heeds quotes at the beginning of a cell only. */
function cellsOf(text: string, separator: string): string[] {
  const cells = [""];
  for (let at = 0, start = true, quoted = false; at < text.length; at += 1) {
    const char = text[at]!;
    if (quoted && char === '"' && text[at + 1] === '"') at += 1;
    else if (quoted || (start && char === '"')) {
      quoted = char !== '"' || start;
      start = false;
      if (char === '"') continue;
    } else if ([separator, "\r", "\n"].includes(char)) {
      cells.push("");
      start = true;
      continue;
    }
    start = false;
    cells[cells.length - 1] += char;
  }
  return cells;
}

test("every text is safe for whatever separates cells, and comes back as it was published", async () => {
  const pieces = ["=", "+", "-", "@", "＝", "＋", "－", "＠", "'", '"', ";", ",", "\t", "\r", "\n", "a", " "];
  const texts = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 9 });
  await fc.assert(
    fc.asyncProperty(fc.array(texts, { minLength: 1, maxLength: 6 }), async (given) => {
      const questions = given.map((parts) => parts.join(""));
      const rows = questions.map((question, index) => ({ ...market(index), question }));
      const texts = rows.map((row) => Buffer.from(JSON.stringify(row)));
      const written = await csvOf(texts, feedVersion, async () => {});
      for (const separator of [",", ";", "\t"])
        for (const cell of cellsOf(written, separator)) expect(cell).not.toMatch(/^[=+\-@＝＋－＠]/);
      // The end of a line has two characters, so an empty cell lies between.
      const [cells, perLine] = [cellsOf(written, ","), columns.split(",").length + 1];
      const read = questions.map((_, index) => cells[index * perLine + 2]);
      expect(read.map((text) => text?.replaceAll(added, ""))).toEqual(questions);
    }),
    { numRuns: 150 },
  );
});

test.skipIf(!hasPython)("has the archive's rows as another reader of CSV understands it", async () => {
  for (const query of [{}, { category: "CRYPTO", max_oracle: 80 }, { outcome: "+" }, { outcome: "never" }]) {
    const answer = await get(query);
    expect(answer.headers["content-type"]).toBe("text/csv; charset=utf-8; header=present");
    const [header, ...rows] = python(readStrictly, answer.body);
    const lines = (await served.proxy.get(query, wantsRows)).text.split("\n").slice(0, -1);
    expect(header.join()).toBe(columns);
    expect(rows).toEqual(lines.map((line) => fieldsOf(JSON.parse(line))));
    expect(answer.headers["x-count"]).toBe(String(rows.length));
  }
});

describe("the answers that charts draw, as tables", () => {
  const facets = "/api/v1/markets/facets?by=outcome,composite,month&limit=1000";
  function addresses(): string[] {
    const [slug] = Object.keys(served.proxy.catalog.current()!.manifest.scores.histories);
    const [list, one] = ["/api/v1/scores", `/api/v1/scores/${slug}`];
    return [list, one, `${one}/history`, `${one}/dimensions`, facets];
  }
  const port = () => Number(new URL(served.proxy.address).port);
  const ask = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    call(port(), path, { method, headers: { ...served.proxy.headers, ...headers } });

  /** What a table must have for an answer in JSON, by the names of its columns. */
  function rowsIn(answer: Record<string, object>): Record<string, unknown>[] {
    const { scores, points, dimensions, facets, ...others } = answer;
    if (facets)
      return (Object.entries(facets) as [string, ScoreFacet & LabelFacet][]).flatMap(
        ([facet, { buckets, other }]) => [
          ...buckets.map((row) => ({ facet, kind: "from" in row ? "range" : "value", ...row })),
          ...(other ? [{ facet, kind: "other", ...other }] : []),
        ],
      );
    for (const rows of [scores, points, dimensions])
      if (Array.isArray(rows)) return rows.map((row: object) => ({ ...others, ...row }));
    const { cascade, findings, metadata, ...record } = others;
    return [Object.assign({}, record, dimensions, cascade, findings, metadata)];
  }

  test.skipIf(!hasPython)("have what the JSON has, as another reader of CSV understands it", async () => {
    for (const path of addresses()) {
      const [json, table] = [await ask(path), await ask(path, wantsCsv)];
      expect([path, table.status, table.headers["content-type"]]).toEqual([
        path,
        200,
        "text/csv; charset=utf-8; header=present",
      ]);
      const marked = await ask(path, { accept: "text/csv; bom=present" });
      expect([marked.text, marked.headers.etag === table.headers.etag]).toEqual([
        `\ufeff${table.text}`,
        false,
      ]);
      const [header, ...rows] = python(readStrictly, table.body) as string[][];
      const expected = rowsIn(json.json());
      expect(rows).toEqual(
        expected.map((row) =>
          header!.map((name) => {
            const value = row[name] ?? "";
            return typeof value === "string" && /^[=+\-@]/.test(value) ? `'${value}` : String(value);
          }),
        ),
      );
      const members = new Set(expected.flatMap((row) => Object.keys(row)));
      const envelope = ["count", "days", "evidenceHash", "updatedAt"];
      for (const name of members)
        if (!envelope.includes(name)) expect([path, header]).toEqual([path, expect.arrayContaining([name])]);
    }
    expect((await ask(facets, wantsCsv)).text).toMatch(/^outcome,value,'[-+=@]/m);
  });
});

test.skipIf(!withPandas)(
  "gets the right types in pandas, and labels as they are, as the guide says",
  async () => {
    const [example = ""] = /^import pandas$[\s\S]*?(?=^```)/m.exec(guide("proxy/README.md")) ?? [];
    const script = `
import json, sys
${example.replace('"markets.csv"', "sys.stdin.buffer")}
table = markets
print(json.dumps({
  "outcomes": list(table.resolvedOutcome),
  "types": {name: str(kind) for name, kind in table.dtypes.items()},
  "rows": len(table), "disputed": int(table.disputed.sum()), "composite": int(table.composite.sum()),
  "newest": table.resolvedAt.max().isoformat(), "missing": int(table.isna().sum().sum())}))`;
    const { types, newest, ...told } = python(script, (await get()).body, withPandas);
    const integers = ["composite", "flaggedCount", ...marketDimensionKeys];
    for (const name of columns.split(",")) {
      const type = { disputed: "bool", resolvedAt: "datetime64[ns, UTC]" }[name] ?? "object";
      expect([name, types[name]]).toEqual([name, integers.includes(name) ? "int64" : type]);
    }
    const all = served.markets;
    expect(new Date(newest).toISOString()).toBe(all[0]!.resolvedAt);
    expect(all.some(({ resolvedOutcome }) => /^[=+@-]/.test(resolvedOutcome))).toBe(true);
    expect(told).toEqual({
      outcomes: all.map(({ resolvedOutcome }) => resolvedOutcome),
      rows: all.length,
      disputed: all.filter(({ disputed }) => disputed).length,
      composite: all.reduce((sum, { composite }) => sum + composite, 0),
      missing: 0,
    });
  },
);
