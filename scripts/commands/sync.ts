import { readFile } from "node:fs/promises";
import { ApiError, Client, IntegrityError } from "../../proxy/site/client/client.js";
import { isWellFormedKey } from "../../snapshots/keys/key-format.ts";
import { messageOf } from "../../snapshots/store/errors.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { believedPolicy } from "../../snapshots/trust/witnesses/policy.ts";
import { counted, exitCodes, requiredOption, UsageError } from "../cli.ts";
import { CopyFolder } from "../copy/copy-folder.ts";
import { waitForNews } from "../copy/news.ts";
import { type SyncParts, type SyncReport, syncOnce } from "../copy/sync.ts";
import { command, type Program } from "../program.ts";
import { progressOn } from "../progress.ts";
import type { Shell } from "../shell.ts";

/** How long --follow waits between two questions: where the live feed cannot be had, and where it says nothing. */
const pollSeconds = { without: 60, with: 600 };

const sync = command({
  name: "",
  does:
    "Keeps an exact copy of the archive in DIR: archive.ndjson, and state.json, which says of which " +
    "snapshot it is.",
  options: {
    url: { type: "string", value: "BASE", required: true, does: "address of the service" },
    "key-file": { type: "string", value: "FILE", required: true, does: "holds an API key of the Aegis plan" },
    to: {
      type: "string",
      value: "DIR",
      required: true,
      does: "the folder of the copy; made if it is not there",
    },
    "trusted-key": {
      type: "string",
      value: "FILE",
      does: "public keys, one a line; take up only what one of them signed",
    },
    "trust-policy": {
      type: "string",
      value: "FILE",
      does: "a policy of logs, witnesses and quorum (c2sp.org/tlog-policy); take up only what satisfies it",
    },
    follow: { type: "boolean", does: "go on, and take up every snapshot as it is published" },
    json: { type: "boolean", does: "one JSON object a run on stdout, nothing else" },
  },
  async run(values, _operand, shell) {
    const url = requiredOption("url", values.url);
    if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : "")) {
      throw new UsageError(`--url must be an address with http or https, not ${JSON.stringify(url)}`);
    }
    const key = await keyIn(shell, requiredOption("key-file", values["key-file"]));
    const trusted = await trustedBy(shell, values["trust-policy"], values["trusted-key"]);
    const folder = shell.path(requiredOption("to", values.to));
    const [follow, json] = [values.follow ?? false, values.json ?? false];
    return withCopy(folder, async (copy) => {
      const parts: SyncParts = {
        client: new Client({ url, key, maxBytes: 2 ** 23 }),
        copy,
        trusted,
        say: (line) => shell.say(line),
        progress: progressOn(shell.stderr),
      };
      for (;;) {
        const report = await attempt(parts, { url, shell, patient: follow });
        if (report) tell(report, shell, json);
        if (!follow) return exitCodes.done;
        const snapshotId = report?.snapshotId ?? "";
        await waitForNews({ url, key, snapshotId, pollSeconds });
      }
    });
  },
});

/** The text of a policy, or public keys; undefined where neither file is given. Throws KeyFileError. */
async function trustedBy(shell: Shell, policy: string | undefined, keys: string | undefined) {
  const [file, keyFile] = [policy, keys].map((name) => (name ? shell.path(name) : undefined));
  const believed = await believedPolicy({ policy: file, keys: keyFile });
  return file ? readFile(file, "utf8") : believed?.logs.map(({ key }) => verifierText(key));
}

/** Works alone in the folder of a copy. Throws CopyFolderError, LocalFolderError when the disk fails, or as `work`. */
async function withCopy<T>(folder: string, work: (copy: CopyFolder) => Promise<T>): Promise<T> {
  try {
    const copy = await CopyFolder.open(folder);
    try {
      return await work(copy);
    } finally {
      await copy.close();
    }
  } catch (error) {
    throw await CopyFolder.failure(folder, error);
  }
}

/** One run. With `patient`, a service that cannot be asked is waited for; then there is no report. */
async function attempt(
  parts: SyncParts,
  { url, shell, patient }: { url: string; shell: Shell; patient: boolean },
): Promise<SyncReport | undefined> {
  try {
    return await syncOnce(parts);
  } catch (error) {
    if (!(error instanceof ApiError) || error instanceof IntegrityError) throw error;
    if (error.status === 401 || error.status === 403) throw new UsageError(error.message);
    const message = `${url}: ${error.title}: ${reasonOf(error)}`;
    if (!patient) throw new ApiError(error.code, message, { cause: error });
    shell.say(message);
    return undefined;
  }
}

/** The reason for an error: its message, or that of its cause, such as the system's for a failed connection. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  if (error instanceof Error && error.cause !== undefined) return reasonOf(error.cause);
  return messageOf(error);
}

async function keyIn(shell: Shell, file: string): Promise<string> {
  const text = await readFile(shell.path(file), "utf8").catch((error: unknown) => {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`);
  });
  const key = text.trim();
  if (isWellFormedKey(key)) return key;
  throw new UsageError(`${file} holds no key: one is prs_live_ and 38 letters and digits, copied whole`);
}

function tell(report: SyncReport, shell: Shell, json: boolean): void {
  const { how, snapshotId, lines, received, archiveRoot } = report;
  const came = how === "unchanged" ? "nothing new" : `${counted(received, "line")} received (${how})`;
  shell.report(json, report, [
    `snapshot ${snapshotId}: ${counted(lines, "market")}, root ${archiveRoot}; ${came}`,
  ]);
}

/** `npm run sync` */
export const syncProgram: Program = {
  call: "npm run sync --",
  commands: [sync],
  notes: `A run that is stopped goes on where it was when it is started again. Readers of archive.ndjson see the old copy or the new one.
The old copy stays with exit code 2: the service refuses the key; 5: it cannot be asked, or the disk is full; and 6: what
came does not match its root or its signature.`,
};
