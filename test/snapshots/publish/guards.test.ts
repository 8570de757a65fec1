import { tmpdir } from "node:os";
import { describe, expect, test } from "vitest";
import type { Fault } from "../../../schemas/errors.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import type { Allowance } from "../../../snapshots/publish/guards.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";
import type { Sources } from "../../../snapshots/sources/sources.ts";
import { skipKnown } from "../../helpers/publish/drawn-rows.ts";
import { recordsOf, score, scoreRowsOf, sourcesOf } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";

/** What sources hold: 200 markets and 20 protocols before an edit. */
interface Content {
  markets: HistoricalMarket[];
  protocols: string[];
}
type Edit = (content: Content) => Content;

const content: Content = {
  markets: recordsOf(0, 200),
  protocols: Array.from({ length: 20 }, (_, n) => `protocol-${n}`),
};
const ofMarkets =
  (edit: (markets: HistoricalMarket[]) => HistoricalMarket[]): Edit =>
  ({ markets, protocols }) => ({ markets: edit(markets), protocols });
const some = (count: number, change: (market: HistoricalMarket) => HistoricalMarket, first = 0) =>
  ofMarkets((all) => all.map((one, at) => (at >= first && at < first + count ? change(one) : one)));
const asked = (market: HistoricalMarket) => ({ ...market, question: `${market.question}?` });
const hourBefore = (time: string) => new Date(Date.parse(time) - 3_600_000).toISOString();

/** From the newest on, or from the one at `first`. */
const change = (count: number, first = 0) => some(count, asked, first);
const changeFormula = (count: number) =>
  some(count, (market) => ({ ...asked(market), formulaVersion: "bri-pm-v3" }));
const move = (count: number) =>
  some(count, (market) => ({ ...market, resolvedAt: hourBefore(market.resolvedAt) }));
const remove = (count: number, first = 0) => ofMarkets((markets) => markets.toSpliced(first, count));
const add = (count: number) => ofMarkets((markets) => [...markets, ...recordsOf(1000, 1000 + count)]);
const removeProtocols = (count: number) => (content: Content) => {
  return { ...content, protocols: content.protocols.slice(count) };
};

const published = new Map<string, Buffer>();
const run = (storage: PublishOptions["storage"], { markets, protocols }: Content, choices: Choices = {}) => {
  const { change: otherwise = (sources) => sources, ...more } = choices;
  return publish({
    storage,
    temporaryDirectory: tmpdir(),
    now: () => new Date("2026-03-01T00:00:00.000Z"),
    sources: async () =>
      otherwise({
        ...skipKnown(sourcesOf(markets, 700)),
        scores: async () => scoreRowsOf(protocols.map((slug) => score(slug, 700))),
      }),
    ...more,
  });
};
type Choices = Partial<Pick<PublishOptions, "allow">> & { change?: (sources: Sources) => Sources };

/** A published store, and runs of sources that differ from it by these edits. */
async function editedStore(...edits: readonly Edit[]) {
  if (published.size === 0) await run(memoryStorage(published), content);
  const storage = memoryStorage(new Map(published));
  const edited = edits.reduce((before, edit) => edit(before), content);
  return { run: (choices: Choices = {}) => run(storage, edited, choices) };
}

/** How a run is refused. */
async function refusalOf(running: Promise<unknown>): Promise<Fault> {
  const [end] = await Promise.allSettled([running]);
  expect(end).toMatchObject({ status: "rejected", reason: { code: "GUARD_REFUSED" } });
  return (end as PromiseRejectedResult).reason;
}

const everything = [remove(11), change(11), removeProtocols(2), add(211)];
const allNeeded = { removed: 13, changed: 11, added: 211 };

// What a refusal says, and that the numbers in it pass and no others, is in test/scripts/sessions/guards.txt.
describe("a guard", () => {
  test.for<[string, Edit[], Edit[], Allowance]>([
    ["markets gone", [remove(10)], [remove(11)], { removed: 11 }],
    ["protocols gone", [removeProtocols(1)], [removeProtocols(2)], { removed: 2 }],
    ["both gone", [remove(5), removeProtocols(1)], [remove(5), removeProtocols(2)], { removed: 7 }],
    ["markets changed", [change(10)], [change(11)], { changed: 11 }],
    ["markets moved", [move(10)], [move(11)], { changed: 11 }],
    ["an archive doubled", [add(199)], [add(200)], { added: 200 }],
    // Markets that go and others that come are not changes.
    ["markets replaced", [remove(10), add(10)], [remove(11), add(11)], { removed: 11 }],
    ["some of each", [remove(10), change(10), removeProtocols(1), add(209)], everything, allNeeded],
  ])("lets the most pass that is allowed, and refuses one more: %s", async ([, most, more, needed]) => {
    const passing = await editedStore(...most);
    expect(await passing.run()).toMatchObject({ outcome: "published", commit: 2 });
    const refused = await editedStore(...more);
    expect((await refusalOf(refused.run())).extras.needed).toEqual(needed);
  });

  test("does not count what comes with another formula_version", async () => {
    const free = await editedStore(changeFormula(200));
    expect(await free.run()).toMatchObject({ outcome: "published", commit: 2 });
    const { run } = await editedStore(changeFormula(150), change(11, 150));
    expect((await refusalOf(run())).extras.needed).toEqual({ changed: 11 });
  });

  test("counts the same when every row is rendered again", async () => {
    const otherKind = (opened: Sources) => ({ ...opened, rowDigests: "another kind" });
    const few = await editedStore(change(10), remove(10));
    expect(await few.run({ change: otherKind })).toMatchObject({ outcome: "published" });
    const { run } = await editedStore(...everything);
    expect((await refusalOf(run({ change: otherKind }))).extras.needed).toEqual(allNeeded);
    expect((await run({ change: otherKind, allow: allNeeded })).commit).toBe(2);
  });
});
