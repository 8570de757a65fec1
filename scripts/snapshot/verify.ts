import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { publishedSite } from "../../proxy/site/files.ts";
import { Count, Digest, Timestamp } from "../../schemas/records.ts";
import { publish } from "../../snapshots/publish/publish.ts";
import { CorruptObjectError, unless } from "../../snapshots/store/errors.ts";
import { readJson, replaceFile } from "../../snapshots/store/local-files.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { trustOf } from "../../snapshots/trust/log/believe.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { type VerifyOptions, type VerifyReport, verify } from "../../snapshots/verify/verify.ts";
import {
  counted,
  exitCodes,
  integerOption,
  progressOn,
  requiredOption,
  type Shell,
  usageError,
} from "../cli.ts";
import { waysBack } from "../incidents.ts";
import { command, flag, number, text } from "../program.ts";
import {
  common,
  logBegins,
  logBeginsOption,
  openStore,
  readSigning,
  trustOptions,
  trustPolicy,
} from "../store.ts";
import { allowing, publishFrom, readPublishing, sourcesOption } from "./publish-run.ts";
import { describePublish, shorten } from "./reports.ts";

export const verifyCommand = command({
  name: "verify",
  does: "checks every byte and index of a store",
  options: {
    ...common,
    ...trustOptions,
    ...logBeginsOption,
    since: number(
      "only lists what the commits up to this number have: an earlier run has found no fault in it",
      { default: "0" },
    ),
    "since-file": text(
      "FILE",
      "keeps how far a run without fault went, goes on there as with --since, and reads all once a week",
    ),
    repair: flag("looks at all but the keys, publishes SOURCES when anything is at fault, and checks again"),
    sources: sourcesOption,
    ...allowing,
  },
  async run(values, _operand, shell) {
    const { json, store, repair = false, since: given, "since-file": named } = values;
    const stray = Object.keys(values).find((name) => name === "sources" || name in allowing);
    if (stray && !repair) throw usageError(`--${stray} goes with --repair`);
    const begins = logBegins(values);
    const policy = await trustPolicy(shell, values);
    const signing = await readSigning(shell, values);
    const trust = policy ? new Trust(policy) : trustOf(signing);
    const told = integerOption("since", given, { min: 0, otherwise: 0 });
    if (told > 0 && named !== undefined) throw usageError("--since and --since-file exclude each other");
    const path = named === undefined ? undefined : shell.path(requiredOption("since-file", named));
    const storage = await openStore(shell, store);
    const seen = path && (await seenIn(path, storage));
    const later = seen && isRecent(seen.wholeAt);
    const wholeAt = later ? seen.wholeAt : new Date().toISOString();
    const since = later ? seen.commit : told;
    const options = {
      // In a row of its own, which goes with the room.
      site: publishedSite,
      trust,
      signing,
      begins,
      since,
      seen: seen ? seen.commit : told,
    };
    const done = repair
      ? await verifyAndRepair(shell, storage, readPublishing(shell, values), options)
      : await verify(storage, progressOn(shell.stderr), options);
    const { faults, unchecked, commits, collected, markets, objects, bytes, unreferenced, passedOver } = done;
    shell.report(json, done, [
      ...shorten(faults.map(({ key, reason }) => `${key}: ${reason}`)),
      ...waysBack(faults.map(({ key }) => key)),
      ...shorten(unchecked.map(({ key, reason }) => `${key}: not checked, because ${reason}`)),
      `${faults.length === 0 ? "All good" : counted(faults.length, "fault")}: ` +
        `${counted(commits, "commit")} (${collected} collected), ${counted(markets, "market")}, ` +
        `${counted(objects, "object")} (${bytes} bytes), ${unreferenced} of them unreferenced` +
        (unchecked.length > 0 ? `, ${unchecked.length} not judged` : "") +
        (passedOver > 0 ? `, ${passedOver} only listed, for --since ${since}` : ""),
    ]);
    // What could not be judged was not read whole. The file comes last, since it may be one that cannot be written.
    if (path && faults.length === 0 && unchecked.length === 0)
      await keepSeen(path, storage, commits + begins - 1, wholeAt);
    return faults.length === 0 ? exitCodes.done : exitCodes.unexpected;
  },
});

/** Timers are not punctual: less than a week. */
const wholeAfterDays = 6.5;

/** A time that lies a week ahead, as by a clock that was wrong, is not recent either. */
const isRecent = (time: string) => Math.abs(Date.now() - Date.parse(time)) < wholeAfterDays * 24 * 3_600_000;

/** What a run without fault has read, and when one last read everything. */
const Seen = z.object({ commit: Count, digest: Digest, wholeAt: Timestamp });
type Seen = z.infer<typeof Seen>;

/** Undefined before the first run, and when the log is another than the one that was read. */
async function seenIn(path: string, storage: Storage): Promise<Seen | undefined> {
  const seen = await readJson(path, Seen);
  if (!seen) return undefined;
  // A commit that is gone or damaged is a fault, which verify names.
  const commit = await unless(CorruptObjectError, () => readCommit(storage, seen.commit));
  return commit && commit.digest !== seen.digest ? undefined : seen;
}

async function keepSeen(path: string, storage: Storage, last: number, wholeAt: string): Promise<void> {
  const commit = await readCommit(storage, last);
  if (!commit) return;
  await mkdir(dirname(path), { recursive: true });
  const seen: Seen = { commit: last, digest: commit.digest, wholeAt };
  await replaceFile(path, `${JSON.stringify(seen)}\n`);
}

/**
 * Verifies a store. When it finds faults, it publishes the sources, which replaces the faulty objects, and verifies
 * again.
 */
async function verifyAndRepair(
  shell: Shell,
  storage: Storage,
  choices: ReturnType<typeof readPublishing>,
  options: VerifyOptions,
): Promise<VerifyReport & { repaired: string[] }> {
  // The publisher's role cannot read keys, and sources could not repair them.
  const check = () => verify(storage, progressOn(shell.stderr), { ...options, keys: false });
  const before = await check();
  if (before.faults.length === 0) return { ...before, repaired: [] };
  // Printed before publishing, which may be refused.
  for (const line of shorten(before.faults.map(({ key, reason }) => `${key}: ${reason}`))) shell.say(line);
  const faulty = new Set(before.faults.map(({ key }) => key));
  const publishWith = publishFrom(shell, choices, storage, { faulty, signing: options.signing });
  const { report } = await publishWith(publish);
  for (const line of describePublish(report)) shell.say(line);
  const after = await check();
  const repaired = [...faulty.difference(new Set(after.faults.map(({ key }) => key)))];
  shell.say(`${repaired.length} of ${counted(faulty.size, "object")} repaired`);
  return { ...after, repaired };
}
