import { realpath, writeFile } from "node:fs/promises";
import { publishedSite } from "../../proxy/site/files.ts";
import { retention, type Size } from "../../schemas/snapshot.ts";
import type { Changes, Summary } from "../../snapshots/changes/summary.ts";
import { diff } from "../../snapshots/maintain/diff.ts";
import { exportSnapshot } from "../../snapshots/maintain/export.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import type { Allowance } from "../../snapshots/publish/guards.ts";
import { type PublishOptions, type PublishReport, publish } from "../../snapshots/publish/publish.ts";
import { apiPlaceAt, siteAddressAt } from "../../snapshots/publish/site.ts";
import type { NamedContent, OpenSources } from "../../snapshots/sources/sources.ts";
import { readCommit, readLog } from "../../snapshots/store/commits.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { writeSigningKey } from "../../snapshots/trust/key-files.ts";
import { verifierText } from "../../snapshots/trust/note-keys.ts";
import type { Signing } from "../../snapshots/trust/signing.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { type VerifyReport, verify } from "../../snapshots/verify/verify.ts";
import { type ExitCode, exitCodes, integerOption, requiredOption, UsageError } from "../cli.ts";
import { command, type Program, type ValuesOf } from "../program.ts";
import { progressOn } from "../progress.ts";
import type { Shell } from "../shell.ts";
import {
  defaultSigningName,
  readSigning,
  signingName,
  signOverOption,
  trustedKeyOption,
  trustedKeys,
} from "../signing.ts";
import { sourcesAt, sourcesLocation } from "../sources.ts";
import { openNewStore, openStore, storeOption } from "../store.ts";
import { removeLeftTemporaryFolders, withTemporaryFolder } from "../temporary.ts";

/** How many faults or keys are listed one by one. The rest is only counted. */
const shownLines = 50;
/** How many added, changed or removed protocols the summary of a publish names, of each kind. */
const namedSlugs = 5;

const flag = (does: string) => ({ type: "boolean", does }) as const;
const number = (does: string) => ({ type: "string", value: "N", does }) as const;
const common = { ...storeOption, json: flag("one JSON object on stdout, nothing else") };
const allowing = {
  "allow-removed": number("lets a guard pass that printed this number of removed markets and protocols"),
  "allow-changed": number("lets a guard pass that printed this number of changed markets"),
  "allow-added": number("lets a guard pass that printed this number of added markets"),
  resume: flag("goes on after a rollback"),
};
const sourcesOption = { type: "string", value: "SOURCES", does: "where the Parquet files are" } as const;
const apiUrlOption = {
  type: "string",
  value: "URL",
  does: "the service that the site in the public tree opens history and archive from (or API_URL)",
} as const;
const siteUrlOption = {
  type: "string",
  value: "URL",
  does: "where the public tree is found, for badges, pages, feed and sitemap in it; none ends them (or SITE_URL)",
  otherwise: "what the store names",
} as const;
const statementOption = {
  type: "string",
  value: "FILE",
  does: "writes there, as JSON, which source files by SHA-256 gave which snapshot and checkpoint",
} as const;
const publishing = {
  sources: { ...sourcesOption, required: true },
  ...common,
  ...allowing,
  ...signOverOption,
  "api-url": apiUrlOption,
  "site-url": siteUrlOption,
  statement: statementOption,
  "dry-run": flag("writes nothing"),
};
const verifying = {
  ...common,
  ...trustedKeyOption,
  repair: flag("looks at all but the keys, publishes SOURCES when anything is at fault, and checks again"),
  sources: sourcesOption,
  ...allowing,
};
const exporting = {
  ...common,
  snapshot: {
    type: "string",
    value: "ID",
    does: "a commit number or a snapshot id; the newest snapshot if left out",
  },
} as const;
const rollingBack = { ...common, ...trustedKeyOption, ...signOverOption };
const makingKey = {
  out: { type: "string", value: "FILE", required: true, does: "the private key; the public one is FILE.pub" },
  name: {
    type: "string",
    value: "NAME",
    does: "the origin of the log that the key signs, best an address of yours (or SIGNING_NAME)",
    otherwise: defaultSigningName,
  },
  json: common.json,
} as const;
const collecting = {
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
  "dry-run": flag("deletes nothing"),
};

async function publishCommand(
  values: ValuesOf<typeof publishing>,
  _operand: string,
  shell: Shell,
): Promise<ExitCode> {
  const choices = readPublishing(shell, values);
  const api = addressOption("api-url", values["api-url"] ?? shell.env.API_URL, apiPlaceAt) ?? null;
  const address = values["site-url"] ?? shell.env.SITE_URL;
  const siteUrl = address === "none" ? null : addressOption("site-url", address, siteAddressAt);
  const signing = await publisherSigning(shell, values);
  const statement = values.statement && shell.path(values.statement);
  const more = { api, siteUrl, signing, statement, dryRun: values["dry-run"] ?? false };
  const done = await publishFrom(shell, choices, openNewStore(shell, values.store), more);
  if (done.signature === "lost") shell.say(lostSignature);
  shell.report(values.json ?? false, done, describePublish(done));
  return exitCodes.done;
}

const lostSignature =
  "SIGNING_KEY is not set, but this store was signed: proxies that trust keys do not take up what this run makes.";

/** How a publish signs. Without a key of its own it builds on whatever is there, as in a store that nobody signs. */
async function publisherSigning(
  shell: Shell,
  values: { "sign-over"?: string | undefined },
): Promise<Signing> {
  const signing = await readSigning(shell, values);
  return signing.key ? signing : {};
}

/** Reads the options that publish and verify --repair share. Throws UsageError. */
function readPublishing(
  shell: Shell,
  { sources, resume = false, ...values }: ValuesOf<typeof allowing & { sources: typeof sourcesOption }>,
) {
  const allow: Allowance = {};
  for (const kind of ["removed", "changed", "added"] as const) {
    const given = values[`allow-${kind}`];
    if (given !== undefined) allow[kind] = integerOption(`allow-${kind}`, given, { min: 0, otherwise: 0 });
  }
  return { location: sourcesLocation(shell, requiredOption("sources", sources)), allow, resume };
}

async function publishFrom(
  shell: Shell,
  { location, ...choices }: ReturnType<typeof readPublishing>,
  storage: Storage,
  {
    statement,
    ...more
  }: Pick<PublishOptions, "api" | "siteUrl" | "signing" | "dryRun" | "faulty"> & {
    statement?: string | undefined;
  },
): Promise<PublishReport> {
  const progress = progressOn(shell.stderr);
  return withTemporaryFolder(async (temporaryDirectory) => {
    const open = sourcesAt(shell, location, temporaryDirectory, progress);
    let files: readonly NamedContent[] = [];
    const sources: OpenSources = async (known) => {
      const opened = await open(known);
      files = [...opened.files, ...opened.scoreFiles];
      return opened;
    };
    const done = await publish({
      site: publishedSite,
      sources,
      storage,
      temporaryDirectory,
      now: () => new Date(),
      progress,
      ...choices,
      ...more,
    });
    if (statement && !more.dryRun) await writeStatement(statement, files, storage, done);
    return done;
  });
}

/** Writes what was published and from what (--statement). */
async function writeStatement(
  file: string,
  files: readonly NamedContent[],
  storage: Storage,
  { commit, snapshotId }: PublishReport,
): Promise<void> {
  const made = await readCommit(storage, commit);
  const sources = files
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, bytes, hash }) => ({ name, bytes, sha256: hash }));
  const said = { sources, snapshotId, commit, checkpoint: made?.checkpoint ?? null };
  await writeFile(file, `${JSON.stringify(said, null, 2)}\n`);
}

/** The address in an option; undefined when it is left out or empty. Throws UsageError. */
function addressOption(
  name: "api-url" | "site-url",
  address: string | undefined,
  normal: (address: string) => string,
): string | undefined {
  if (!address) return undefined;
  try {
    return normal(address);
  } catch {
    const [variable, given] = [name.replace("-", "_").toUpperCase(), JSON.stringify(address)];
    const whose = name === "api-url" ? "the service's" : "the public tree's";
    throw new UsageError(
      `--${name} (or ${variable}) must be ${whose} address, https://HOST, and is ${given}`,
    );
  }
}

function describePublish(done: PublishReport): string[] {
  const { outcome, wouldCommit, commit, snapshotId, counts, changes } = done;
  const { uploaded, unchanged, total, changeRecord } = done;
  const asBefore = `commit ${commit} already has snapshot ${snapshotId}`;
  const headline = {
    published: `Published commit ${commit}, snapshot ${snapshotId}`,
    unchanged: `Nothing new: ${asBefore}`,
    "dry-run": wouldCommit
      ? `Dry run: snapshot ${snapshotId} would follow commit ${commit}`
      : `Dry run: nothing new, ${asBefore}`,
  }[outcome];
  return [
    headline,
    ...(changes && outcome !== "unchanged" && wouldCommit !== false
      ? describeChanges(outcome === "dry-run" ? "It would change" : "It changes", changes)
      : []),
    `${counts.markets} markets in ${counts.pages} pages and ${counts.segments} segments, ${counts.protocols} protocols`,
    `objects: ${describeSize(uploaded)} uploaded, ${describeSize(unchanged)} unchanged, ${describeSize(total)} total`,
    ...(changeRecord.objects > 0 ? [`record of what it changes: ${describeSize(changeRecord)}`] : []),
  ];
}

const kinds = [
  ["+", "added"],
  ["~", "changed"],
  ["-", "removed"],
] as const;

/** Describes changes: `It changes +0 ~18 -1 markets, -1 protocol (usdd)`, and what differs in lines of their own. */
function describeChanges(verb: string, { markets, protocols }: Changes): string[] {
  const told = kinds.flatMap(([sign, kind]) => {
    const count = protocols[kind];
    if (count === 0) return [];
    return [
      `${sign}${count} ${count === 1 ? "protocol" : "protocols"} (${named(protocols, kind, namedSlugs)})`,
    ];
  });
  const counts = kinds.map(([sign, kind]) => `${sign}${markets[kind]}`).join(" ");
  const { fields, composite, tiers } = markets.details ?? { fields: {}, composite: [], tiers: {} };
  const shifts = composite.map(({ from, to, shift }) => [`${from}-${to}`, signed(shift)] as const);
  return [
    `${verb} ${[`${counts} markets`, ...(told.length > 0 ? told : ["no protocol"])].join(", ")}`,
    ...kinds.flatMap(([, kind]) =>
      markets[kind] > 0 && markets.first[kind].length > 0
        ? [`  markets ${kind}: ${named(markets, kind)}`]
        : [],
    ),
    ...listed("fields of changed markets", Object.entries(fields)),
    ...listed("fields of changed protocols", Object.entries(protocols.fields)),
    ...listed("markets by composite", shifts),
    ...listed(
      "markets by tier",
      Object.entries(tiers).map(([tier, shift]) => [tier, signed(shift)] as const),
    ),
  ];
}

const signed = (count: number) => (count > 0 ? `+${count}` : String(count));

function listed(what: string, rows: readonly (readonly [string, string | number])[]): string[] {
  return rows.length === 0
    ? []
    : [`  ${what}: ${rows.map(([name, value]) => `${name} ${value}`).join(", ")}`];
}

function named(summary: Summary, kind: keyof Summary["first"], most = Number.POSITIVE_INFINITY): string {
  const names = summary.first[kind].slice(0, most);
  return [...names, ...(summary[kind] > names.length ? ["…"] : [])].join(", ");
}

function describeSize({ objects, bytes }: Size): string {
  return `${objects} (${bytes} bytes)`;
}

function shorten(lines: readonly string[]): string[] {
  const more = lines.length - shownLines;
  return more > 0 ? [...lines.slice(0, shownLines), `and ${more} more`] : [...lines];
}

async function verifyCommand(
  values: ValuesOf<typeof verifying>,
  _operand: string,
  shell: Shell,
): Promise<ExitCode> {
  const { json = false, store, repair = false, "trusted-key": keyFile, ...choices } = values;
  const stray = Object.keys(choices)[0];
  if (stray && !repair) throw new UsageError(`--${stray} goes with --repair`);
  const keys = await trustedKeys(shell, keyFile);
  const trust = keys.length > 0 ? new Trust(keys) : undefined;
  const storage = await openStore(shell, store);
  const done = repair
    ? await verifyAndRepair(shell, storage, readPublishing(shell, choices), trust)
    : await verify(storage, progressOn(shell.stderr), { site: publishedSite, trust });
  const { faults, unchecked, commits, collected, markets, objects, bytes, unreferenced } = done;
  shell.report(json, done, [
    ...shorten(faults.map(({ key, reason }) => `${key}: ${reason}`)),
    ...shorten(unchecked.map(({ key, reason }) => `${key}: not checked, because ${reason}`)),
    `${faults.length === 0 ? "All good" : `${faults.length} faults`}: ${commits} commits (${collected} collected), ` +
      `${markets} markets, ${objects} objects (${bytes} bytes), ${unreferenced} of them unreferenced`,
  ]);
  return faults.length === 0 ? exitCodes.done : exitCodes.unexpected;
}

/** Verifies a store. When it finds faults, it publishes the sources, which replaces the faulty objects, and verifies again. */
async function verifyAndRepair(
  shell: Shell,
  storage: Storage,
  choices: ReturnType<typeof readPublishing>,
  trust: Trust | undefined,
): Promise<VerifyReport & { repaired: string[] }> {
  const signing = await publisherSigning(shell, {});
  // The publisher's role cannot read keys, and sources could not repair them.
  const check = () => verify(storage, progressOn(shell.stderr), { keys: false, site: publishedSite, trust });
  const before = await check();
  if (before.faults.length === 0) return { ...before, repaired: [] };
  // Printed before publishing, which may be refused.
  for (const line of shorten(before.faults.map(({ key, reason }) => `${key}: ${reason}`))) shell.say(line);
  const faulty = new Set(before.faults.map(({ key }) => key));
  for (const line of describePublish(await publishFrom(shell, choices, storage, { faulty, signing })))
    shell.say(line);
  const after = await check();
  const repaired = [...faulty.difference(new Set(after.faults.map(({ key }) => key)))];
  shell.say(`${repaired.length} of ${faulty.size} objects repaired`);
  return { ...after, repaired };
}

async function listCommand(
  values: ValuesOf<typeof common>,
  _operand: string,
  shell: Shell,
): Promise<undefined> {
  const storage = await openStore(shell, values.store);
  const known = (await readLog(storage)).reverse();
  const withdrawn = known[0]?.withdrawn ?? [];
  const stateOf = (number: number, hold: boolean) => {
    const gone = withdrawn.some(([first, last]) => first <= number && number <= last);
    return [...(hold ? ["rollback"] : []), ...(gone ? ["withdrawn"] : [])].join(", ");
  };
  shell.report(values.json ?? false, { commits: known }, [
    ...known.map(({ commit, publishedAt, snapshotId, counts, size, hold }) => {
      const columns = [commit, publishedAt, snapshotId.slice(0, 16), `${counts.markets} markets`];
      columns.push(`${counts.protocols} protocols`, `${describeSize(size)}`, stateOf(commit, hold));
      return columns.join("  ").trimEnd();
    }),
    ...(known.length === 0 ? [`${storage.location} holds no commit yet`] : []),
  ]);
  return undefined;
}

async function rollbackCommand(
  values: ValuesOf<typeof rollingBack>,
  operand: string,
  shell: Shell,
): Promise<undefined> {
  if (!operand) throw new UsageError("rollback takes a commit number or a snapshot id, as `list` shows them");
  const storage = await openStore(shell, values.store);
  const signing = await readSigning(shell, values);
  const commit = await rollback(storage, operand, () => new Date(), { site: publishedSite, signing });
  const before = await readCommit(storage, commit.commit - 1);
  if (before?.checkpoint !== undefined && commit.checkpoint === undefined) shell.say(lostSignature);
  shell.report(values.json ?? false, commit, [
    `Commit ${commit.commit} has snapshot ${commit.snapshotId} again. Publishing is on hold until publish --resume.`,
  ]);
  return undefined;
}

async function diffCommand(
  values: ValuesOf<typeof common>,
  operands: string,
  shell: Shell,
): Promise<undefined> {
  const [older, newer] = operands.split(" ");
  if (!older || !newer)
    throw new UsageError("diff takes two commit numbers or snapshot ids, as `list` shows them");
  const done = await diff(await openStore(shell, values.store), older, newer);
  const { since, until, changes } = done;
  shell.report(values.json ?? false, done, [
    `From commit ${since.commit}, snapshot ${since.snapshotId}`,
    `to commit ${until.commit}, snapshot ${until.snapshotId}`,
    ...describeChanges("It changes", changes),
  ]);
  return undefined;
}

async function exportCommand(
  values: ValuesOf<typeof exporting>,
  _operand: string,
  shell: Shell,
): Promise<undefined> {
  const signing = await publisherSigning(shell, {});
  const storage = await openStore(shell, values.store);
  const progress = progressOn(shell.stderr);
  const done = await withTemporaryFolder(async (folder) =>
    exportSnapshot(storage, values.snapshot, {
      temporaryDirectory: await realpath(folder),
      progress,
      signing,
    }),
  );
  const { outcome, snapshotId, commit, rows, total, uploaded } = done;
  shell.report(values.json ?? false, done, [
    `${outcome === "exported" ? "Exported" : "Exported before:"} snapshot ${snapshotId} of commit ${commit}`,
    `${rows} markets in ${total.objects} files (${total.bytes} bytes), ${uploaded.objects} of them made now`,
  ]);
  return undefined;
}

async function signingKeyCommand(
  values: ValuesOf<typeof makingKey>,
  _operand: string,
  shell: Shell,
): Promise<undefined> {
  const path = shell.path(requiredOption("out", values.out));
  const name = signingName(shell, values.name) ?? defaultSigningName;
  const publicKey = verifierText(await writeSigningKey(path, name));
  shell.say(`${path} signs, so keep it secret (SIGNING_KEY); ${path}.pub is for everybody (TRUSTED_KEYS):`);
  shell.report(values.json ?? false, { name, publicKey, files: { private: path, public: `${path}.pub` } }, [
    publicKey,
  ]);
  return undefined;
}

async function collectCommand(
  values: ValuesOf<typeof collecting>,
  _operand: string,
  shell: Shell,
): Promise<undefined> {
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
  const storage = await openStore(shell, values.store);
  const done = await collectGarbage(storage, { site: publishedSite, ...kept, now: new Date(), dryRun });
  const leftFolders = dryRun ? 0 : await removeLeftTemporaryFolders();
  const { keptCommits, deleted, young, rungs } = done;
  const leftovers = done.leftovers + leftFolders;
  shell.report(values.json ?? false, { ...done, leftovers }, [
    ...(dryRun ? shorten(deleted.keys) : []),
    `${dryRun ? "Would delete" : "Deleted"} ${deleted.keys.length} objects (${deleted.bytes} bytes); ` +
      `${keptCommits} commits kept, ${young} unreachable objects are too young to go`,
    `Without it would also go: ${kept.keepHours} hours ${rungs.hours} bytes, ${kept.keepCommits} commits ${rungs.commits} bytes, ` +
      `${kept.keepDaily} days ${rungs.daily} bytes, ${kept.keepMonthly} months ${rungs.monthly} bytes, ` +
      `changes of ${kept.keepChangesDays} days ${rungs.changes} bytes`,
    ...(leftovers > 0 ? [`Removed what ${leftovers} killed runs left behind`] : []),
  ]);
  return undefined;
}

/** `npm run snapshot` */
export const snapshotProgram: Program = {
  call: "npm run snapshot --",
  commands: [
    command({
      name: "publish",
      does: "builds a snapshot from Parquet sources and commits it; the same content makes no new commit",
      options: publishing,
      run: publishCommand,
    }),
    command({
      name: "verify",
      does: "checks every byte and index of a store",
      options: verifying,
      run: verifyCommand,
    }),
    command({
      name: "list",
      does: "the commits of a store, newest first",
      options: common,
      run: listCommand,
    }),
    command({
      name: "diff",
      operand: "A B",
      does: "what differs between two snapshots; A and B are commit numbers or snapshot ids",
      options: common,
      run: diffCommand,
    }),
    command({
      name: "rollback",
      operand: "ID",
      does: "makes an earlier snapshot current again and holds publishing; ID is a commit number or a snapshot id",
      options: rollingBack,
      run: rollbackCommand,
    }),
    command({
      name: "export",
      does: "writes a snapshot's archive into Parquet files for bulk download",
      options: exporting,
      run: exportCommand,
    }),
    command({
      name: "signing-key",
      does: "makes a key pair with which publishers sign commits; an existing file is never replaced",
      options: makingKey,
      run: signingKeyCommand,
    }),
    command({
      name: "gc",
      does: "deletes what no retained commit reaches; publishes may go on meanwhile",
      options: collecting,
      run: collectCommand,
    }),
  ],
  notes: "SOURCES and STORE are a directory or s3://bucket/prefix each.",
};
