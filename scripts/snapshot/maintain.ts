import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { publishedSite } from "../../proxy/site/files.ts";
import { Count, Digest, Timestamp } from "../../schemas/records.ts";
import { retention } from "../../schemas/store/stored-objects.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { updateLog } from "../../snapshots/publish/public/log.ts";
import { listPublicTree } from "../../snapshots/publish/public/site.ts";
import { publish } from "../../snapshots/publish/publish.ts";
import { CorruptObjectError, unless } from "../../snapshots/store/errors.ts";
import { readJson, replaceFile } from "../../snapshots/store/local-files.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { readRunLog, trustOf } from "../../snapshots/trust/log/believe.ts";
import { verifierText, writeSigningKey } from "../../snapshots/trust/notes/note-keys.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { type VerifyOptions, type VerifyReport, verify } from "../../snapshots/verify/verify.ts";
import {
  type Bounds,
  counted,
  exitCodes,
  progressOn,
  requiredOption,
  type Shell,
  usageError,
} from "../cli.ts";
import { waysBack } from "../incidents.ts";
import { command, flag, jsonOption, number, text } from "../program.ts";
import {
  common,
  defaultSigningName,
  logBeginsOption,
  lostSignature,
  openStore,
  readSigning,
  signingName,
  signOverOption,
  trustOptions,
  trustPolicy,
  unsignedOption,
} from "../store.ts";
import { removeLeftTemporaryFolders } from "../temporary.ts";
import { allowing, exportTo, publishFrom, readPublishing, sourcesOption } from "./publish-run.ts";
import { describePublish, describeWitnesses, reportOf, shorten } from "./reports.ts";

export const rollbackCommand = command({
  name: "rollback",
  operand: "ID",
  does: "makes an earlier snapshot current again and holds publishing; ID is a commit number or a snapshot id",
  options: { ...common, ...trustOptions, ...signOverOption, ...unsignedOption },
  async run(values, operand, shell) {
    if (!operand) throw usageError("rollback takes a commit number or a snapshot id, as `list` shows them");
    const storage = await openStore(shell, values.store);
    const signing = await readSigning(shell, values);
    const commit = await rollback(storage, operand, () => new Date(), {
      site: publishedSite,
      signing,
      warn: (line) => shell.warn(line),
    });
    const { commit: newest, snapshotId } = commit.entry;
    const before = await readCommit(storage, newest - 1);
    if (before?.note !== undefined && commit.note === undefined) shell.say(lostSignature);
    shell.report(values.json, reportOf(commit), [
      `Commit ${newest} has snapshot ${snapshotId} again. Publishing is on hold until publish --resume.`,
    ]);
  },
});

export const exportCommand = command({
  name: "export",
  does: "writes a snapshot's archive into Parquet files for bulk download",
  options: {
    ...common,
    ...trustOptions,
    ...unsignedOption,
    snapshot: text("ID", "a commit number or a snapshot id; the newest snapshot if left out"),
  },
  async run(values, _operand, shell) {
    const signing = await readSigning(shell, values);
    const storage = await openStore(shell, values.store);
    const done = await exportTo(shell, storage, { snapshot: values.snapshot, signing });
    const { outcome, snapshotId, commit, rows, total, uploaded } = done;
    shell.report(values.json, done, [
      `${outcome === "exported" ? "Exported" : "Exported before:"} snapshot ${snapshotId} of commit ${commit}`,
      `${counted(rows, "market")} in ${counted(total.objects, "file")} (${total.bytes} bytes), ` +
        `${uploaded.objects} of them made now`,
    ]);
  },
});

const keeping = (name: keyof typeof retention, does: string, bounds: Bounds = { min: 0, max: 1e5 }) =>
  number(does, bounds, { default: String(retention[name]) });

export const gcCommand = command({
  name: "gc",
  does: "deletes what no retained commit reaches; publishes may go on meanwhile",
  options: {
    ...common,
    "keep-hours": keeping("keepHours", "hours that a superseded snapshot is kept"),
    "keep-commits": keeping("keepCommits", "newest commits that are kept", { min: 1, max: 1e6 }),
    "keep-daily": keeping("keepDaily", "days whose last snapshot is kept; 0 for none"),
    "keep-monthly": keeping("keepMonthly", "months whose last snapshot is kept; 0 for none"),
    "keep-changes-days": keeping(
      "keepChangesDays",
      "days for which it is kept what a commit changed; 0 for none",
    ),
    ...trustOptions,
    ...logBeginsOption,
    "trust-all": flag("counts every commit of a store whose commits are signed, whoever made it"),
    "dry-run": flag("deletes nothing"),
  },
  async run(values, _operand, shell) {
    const dryRun = values["dry-run"] ?? false;
    const kept = {
      keepHours: values["keep-hours"],
      keepCommits: values["keep-commits"],
      keepDaily: values["keep-daily"],
      keepMonthly: values["keep-monthly"],
      keepChangesDays: values["keep-changes-days"],
    };
    const signing = await readSigning(shell, values);
    const storage = await openStore(shell, values.store);
    const whose = { signing, anybody: values["trust-all"] ?? false, begins: values["log-begins-at"] };
    const now = new Date();
    const done = await collectGarbage(storage, {
      site: publishedSite,
      ...kept,
      ...whose,
      now,
      dryRun,
    });
    const leftFolders = dryRun ? 0 : await removeLeftTemporaryFolders();
    const { keptCommits, deleted, young, tiers: bytesOf } = done;
    const leftovers = done.leftovers + leftFolders;
    shell.report(values.json, { ...done, leftovers }, [
      ...(dryRun ? shorten(deleted.keys) : []),
      `${dryRun ? "Would delete" : "Deleted"} ${counted(deleted.keys.length, "object")} (${deleted.bytes} bytes); ` +
        `${counted(keptCommits, "commit")} kept, too young to go: ${counted(young, "unreachable object")}`,
      `Without it would also go: ${counted(kept.keepHours, "hour")} ${bytesOf.hours} bytes, ` +
        `${counted(kept.keepCommits, "commit")} ${bytesOf.commits} bytes, ${counted(kept.keepDaily, "day")} ` +
        `${bytesOf.daily} bytes, ${counted(kept.keepMonthly, "month")} ${bytesOf.monthly} bytes, changes of ` +
        `${counted(kept.keepChangesDays, "day")} ${bytesOf.changes} bytes`,
      ...(leftovers > 0 ? [`Removed what ${counted(leftovers, "killed run")} left behind`] : []),
    ]);
  },
});

export const signingKeyCommand = command({
  name: "signing-key",
  does: "makes a key pair with which publishers sign commits; an existing file is never replaced",
  options: {
    out: text("FILE", "the private key; the public one is FILE.pub", { required: true }),
    name: text(
      "NAME",
      "the origin of the log that the key signs, best an address of yours (or SIGNING_NAME)",
      { otherwise: defaultSigningName },
    ),
    algorithm: text(
      "NAME",
      "ed25519, or ml-dsa-44 for a second key that quantum computers do not break; it needs Node 24",
      { otherwise: "ed25519" },
    ),
    ...jsonOption,
  },
  async run(values, _operand, shell) {
    const path = shell.path(values.out);
    const name = signingName(shell, values.name) ?? defaultSigningName;
    const { algorithm = "ed25519" } = values;
    if (algorithm !== "ed25519" && algorithm !== "ml-dsa-44")
      throw usageError(`--algorithm is ed25519 or ml-dsa-44, not ${JSON.stringify(algorithm)}`);
    const publicKey = verifierText(await writeSigningKey(path, name, algorithm));
    const use = algorithm === "ed25519" ? "SIGNING_KEY" : "a second line of the file SIGNING_KEY";
    shell.say(`${path} signs, so keep it secret (${use}); ${path}.pub is for everybody (TRUSTED_KEYS):`);
    shell.report(values.json, { name, publicKey, files: { private: path, public: `${path}.pub` } }, [
      publicKey,
    ]);
  },
});

export const witnessCommand = command({
  name: "witness",
  does: "asks the witnesses of WITNESS_POLICY again that have not cosigned the newest checkpoint",
  options: { ...common, ...trustOptions },
  async run(values, _operand, shell) {
    const signing = await readSigning(shell, values);
    if (!signing.key || !signing.witnesses)
      throw usageError("witness goes with SIGNING_KEY and WITNESS_POLICY, the files of a publisher");
    const storage = await openStore(shell, values.store);
    const log = await readRunLog(storage, signing);
    const { newest } = log;
    const tree = await listPublicTree(storage, undefined, log.storage);
    const witnessed = newest ? await updateLog(tree, newest, signing, log) : [];
    shell.report(values.json, { commit: newest?.entry.commit ?? 0, witnessed }, [
      newest
        ? `Commit ${newest.entry.commit}, snapshot ${newest.entry.snapshotId}`
        : `${storage.location} holds no commit yet`,
      ...describeWitnesses(witnessed),
    ]);
  },
});

export const verifyCommand = command({
  name: "verify",
  does: "checks every byte and index of a store",
  options: {
    ...common,
    ...trustOptions,
    ...logBeginsOption,
    since: number(
      "only lists what the commits up to this number have: an earlier run has found no fault in it",
      { min: 0 },
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
    const { json, repair = false, since: upTo, "since-file": named, "log-begins-at": begins } = values;
    const stray = Object.keys(values).find((name) => name === "sources" || name in allowing);
    if (stray && !repair) throw usageError(`--${stray} goes with --repair`);
    const policy = await trustPolicy(shell, values);
    const signing = await readSigning(shell, values);
    const trust = policy ? new Trust(policy) : trustOf(signing);
    if (upTo > 0 && named !== undefined) throw usageError("--since and --since-file exclude each other");
    const path = named === undefined ? undefined : shell.path(requiredOption("since-file", named));
    const storage = await openStore(shell, values.store);
    const seen = path && (await seenIn(path, storage));
    const later = seen && isRecent(seen.wholeAt);
    const wholeAt = later ? seen.wholeAt : new Date().toISOString();
    const since = later ? seen.commit : upTo;
    const options = {
      // In a row of its own, which goes with the room.
      site: publishedSite,
      trust,
      signing,
      begins,
      since,
      seen: seen ? seen.commit : upTo,
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
