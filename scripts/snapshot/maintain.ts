import { publishedSite } from "../../proxy/site/files.ts";
import { retention } from "../../schemas/store/stored-objects.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { updateLog } from "../../snapshots/publish/public/log.ts";
import { PublicTree } from "../../snapshots/publish/public/site.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { readRunLog } from "../../snapshots/trust/log/believe.ts";
import { verifierText, writeSigningKey } from "../../snapshots/trust/notes/note-keys.ts";
import { counted, integerOption, requiredOption, usageError } from "../cli.ts";
import { command, flag, jsonOption, number, text } from "../program.ts";
import {
  common,
  defaultSigningName,
  logBegins,
  logBeginsOption,
  lostSignature,
  openStore,
  readSigning,
  signingName,
  signOverOption,
  trustOptions,
  unsignedOption,
} from "../store.ts";
import { removeLeftTemporaryFolders } from "../temporary.ts";
import { exportTo } from "./publish-run.ts";
import { describeWitnesses, reportOf, shorten } from "./reports.ts";

export const rollbackCommand = command({
  name: "rollback",
  operand: "ID",
  does: "makes an earlier snapshot current again and holds publishing; ID is a commit number or a snapshot id",
  options: { ...common, ...trustOptions, ...signOverOption, ...unsignedOption },
  async run(values, operand, shell) {
    if (!operand) throw usageError("rollback takes a commit number or a snapshot id, as `list` shows them");
    const storage = await openStore(shell, values.store);
    const signing = await readSigning(shell, values);
    const warn = (line: string) => shell.warn(line);
    const commit = await rollback(storage, operand, () => new Date(), {
      site: publishedSite,
      signing,
      warn,
    });
    const { commit: made, snapshotId } = commit.entry;
    const before = await readCommit(storage, made - 1);
    if (before?.note !== undefined && commit.note === undefined) shell.say(lostSignature);
    shell.report(values.json, reportOf(commit), [
      `Commit ${made} has snapshot ${snapshotId} again. Publishing is on hold until publish --resume.`,
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

const keeping = (name: keyof typeof retention, does: string) =>
  number(does, { default: String(retention[name]) });

export const gcCommand = command({
  name: "gc",
  does: "deletes what no retained commit reaches; publishes may go on meanwhile",
  options: {
    ...common,
    "keep-hours": keeping("keepHours", "hours that a superseded snapshot is kept"),
    "keep-commits": keeping("keepCommits", "newest commits that are kept"),
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
    const keep = (name: `keep-${string}` & keyof typeof values, otherwise: number, min = 0, max = 1e5) =>
      integerOption(name, values[name], { min, max, otherwise });
    const kept = {
      keepHours: keep("keep-hours", retention.keepHours),
      keepCommits: keep("keep-commits", retention.keepCommits, 1, 1e6),
      keepDaily: keep("keep-daily", retention.keepDaily),
      keepMonthly: keep("keep-monthly", retention.keepMonthly),
      keepChangesDays: keep("keep-changes-days", retention.keepChangesDays),
    };
    const begins = logBegins(values);
    const signing = await readSigning(shell, values);
    const storage = await openStore(shell, values.store);
    const whose = { signing, anybody: values["trust-all"] ?? false, begins };
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
    const path = shell.path(requiredOption("out", values.out));
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
    const tree = await PublicTree.of(log.storage);
    const witnessed = newest ? await updateLog(storage, tree, newest, signing, log) : [];
    shell.report(values.json, { commit: newest?.entry.commit ?? 0, witnessed }, [
      newest
        ? `Commit ${newest.entry.commit}, snapshot ${newest.entry.snapshotId}`
        : `${storage.location} holds no commit yet`,
      ...describeWitnesses(witnessed),
    ]);
  },
});
