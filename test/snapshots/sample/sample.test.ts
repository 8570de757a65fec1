import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { HistoricalMarket, ProtocolScore } from "../../../schemas/records.ts";
import { forgeTiers } from "../../../schemas/versions.ts";
import { type SampleOptions, writeSample } from "../../../snapshots/sample/sample.ts";
import { runCommand } from "../../helpers/publish/commands.ts";
import { readAll, type SourceContent, withSources } from "../../helpers/publish/sources.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
let content: SourceContent;
let records: HistoricalMarket[];
const small = { markets: 3_000, protocols: 60, days: 5, outcomes: 300, seed: 1 };
beforeAll(async () => {
  content = await readAll(await sample("plain", { threads: 3 }));
  records = content.markets.map(({ json }) => HistoricalMarket.parse(JSON.parse(json)));
});

async function sample(name: string, options: Partial<SampleOptions>): Promise<string> {
  const directory = join(folder, name);
  await writeSample({ ...small, ...options, directory });
  return directory;
}

describe("the rows", () => {
  test("are the same in another time zone and language, through the command, whose threads are as many as cores", async () => {
    const out = join(folder, "elsewhere");
    const options = Object.entries(small).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const env = { TZ: "America/New_York", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8" };
    const { code } = await runCommand("sample", ["--out", out, ...options], { from: folder, npm: true, env });
    expect(code).toBe(0);
    expect(await readAll(out)).toEqual(content);
    // With as many threads the files are the same, too, byte for byte.
    const again = await sample("same again", { threads: 3 });
    for (const file of ["markets/part-00000.parquet", "protocol_scores.parquet"])
      expect(await readFile(join(again, file))).toEqual(await readFile(join(folder, "plain", file)));
  });

  test("begin with those of a smaller sample", async () => {
    const { markets } = await readAll(await sample("fewer", { markets: 500 }));
    const ids = new Map(content.markets.map((market) => [market.id, market]));
    expect(markets).toHaveLength(500);
    for (const market of markets) expect(ids.get(market.id)).toEqual(market);
  });

  test("of the day before lack what came since, and half of the week's disputes", async () => {
    const before = await readAll(await sample("a day before", { daysBack: 1 }));
    const held = before.markets.map(({ json }) => HistoricalMarket.parse(JSON.parse(json)));
    const earlier = records.filter(({ resolvedAt }) => resolvedAt < "2025-12-30T00:00:00.000Z");
    expect(held.map(({ id }) => id)).toEqual(earlier.map(({ id }) => id));
    const now = new Map(records.map((market) => [market.id, market]));
    const learnt = held.filter((market) => {
      expect({ ...market, disputed: true }).toEqual({ ...now.get(market.id), disputed: true });
      return market.disputed !== now.get(market.id)?.disputed;
    });
    expect(held.length).toBeLessThan(records.length);
    expect(learnt.length).toBeGreaterThan(0);
    for (const { resolvedAt, disputed } of learnt)
      expect([resolvedAt > "2025-12-23", disputed]).toEqual([true, false]);
    const newestOf = ({ scores }: SourceContent) => scores.map(({ entry }) => entry.updatedAt.slice(0, 10));
    expect(new Set(newestOf(before))).toEqual(new Set(["2025-12-29"]));
    expect(new Set(newestOf(content))).toEqual(new Set(["2025-12-30"]));
  });

  test("of many markets are spread over files, and replaced by those of a smaller sample", async () => {
    const few = { protocols: 1, days: 1, marketsPerFile: 100 };
    const directory = await sample("many", { ...few, markets: 201 });
    expect(await readdir(join(directory, "markets"))).toHaveLength(3);
    expect(await withSources(directory, async ({ marketCount }) => marketCount)).toBe(201);
    await sample("many", { ...few, markets: 10 });
    expect((await readdir(directory)).sort()).toEqual(["markets", "protocol_scores.parquet"]);
    expect(await readdir(join(directory, "markets"))).toEqual(["part-00000.parquet"]);
  });
});

function expectWithin(value: number, least: number, most: number): void {
  expect(value).toBeGreaterThan(least);
  expect(value).toBeLessThan(most);
}

/** How many of the records each value occurs in. */
const tally = (of: (record: HistoricalMarket) => string): Map<string, number> =>
  new Map(
    Map.groupBy(records, of)
      .entries()
      .map(([value, all]) => [value, all.length]),
  );

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

const tierOf = (points: number) => forgeTiers[Math.min(Math.max(Math.floor(points / 100) - 3, 0), 6)];

describe("the markets", () => {
  test("have what filters find hard: skewed categories in several cases, and many odd labels and moments", () => {
    const categories = tally(({ category }) => category);
    expect(Math.max(...categories.values())).toBeGreaterThan(records.length / 6);
    const folded = new Set([...categories.keys()].map((category) => category.toLowerCase()));
    expect(folded.size).toBeLessThanOrEqual(categories.size - 4);
    const outcomes = tally(({ resolvedOutcome }) => resolvedOutcome);
    expect(outcomes.size).toBe(small.outcomes);
    expect(outcomes.get("Yes")! + outcomes.get("No")!).toBeGreaterThan(records.length * 0.7);
    for (const odd of [/\p{Emoji_Presentation}/u, /"/, /'/, /\\/, /[^ -~]/])
      expect([...outcomes.keys()].some((outcome) => odd.test(outcome))).toBe(true);
    const moments = tally(({ resolvedAt }) => resolvedAt);
    expect(Math.max(...moments.values())).toBeGreaterThan(20);
    expect(moments.size).toBeGreaterThan(records.length * 0.7);
  });

  test("have a composite that follows from their dimensions, the tier of its hundred, and counted evidence", () => {
    for (const { composite, tier, dimensions, flaggedCount } of records) {
      expect(tier).toBe(tierOf(composite));
      const risk = dimensions.reduce((sum, { score, weight }) => sum + score * weight, 0);
      expect(Math.abs(composite - (1000 - 7 * risk))).toBeLessThanOrEqual(1);
      expect(dimensions.reduce((sum, { evidence }) => sum + evidence.length, 0)).toBe(flaggedCount);
      expect(dimensions.reduce((sum, { weight }) => sum + weight, 0)).toBeCloseTo(1);
    }
    expect(tally(({ tier }) => tier).size).toBe(forgeTiers.length);
    expectWithin(records.filter(({ disputed }) => disputed).length / records.length, 0.01, 0.05);
  });

  test("are about 3.4 kB of JSON, and compress like real ones", () => {
    const texts = content.markets.map(({ json }) => json);
    expectWithin(mean(texts.map((text) => Buffer.byteLength(text))), 3_000, 3_800);
    const run = texts.slice(0, 32).join("\n");
    expectWithin(Buffer.byteLength(run) / gzipSync(run).length, 6, 10);
  });
});

test("the protocols are as many as asked for, some with dots in their slugs, with the tier of their BRI", async () => {
  const protocols = content.scores.map(({ json }) => ProtocolScore.parse(JSON.parse(json)));
  expect(protocols).toHaveLength(small.protocols);
  expect(protocols.some(({ slug }) => slug.includes("."))).toBe(true);
  for (const { bri, forgeScale, dimensions } of protocols) {
    expect(forgeScale).toBe(tierOf(bri));
    expect(Math.abs(mean(Object.values(dimensions)) - bri / 10)).toBeLessThan(10);
  }
  const many = await readAll(await sample("protocols", { markets: 1, protocols: 400, days: 2 }));
  expect(many.scores).toHaveLength(400);
  expect(many.scores.map(({ entry }) => entry.slug)).toContain("example-lend-v2");
});
