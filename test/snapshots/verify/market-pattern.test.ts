import fc from "fast-check";
import { expect, test } from "vitest";
import type { Market } from "../../../schemas/market.ts";
import { marketOf } from "../../../schemas/records.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { outlineOf } from "../../../snapshots/format/market-line.ts";
import { outliners } from "../../../snapshots/verify/market-pattern.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

const outliner = outliners.get(feedVersion)!;
const [market] = recordsOf(0, 1) as [Market];
const evidence = {
  type: "t",
  label: "l",
  pattern: "p",
  reference: { label: "é", url: "https://example.org/a", kind: "k" },
};
const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ maxLength: 200 }),
  fc.constantFrom("", '\\"', "\n"),
);
const json = fc.jsonValue({ maxDepth: 2, noUnicodeString: false });
const times = fc.date({ min: new Date("0000-01-01"), max: new Date("9999-12-31"), noInvalidDate: true });

const [first, ...others] = market.dimensions;
/** Markets, most of which are right. */
const markets = fc
  .record({
    own: fc.record({
      ...{ question: text, category: text, topRiskDriver: text, resolvedOutcome: text },
      resolvedAt: times.map((time) => time.toISOString()),
    }),
    dimension: fc.record({
      score: fc.integer({ min: -1, max: 101 }),
      weight: fc.oneof(fc.constant(0.5), fc.double()),
      evidence: fc.constantFrom([], [evidence, evidence]),
      references: fc.array(json),
      computation: fc.record({ baseline: fc.double(), raises: fc.array(json), lowers: fc.constant([]) }),
    }),
  })
  .map(({ own, dimension }) => ({ ...market, ...own, dimensions: [{ ...first, ...dimension }, ...others] }));

/** What JSON.parse and the schema read; undefined for what they refuse. */
function judged(line: Buffer) {
  try {
    return outlineOf(marketOf(feedVersion).parse(JSON.parse(line.toString("utf8"))), feedVersion);
  } catch {
    return undefined;
  }
}

const right = Buffer.from(JSON.stringify(market));

test("reads a market as JSON.parse and the schema do", () => {
  const whole = {
    ...market,
    dimensions: market.dimensions.map((one) => ({ ...one, evidence: [evidence, evidence] })),
  };
  for (const one of [market, whole, { ...market, question: 'é "\\ \u2028', category: "Économie" }]) {
    const line = Buffer.from(JSON.stringify(one));
    const outline = outliner(line);
    expect(outline).toEqual(judged(line));
    expect(outline).toBeDefined();
  }
});

test("leaves to them what they refuse, and otherwise reads the same or nothing", () => {
  fc.assert(
    fc.property(markets, (one) => {
      const line = Buffer.from(JSON.stringify(one));
      const outline = outliner(line);
      if (outline) expect(outline).toEqual(judged(line));
    }),
    { numRuns: 500 },
  );
});

test("matches no text that they refuse, whatever byte is another, gone or added", () => {
  const part = fc.constantFrom(
    ...[",", '"', "}", "]", "[", "{", "0", "-", ".5", "e9", "null", "\\", "\\u00e", "\x1f", " "],
  );
  const bytesOf = (added: string | Uint8Array) => (typeof added === "string" ? Buffer.from(added) : added);
  fc.assert(
    fc.property(
      fc.nat(right.length),
      fc.nat(3),
      fc.oneof(part, fc.string({ maxLength: 2 }), fc.uint8Array({ maxLength: 2 })),
      (at, gone, added) => {
        const line = Buffer.concat([right.subarray(0, at), bytesOf(added), right.subarray(at + gone)]);
        const outline = outliner(line);
        if (outline) expect(outline).toEqual(judged(line));
      },
    ),
    { numRuns: 20_000 },
  );
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
  ["id", market.id.toUpperCase()],
])("matches no market whose %s is %s", (name, value) => {
  const line = Buffer.from(JSON.stringify({ ...market, [name]: value }));
  expect([judged(line), outliner(line)]).toEqual([undefined, undefined]);
});
