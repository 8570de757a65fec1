import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listCommits, readCommit } from "../snapshots/commits.ts";
import { type PublishReport, publish } from "../snapshots/publish/publish.ts";
import { openSources } from "../snapshots/sources/open.ts";
import { openStorage } from "../snapshots/storage/open.ts";
import type { Storage } from "../snapshots/storage/storage.ts";
import { verify } from "../snapshots/verify/verify.ts";
import {
  type ExitCode,
  exitCodes,
  readArguments,
  report,
  requiredOption,
  runCommand,
  say,
  UsageError,
  userDirectory,
  userPath,
} from "./cli.ts";
import { progressOn } from "./progress.ts";

const usage = `Usage: npm run snapshot -- publish --sources DIR --store STORE [--dry-run] [--json]
       npm run snapshot -- verify --store STORE [--json]
       npm run snapshot -- list --store STORE [--json]

  publish   builds a snapshot from Parquet sources and commits it; the same content makes no new commit
  verify    checks every byte and index of a store
  list      the commits of a store, newest first

STORE is a directory.`;

/** Faults shown one by one; the rest is counted. */
const shownFaults = 50;

const progress = progressOn(process.stderr);
const option = { type: "string" } as const;
const flag = { type: "boolean" } as const;

await runCommand(usage, async () => {
  const { values, positionals } = readArguments(
    { sources: option, store: option, "dry-run": flag, json: flag },
    true,
  );
  const [command, ...extra] = positionals;
  if (extra.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(extra[0])}`);
  const store = () => openStorage(requiredOption("store", values.store), userDirectory());
  const json = values.json ?? false;
  if (command === "publish") {
    const sources = userPath(requiredOption("sources", values.sources));
    return publishCommand(sources, store(), values["dry-run"] ?? false, json);
  }
  for (const name of ["sources", "dry-run"] as const) {
    if (values[name] !== undefined) throw new UsageError(`--${name} belongs to publish`);
  }
  if (command === "verify") return verifyCommand(store(), json);
  if (command === "list") return listCommand(store(), json);
  throw new UsageError(command ? `${JSON.stringify(command)} is not a command` : "no command given");
});

async function publishCommand(
  directory: string,
  storage: Storage,
  dryRun: boolean,
  json: boolean,
): Promise<ExitCode> {
  const temporaryDirectory = await mkdtemp(join(tmpdir(), "prs-publish-"));
  try {
    // A second thread would double what DuckDB holds, and the other core has the sorting and compressing to do.
    const sources = await openSources(directory, { now: new Date(), temporaryDirectory, threads: 1 });
    try {
      for (const warning of sources.warnings) say(`Warning: ${warning}`);
      const done = await publish({
        sources,
        storage,
        temporaryDirectory,
        now: () => new Date(),
        dryRun,
        progress,
      });
      report(json, done, describePublish(done));
      return exitCodes.done;
    } finally {
      await sources.close();
    }
  } finally {
    await rm(temporaryDirectory, { recursive: true, force: true });
  }
}

function describePublish(done: PublishReport): string[] {
  const { outcome, commit, snapshotId, counts, uploaded, unchanged, total } = done;
  const headline = {
    published: `Published commit ${commit}, snapshot ${snapshotId}`,
    unchanged: `Nothing new: commit ${commit} already has snapshot ${snapshotId}`,
    "dry-run": `Dry run: snapshot ${snapshotId} would follow commit ${commit}`,
  }[outcome];
  const size = ({ objects, bytes }: { objects: number; bytes: number }) => `${objects} (${bytes} bytes)`;
  return [
    headline,
    `${counts.markets} markets in ${counts.pages} pages and ${counts.segments} segments, ${counts.protocols} protocols`,
    `objects: ${size(uploaded)} uploaded, ${size(unchanged)} unchanged, ${size(total)} total`,
  ];
}

async function verifyCommand(storage: Storage, json: boolean): Promise<ExitCode> {
  const done = await verify(storage, progress);
  const { faults, commits, markets, objects, bytes, unreferenced } = done;
  const faultLines = faults.slice(0, shownFaults).map(({ key, reason }) => `${key}: ${reason}`);
  if (faults.length > shownFaults) faultLines.push(`and ${faults.length - shownFaults} more`);
  report(json, done, [
    ...faultLines,
    `${faults.length === 0 ? "All good" : `${faults.length} faults`}: ${commits} commits, ${markets} markets, ` +
      `${objects} objects (${bytes} bytes), ${unreferenced} of them unreferenced`,
  ]);
  return faults.length === 0 ? exitCodes.done : exitCodes.unexpected;
}

async function listCommand(storage: Storage, json: boolean): Promise<undefined> {
  const commits = [];
  for (const number of (await listCommits(storage)).reverse())
    commits.push(await readCommit(storage, number));
  const known = commits.filter((commit) => commit !== undefined);
  report(json, { commits: known }, [
    ...known.map(({ commit, publishedAt, snapshotId, counts }) =>
      [
        commit,
        publishedAt,
        snapshotId.slice(0, 16),
        `${counts.markets} markets`,
        `${counts.protocols} protocols`,
      ].join("  "),
    ),
    ...(known.length === 0 ? [`${storage.location} holds no commit yet`] : []),
  ]);
  return undefined;
}
