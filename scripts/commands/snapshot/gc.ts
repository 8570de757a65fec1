import { publishedSite } from "../../../proxy/site/files.ts";
import { retention } from "../../../schemas/store/snapshot.ts";
import { collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { counted, integerOption } from "../../cli.ts";
import { command } from "../../program.ts";
import { logBegins, logBeginsOption, readSigning, trustOptions } from "../../signing.ts";
import { openStore } from "../../store.ts";
import { removeLeftTemporaryFolders } from "../../temporary.ts";
import { shorten } from "./describe.ts";
import { common, flag, number } from "./options.ts";

export const gcCommand = command({
  name: "gc",
  does: "deletes what no retained commit reaches; publishes may go on meanwhile",
  options: {
    ...common,
    "keep-hours": {
      ...number("hours that a superseded snapshot is kept"),
      default: String(retention.keepHours),
    },
    "keep-commits": { ...number("newest commits that are kept"), default: String(retention.keepCommits) },
    "keep-daily": {
      ...number("days whose last snapshot is kept; 0 for none"),
      default: String(retention.keepDaily),
    },
    "keep-monthly": {
      ...number("months whose last snapshot is kept; 0 for none"),
      default: String(retention.keepMonthly),
    },
    "keep-changes-days": {
      ...number("days for which it is kept what a commit changed; 0 for none"),
      default: String(retention.keepChangesDays),
    },
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
    const done = await collectGarbage(storage, { site: publishedSite, ...kept, ...whose, now, dryRun });
    const leftFolders = dryRun ? 0 : await removeLeftTemporaryFolders();
    const { keptCommits, deleted, young, tiers } = done;
    const leftovers = done.leftovers + leftFolders;
    shell.report(values.json ?? false, { ...done, leftovers }, [
      ...(dryRun ? shorten(deleted.keys) : []),
      `${dryRun ? "Would delete" : "Deleted"} ${counted(deleted.keys.length, "object")} (${deleted.bytes} bytes); ` +
        `${counted(keptCommits, "commit")} kept, too young to go: ${counted(young, "unreachable object")}`,
      `Without it would also go: ${counted(kept.keepHours, "hour")} ${tiers.hours} bytes, ` +
        `${counted(kept.keepCommits, "commit")} ${tiers.commits} bytes, ${counted(kept.keepDaily, "day")} ` +
        `${tiers.daily} bytes, ${counted(kept.keepMonthly, "month")} ${tiers.monthly} bytes, changes of ` +
        `${counted(kept.keepChangesDays, "day")} ${tiers.changes} bytes`,
      ...(leftovers > 0 ? [`Removed what ${counted(leftovers, "killed run")} left behind`] : []),
    ]);
  },
});
