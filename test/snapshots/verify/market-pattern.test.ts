import { expect, test } from "vitest";
import type { Market } from "../../../schemas/market.ts";
import { marketOf } from "../../../schemas/records.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { outlineOf } from "../../../snapshots/format/market-line.ts";
import { outliners } from "../../../snapshots/verify/market-pattern.ts";
import { recordsOf } from "../../helpers/publish/records.ts";
import { alter, alteredBytes, alteredText } from "../../helpers/store/altered.ts";
import { drawing } from "../../helpers/store/drawing.ts";

const outliner = outliners.get(feedVersion)!;
const [plain] = recordsOf(0, 1) as [Market];
const evidence = {
  type: "t",
  label: "l",
  pattern: "p",
  reference: { label: "é", url: "https://example.org/a", kind: "k" },
};
const computation = { baseline: -0.5, raises: [1, { a: ["x", null] }, true], lowers: [[]] };
/** Short, so that what is altered is seldom in a text. */
const market = {
  ...{ ...plain, question: 'é "\\ \u2028', category: "Économie" },
  dimensions: plain.dimensions.map((one, place) => ({
    ...{ ...one, description: "" },
    ...(place === 0 && { evidence: [evidence, evidence], references: [{ a: 1 }], computation }),
  })),
};

/** What JSON.parse and the schema read; undefined for what they refuse. */
function judged(line: Buffer) {
  try {
    return outlineOf(marketOf(feedVersion).parse(JSON.parse(line.toString("utf8"))), feedVersion);
  } catch {
    return undefined;
  }
}

test("reads a market as JSON.parse and the schema do", () => {
  for (const one of [plain, market]) {
    const line = Buffer.from(JSON.stringify(one));
    expect(outliner(line)).toEqual(judged(line));
    expect(judged(line)).toBeDefined();
  }
});

test("reads the same or nothing of one that is altered in any place", () => {
  const draw = drawing(Number(process.env.SEED ?? 1));
  const parts = [" ", ...', " } ] [ { 0 - . .5 e9 null \\ \\u00e \x1f'.split(" ")];
  const text = JSON.stringify(market);
  const ways = [
    () => alteredText(text, draw),
    () => alteredBytes(Buffer.from(text), draw),
    () => {
      const other = structuredClone(market);
      alter(other, draw);
      return JSON.stringify(other);
    },
  ];
  let read = 0;
  for (let n = 0; n < 20_000; n += 1) {
    const at = draw(text.length);
    const part = parts[draw(parts.length)]!;
    const line = Buffer.from(
      n % 4 > 0 ? text.slice(0, at) + part + text.slice(at + draw(3)) : ways[draw(3)]!(),
    );
    const outline = outliner(line);
    if (!outline) continue;
    read += 1;
    expect(outline, String(line)).toEqual(judged(line));
  }
  expect(read).toBeGreaterThan(1_000);
});

test.each([
  ["composite", 299],
  ["composite", 1001],
  ["composite", 500.5],
  ["flaggedCount", -1],
  ["resolvedAt", "2026-02-29T00:00:00.000Z"],
  ["resolvedAt", "2026-04-31T00:00:00.000Z"],
  ["resolvedAt", "2026-01-01T24:00:00.000Z"],
  ["resolvedAt", "2026-01-01T00:00:00Z"],
  ["resolutionSource", "ftp://example.org"],
  ["slug", ""],
  ["category", "é".repeat(129)],
  ["formulaVersion", "v".repeat(257)],
  ["status", "open"],
  ["tier", "GOLD"],
  ["id", plain.id.toUpperCase()],
])("matches no market whose %s is %s", (name, value) => {
  const line = Buffer.from(JSON.stringify({ ...plain, [name]: value }));
  expect([judged(line), outliner(line)]).toEqual([undefined, undefined]);
});
