import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Edit, editDaily, writeDaily, writeEdited } from "./edits.ts";
import { nodeCommand, runProgram } from "./processes.ts";

export type Data = Awaited<ReturnType<typeof openData>>;

/** Sources, stores and databases of one size; what is made is kept for the next run when that was asked for. */
export async function openData(
  { markets, keep }: { markets: number; keep: string | undefined },
  ends: AsyncDisposableStack,
  say: (line: string) => void,
) {
  const folder = keep ? join(keep, `markets-${markets}`) : await mkdtemp(join(tmpdir(), "prs-bench-"));
  await mkdir(folder, { recursive: true });
  const scratch = await mkdtemp(join(folder, "run-"));
  // The user that PostgreSQL runs as must get through to its own folder.
  for (const each of [folder, scratch]) await chmod(each, 0o711);
  ends.defer(() => rm(keep ? scratch : folder, { recursive: true, force: true }));

  /** Makes something in a folder of this name, unless an earlier run has made all of it. */
  async function once(name: string, make: (folder: string) => Promise<unknown>): Promise<string> {
    const place = join(folder, name);
    const done = `${place}.done`;
    if (existsSync(done)) return place;
    say(`making ${name}`);
    await rm(place, { recursive: true, force: true });
    await make(place);
    await writeFile(done, "");
    return place;
  }
  const publish = (name: string, sources: string) =>
    once(name, (place) => runProgram(ends, publishCommand(sources, place)));

  /** The sample, with as many different outcome labels as given, or the sample's own. */
  const sources = (outcomes?: number) =>
    once(outcomes === undefined ? "sources" : `sources-${outcomes}-labels`, (place) => {
      const more = outcomes === undefined ? [] : ["--outcomes", String(outcomes)];
      const args = ["--out", place, "--markets", String(markets), ...more];
      return runProgram(ends, [...nodeCommand("scripts/sample.ts"), ...args]);
    });
  /** The sample as 100 files by time. */
  const daily = async () => {
    const all = await sources();
    return once("sources-daily", (place) => writeDaily(all, place));
  };
  return {
    ...{ markets, say, once, sources, daily },
    /** Files of this run alone. */
    scratch,
    /** A store with the sample published. */
    store: async () => publish("store", await sources()),
    /** The sample with 0.1 percent new markets and 0.01 percent changed. */
    async edited(edit: Edit) {
      const all = await sources();
      return once(`sources-${edit}`, (place) => writeEdited(all, place, edit, markets));
    },
    /** The files by time; one has 0.1 percent new markets and 0.01 percent changed. */
    async dailyEdited() {
      const all = await daily();
      return once("sources-daily-edited", (place) => editDaily(all, place, markets));
    },
    /** A store published from the files by time. */
    dailyStore: async () => publish("store-daily", await daily()),
  };
}

/** `npm run snapshot -- publish --json`, without npm. */
export function publishCommand(sources: string, store: string): string[] {
  const script = nodeCommand("scripts/snapshot.ts", "--max-semi-space-size=16", "--single-threaded-gc");
  return [...script, "publish", "--sources", sources, "--store", store, "--json"];
}
