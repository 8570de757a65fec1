import { open, writeFile } from "node:fs/promises";
import { contactAt, contactRule } from "../../schemas/names.ts";
import { maxNoteBytes } from "../../snapshots/format/note.ts";
import type { PublishReport } from "../../snapshots/publish/commit-snapshot.ts";
import { apiPlaceAt, citationIn, licenseAt, siteAddressAt } from "../../snapshots/publish/public/site.ts";
import { publish } from "../../snapshots/publish/publish.ts";
import type { NamedContent } from "../../snapshots/sources/sources.ts";
import { messageOf } from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { noStoreAt, storeExists } from "../../snapshots/store/open-storage.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { counted, exitCodes, usageError } from "../cli.ts";
import { command, flag, text } from "../program.ts";
import { siteFaultAt } from "../service.ts";
import {
  common,
  lostSignature,
  openStoreUnchecked,
  readSigning,
  signOverOption,
  trustOptions,
} from "../store.ts";
import { inParts, partsWay } from "./publish-parts.ts";
import { allowing, exportTo, publishFrom, readPublishing, sourcesOption, type Way } from "./publish-run.ts";
import { describePublish } from "./reports.ts";

/** An option that replaces what the store names. */
const ofStore = (value: string, does: string) => text(value, does, { otherwise: "what the store names" });

export const publishCommand = command({
  name: "publish",
  does: "builds a snapshot from sources and commits it; the same content makes no new commit",
  options: {
    sources: { ...sourcesOption, required: true },
    ...common,
    ...allowing,
    ...trustOptions,
    ...signOverOption,
    ...inParts,
    "api-url": ofStore(
      "URL",
      "the service that the site in the public tree opens history and archive from; none for none (or API_URL)",
    ),
    "site-url": ofStore(
      "URL",
      "where public/ of the store is found, as https://HOST/public, for badges, pages and feed in it; " +
        "none ends them (or SITE_URL)",
    ),
    license: ofStore("URL", "the licence of the public scores, told in dataset.jsonld; none for none"),
    "cite-as": ofStore(
      "TEXT",
      "how to cite them, in words or as BibTeX, told in dataset.jsonld; none for none",
    ),
    contact: ofStore(
      "ADDRESS",
      "where a key comes from, an https or e-mail address that the site shows; none for none (or CONTACT)",
    ),
    statement: text(
      "FILE",
      "writes a JSON file with the SHA-256 of each source file, the snapshot and the checkpoint",
    ),
    export: flag("then exports the snapshot as Parquet files, and what its commit changed"),
    cache: text(
      "DIR",
      "with a store in S3, a folder that keeps its objects for the next run, of CACHE_DISK_BYTES (or CACHE_DIR)",
    ),
    "dry-run": flag("writes nothing"),
  },
  async run(values, _operand, shell) {
    const dryRun = values["dry-run"] ?? false;
    const choices = readPublishing(shell, values);
    const way: Way = {
      ...inOneRun,
      ...partsWay(shell, values, choices.location),
    };
    const site = namedOption("site-url", values["site-url"] ?? shell.env.SITE_URL, siteAddressAt);
    const names = {
      api: namedOption("api-url", values["api-url"] ?? shell.env.API_URL, apiPlaceAt),
      site,
      license: namedOption("license", values.license, licenseAt),
      citeAs: namedOption("cite-as", values["cite-as"], citationIn),
      contact: namedOption("contact", values.contact ?? shell.env.CONTACT, contactAt),
    };
    const signing = await readSigning(shell, values);
    if (!signing.key && shell.env.WITNESS_POLICY)
      throw usageError("WITNESS_POLICY goes with SIGNING_KEY: witnesses cosign what a publisher has signed");
    const statement = values.statement && way.publish && !dryRun ? shell.path(values.statement) : undefined;
    // A path that cannot be written to fails before anything is published. The statement of an earlier run stays until
    // there is a new one.
    if (statement) await (await open(statement, "a")).close();
    const storage = await openStoreUnchecked(shell, values.store, values.cache ?? shell.env.CACHE_DIR);
    // The first run of a schedule needs no store, but a mistyped address is none either.
    if (way.makesStore && !(await storeExists(storage)))
      shell.say(`${noStoreAt(storage)} yet: publish makes one`);
    const publishWith = publishFrom(shell, choices, storage, { names, signing, dryRun });
    const code = (await way.before?.(publishWith)) ?? exitCodes.done;
    if (!way.publish || code !== exitCodes.done) return code;
    const { report, files } = await publishWith(way.publish);
    if (report.signature === "lost") shell.say(lostSignature);
    if (values.export && !dryRun) {
      const { total } = await exportTo(shell, storage, { signing, changes: true });
      shell.say(`Exported in ${counted(total.objects, "file")} (${total.bytes} bytes)`);
    }
    shell.report(values.json, report, describePublish(report));
    const fault = site && !dryRun && (await siteFaultAt(site));
    if (fault) shell.warn(fault);
    try {
      if (statement) await writeStatement(statement, files, storage, report);
      return exitCodes.done;
    } catch (error) {
      shell.say(`The statement could not be written, but the snapshot is published: ${messageOf(error)}`);
      return exitCodes.unreachable;
    }
  },
});

const inOneRun: Way = { makesStore: true, publish };

async function writeStatement(
  path: string,
  files: readonly NamedContent[],
  storage: Storage,
  { commit, snapshotId }: PublishReport,
): Promise<void> {
  const checkpoint = await storage.get(layout.logCheckpointOf(commit), { maxBytes: maxNoteBytes });
  const sources = files
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, bytes, hash }) => ({ name, bytes, sha256: hash }));
  const record = { sources, snapshotId, commit, checkpoint: checkpoint?.toString() ?? null };
  await writeFile(path, `${JSON.stringify(record, null, 2)}\n`);
}

const rules = {
  "api-url": "--api-url (or API_URL) must be the service's address, https://HOST",
  "site-url": "--site-url (or SITE_URL) must be the public tree's address, as https://HOST/public",
  license: "--license must be the licence's address, as https://spdx.org/licenses/CC-BY-4.0",
  "cite-as": "--cite-as must be a text of at most 2,000 characters",
  contact: `--contact (or CONTACT) must be ${contactRule}`,
};

/** The value of an option; null for `none`, undefined when it is left out or empty. */
function namedOption(
  name: keyof typeof rules,
  value: string | undefined,
  normal: (value: string) => string,
): string | null | undefined {
  if (!value) return undefined;
  if (value === "none") return null;
  try {
    return normal(value);
  } catch {
    throw usageError(`${rules[name]}, and is ${JSON.stringify(value.slice(0, 200))}`);
  }
}
