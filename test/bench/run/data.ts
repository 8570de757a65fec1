import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Edit, editDaily, writeDaily, writeEdited } from "./edits.ts";
import type { Endings } from "./endings.ts";
import { nodeCommand, runProgram } from "./processes.ts";

/** Sources, stores and databases of one size; what is made is kept for the next run when that was asked for. */
export class Data {
  readonly markets: number;
  readonly folder: string;
  /** Files of this run alone. */
  readonly scratch: string;
  readonly say: (line: string) => void;
  readonly #ends: Endings;

  private constructor(markets: number, folder: string, scratch: string, ends: Endings, say: Data["say"]) {
    this.markets = markets;
    this.folder = folder;
    this.scratch = scratch;
    this.say = say;
    this.#ends = ends;
  }

  static async open(
    { markets, keep }: { markets: number; keep: string | undefined },
    ends: Endings,
    say: (line: string) => void,
  ): Promise<Data> {
    const folder = keep ? join(keep, `markets-${markets}`) : await mkdtemp(join(tmpdir(), "prs-bench-"));
    await mkdir(folder, { recursive: true });
    // The user that PostgreSQL runs as must get through to its own folder.
    await chmod(folder, 0o711);
    const scratch = await mkdtemp(join(folder, "run-"));
    await chmod(scratch, 0o711);
    ends.add(() => rm(keep ? scratch : folder, { recursive: true, force: true }));
    return new Data(markets, folder, scratch, ends, say);
  }

  /** Makes something in a folder of this name, unless an earlier run has made all of it. */
  async once(name: string, make: (folder: string) => Promise<unknown>): Promise<string> {
    const folder = join(this.folder, name);
    const done = `${folder}.done`;
    if (existsSync(done)) return folder;
    this.say(`making ${name}`);
    await rm(folder, { recursive: true, force: true });
    await make(folder);
    await writeFile(done, "");
    return folder;
  }

  /** The sample, with as many different outcome labels as given, or the sample's own. */
  sources(outcomes?: number): Promise<string> {
    return this.once(outcomes === undefined ? "sources" : `sources-${outcomes}-labels`, (folder) => {
      const more = outcomes === undefined ? [] : ["--outcomes", String(outcomes)];
      const args = ["--out", folder, "--markets", String(this.markets), ...more];
      return runProgram(this.#ends, [...nodeCommand("scripts/sample.ts"), ...args]);
    });
  }

  /** A store with the sample published. */
  async store(outcomes?: number): Promise<string> {
    const sources = await this.sources(outcomes);
    return this.once(outcomes === undefined ? "store" : `store-${outcomes}-labels`, (folder) =>
      runProgram(this.#ends, publishCommand(sources, folder)),
    );
  }

  /** The sample with 0.1 percent new markets and 0.01 percent changed. */
  async edited(edit: Edit): Promise<string> {
    const sources = await this.sources();
    return this.once(`sources-${edit}`, (folder) => writeEdited(sources, folder, edit, this.markets));
  }

  /** The sample as 100 files by time. */
  async daily(): Promise<string> {
    const sources = await this.sources();
    return this.once("sources-daily", (folder) => writeDaily(sources, folder));
  }

  /** The same files; one has 0.1 percent new markets and 0.01 percent changed. */
  async dailyEdited(): Promise<string> {
    const daily = await this.daily();
    return this.once("sources-daily-edited", (folder) => editDaily(daily, folder, this.markets));
  }

  /** A store published from the files by time. */
  async dailyStore(): Promise<string> {
    const daily = await this.daily();
    return this.once("store-daily", (folder) => runProgram(this.#ends, publishCommand(daily, folder)));
  }
}

/** `npm run snapshot -- publish --json`, without npm. */
export function publishCommand(sources: string, store: string): string[] {
  const script = nodeCommand("scripts/snapshot.ts", "--max-semi-space-size=16", "--single-threaded-gc");
  return [...script, "publish", "--sources", sources, "--store", store, "--json"];
}
