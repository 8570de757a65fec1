import { cp } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { addMarkets } from "../helpers/archive/odd-markets.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { writePlainSources } from "../helpers/publish/sample-sources.ts";
import { describeStores } from "../helpers/store/stores.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const sources = join(folder, "sources");
const run = (args: string, how: Partial<Parameters<typeof snapshotCommand>[1]> = {}) =>
  snapshotCommand(args.split(" "), { from: folder, ...how });

// What a publish says is in sessions/publish.txt.

beforeAll(() => writePlainSources(sources, 120));

describeStores("to %s, a clock", ({ folder: own, newLocation, environment }) => {
  const hour = 3_600_000;
  afterEach(() => vi.useRealTimers());
  /** Publishes with this machine's clock so many hours ahead. A day ahead, it would remove what other tests left. */
  function publishAhead(hours: number, from: string, location: string) {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + hours * hour });
    return run(`publish --sources ${from} --store ${location}`, { env: { ...environment } }).finally(() =>
      vi.useRealTimers(),
    );
  }
  /** The times in a warning, in hours from now. */
  const timesIn = (text: string, pattern: RegExp) =>
    pattern
      .exec(text)
      ?.slice(1)
      .map((time) => Math.round((Date.parse(time) - Date.now()) / hour) + 0);

  test("that is ahead, or behind what the sources say, is warned of with what both clocks say", async () => {
    const location = newLocation();
    const gets =
      /^Warning: commit \d gets the time (\S+), .* store's clock says (\S+), and this machine's (\S+)$/m;
    const first = await publishAhead(2, "sources", location);
    expect([first.code, timesIn(first.stderr, gets)]).toEqual([0, [2, 0, 2]]);
    const grown = join(own, "grown");
    await cp(sources, grown, { recursive: true });
    await addMarkets(grown, 1);
    const second = await publishAhead(0, grown, location);
    expect([second.code, timesIn(second.stderr, gets)]).toEqual([0, [2, 0, 0]]);
    const says = /^Warning: times are too late: this machine's clock says (\S+), and the store's (\S+)$/m;
    const behind = await publishAhead(-100_000, "sources", location);
    expect([behind.code, timesIn(behind.stderr, says)]).toEqual([3, [-100_000, 0]]);
    expect(behind.stderr).toContain("five minutes after the start");
  });
});
