import { type ApiError, Client } from "../proxy/site/client/client.ts";
import { isFault } from "../schemas/errors.ts";
import { feedProtocol, keyProtocolPrefix } from "../schemas/headers.ts";
import { counted, exitCodes, progressOn, type Shell } from "./cli.ts";
import { CopyFolder } from "./copy/copy-folder.ts";
import { publishedIndex } from "./copy/index-check.ts";
import { type SyncParts, type SyncReport, syncOnce } from "./copy/sync.ts";
import { command, flag, type Program, runAsScript, text } from "./program.ts";
import { failureOf, readService, serviceOptions } from "./service.ts";

/** How long --follow waits between two questions: without the live feed, and with one that says nothing. */
const pollSeconds = { without: 60, with: 600 };
/** The longest wait that a service may ask for: a quota begins anew within a day. */
const maxPauseSeconds = 86_400;

const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

const sync = command({
  name: "",
  does:
    "Keeps an exact copy of the archive in DIR: archive.ndjson, and state.json, which says of which " +
    "snapshot it is.",
  options: {
    ...serviceOptions,
    to: text("DIR", "the folder of the copy; made if it is not there", { required: true }),
    follow: flag("go on, and take up every snapshot as it is published"),
    json: flag("one JSON object a run on stdout, nothing else"),
  },
  async run(values, _operand, shell) {
    const { url, key, trusted } = await readService(shell, values);
    const folder = shell.path(values.to);
    const { follow = false, json } = values;
    return withCopy(folder, shell, async (copy) => {
      const parts: SyncParts = {
        client: new Client({ url, key, maxBytes: 2 ** 23 }),
        published: publishedIndex({ url, key }),
        copy,
        trusted,
        say: (line) => shell.say(line),
        progress: progressOn(shell.stderr),
      };
      for (let woken = false; ; ) {
        const report = await attempt(parts, { url, shell, patient: follow });
        if (report) shell.report(json, report, linesOf(report));
        if (!follow) return exitCodes.done;
        if (!report) continue;
        // The feed may go on naming what the service does not give yet.
        if (woken && report.how === "unchanged") await pause(pollSeconds.without);
        woken = await waitForNews(report.snapshotId, { url, key });
      }
    });
  },
});

async function withCopy<T>(folder: string, shell: Shell, work: (copy: CopyFolder) => Promise<T>): Promise<T> {
  try {
    const copy = await CopyFolder.open(folder, { say: (line) => shell.say(line) });
    try {
      return await work(copy);
    } finally {
      await copy.close();
    }
  } catch (error) {
    throw await CopyFolder.failure(folder, error);
  }
}

/** One run. With `patient`, it ends after a wait where the service cannot be asked; then there is no report. */
async function attempt(
  parts: SyncParts,
  { url, shell, patient }: { url: string; shell: Shell; patient: boolean },
): Promise<SyncReport | undefined> {
  try {
    return await syncOnce(parts);
  } catch (error) {
    const failure = failureOf(error, url);
    if (!patient || !isFault(failure, "SERVICE_UNREACHABLE")) throw failure;
    shell.say(failure.message);
    const { retryAfter = 0 } = failure.cause as ApiError;
    await pause(Math.min(Math.max(pollSeconds.without, retryAfter), maxPauseSeconds));
    return undefined;
  }
}

function linesOf({ how, snapshotId, lines, received, archiveRoot, unchecked }: SyncReport): string[] {
  const came = how === "unchanged" ? "nothing new" : `${counted(received, "line")} received (${how})`;
  return [...unchecked, `snapshot ${snapshotId}: ${counted(lines, "market")}, root ${archiveRoot}; ${came}`];
}

export const syncProgram: Program = {
  call: "npm run sync --",
  commands: [sync],
  notes: `A run that is stopped goes on where it was when it is started again. Readers of archive.ndjson see the old copy or the new one.
The old copy stays with exit code 2: the service refuses the key; 5: it cannot be asked, is behind its signed
log, or the disk is full; and 6: what came does not match its root or its signature, or the published index does not follow from it.`,
};

/**
 * Waits until the live feed names another snapshot than `snapshotId`, and is true then, or until it is time to ask.
 * Never rejects: without the feed it is a wait. A wait costs one unit, that of the connection.
 */
function waitForNews(snapshotId: string, { url, key }: Record<"url" | "key", string>): Promise<boolean> {
  const address = `${url.replace(/^http/, "ws").replace(/(\/api\/v1)?\/*$/, "")}/api/v1/ws/scores`;
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const wake = (seconds: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => end(false), seconds * 1000);
    };
    const end = (news: boolean) => {
      clearTimeout(timer);
      socket.close();
      resolve(news);
    };
    // The address and the key are sound: the client of the service has taken both.
    const socket = new WebSocket(address, [feedProtocol, `${keyProtocolPrefix}${key}`]);
    wake(pollSeconds.without);
    socket.addEventListener("open", () => {
      wake(pollSeconds.with);
      socket.send(JSON.stringify({ type: "subscribe", slugs: [], snapshots: true }));
    });
    socket.addEventListener("message", ({ data }) => {
      const named = snapshotIn(data);
      if (named !== undefined && named !== snapshotId) end(true);
    });
    socket.addEventListener("close", () => wake(pollSeconds.without));
    socket.addEventListener("error", () => {});
  });
}

function snapshotIn(message: unknown): string | undefined {
  try {
    const { snapshotId } = JSON.parse(String(message));
    return typeof snapshotId === "string" ? snapshotId : undefined;
  } catch {
    return undefined;
  }
}

await runAsScript(syncProgram, import.meta.filename);
