// Runs a snapshot command in a workflow: node .ci/snapshot-job.mjs FOLDER COMMAND [ARGUMENT...]
// It writes report.json and log.txt to FOLDER, and the counts to the run's summary. Exit code 4, a commit that another
// publisher made first, is no failure. A signing key in SIGNING_KEY_TEXT, public keys in TRUSTED_KEYS_TEXT and policies
// in TRUST_POLICY_TEXT and WITNESS_POLICY_TEXT become files that only the command sees.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  appendFileSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";

/** What an exit code means for an operator (.github/deploy/OPERATING.md, "Commands"). */
const meanings = new Map([
  [0, "done"],
  [1, "something is at fault; OPERATING.md has the ways back under Incidents"],
  [2, "the command line is wrong"],
  [
    3,
    "the sources were refused, publishing is on hold, or the log is not what trusted keys signed; readers see what they saw before",
  ],
  [4, "another publisher was faster, or gc was deleting what was needed; the next run makes up for it"],
  [
    5,
    "the store was unreachable, the disk of this machine full, or the outcome unknown; the next run converges",
  ],
]);
const lostRace = 4;
const shownLogLines = 40;

const [folder, ...command] = process.argv.slice(2);
if (!folder || command.length === 0) {
  console.error("Usage: node .ci/snapshot-job.mjs FOLDER COMMAND [ARGUMENT...]");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const [reportFile, logFile] = [join(folder, "report.json"), join(folder, "log.txt")];

// Not in FOLDER, which the workflow uploads.
const secrets = mkdtempSync(join(process.env.RUNNER_TEMP ?? tmpdir(), "keys-"));
const env = { ...process.env };
for (const name of ["SIGNING_KEY", "TRUSTED_KEYS", "TRUST_POLICY", "WITNESS_POLICY"]) {
  const { [`${name}_TEXT`]: text } = env;
  delete env[`${name}_TEXT`];
  if (!text) continue;
  env[name] = join(secrets, name);
  writeFileSync(env[name], `${text.trim()}\n`, { mode: 0o600 });
}

// Messages can quote the sources. Without this, the runner could execute a quoted text as a workflow command.
const token = randomUUID();
console.log(`::stop-commands::${token}`);
const child = spawn("npm", ["run", "--silent", "snapshot", "--", ...command, "--json"], {
  stdio: ["ignore", "pipe", "pipe"],
  env,
});
const [report, log] = [createWriteStream(reportFile), createWriteStream(logFile)];
child.stdout.pipe(report);
child.stderr.pipe(log);
child.stderr.pipe(process.stderr);
const [[code]] = await Promise.all([once(child, "close"), finished(report), finished(log)]);
rmSync(secrets, { recursive: true });
console.log(`::${token}::`);

const meaning = meanings.get(code) ?? `ended with exit code ${code}`;
const failed = code !== 0 && code !== lostRace;
console.log(`::${failed ? "error" : "notice"} title=snapshot ${command[0]}::${meaning}`);
summarise();
announce();
process.exitCode = failed ? (code ?? 1) : 0;

function summarise() {
  const rows = flatten(parseReport()).map(([name, value]) => `| ${name} | ${value} |`);
  const lines = [`### snapshot ${command[0]}: ${meaning}`, ""];
  if (rows.length > 0) lines.push("| | |", "|---|---|", ...rows, "");
  const faults = parseReport().faults ?? [];
  lines.push(...faults.slice(0, shownLogLines).map(({ key, reason }) => `    ${key}: ${reason}`), "");
  if (failed) {
    const tail = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-shownLogLines);
    lines.push(...tail.map((line) => `    ${line}`), "");
  }
  const text = `${lines.join("\n")}\n`;
  const file = process.env.GITHUB_STEP_SUMMARY;
  if (file) appendFileSync(file, text);
  else console.log(text);
}

/** Names the published snapshot to the steps that follow, also when the run before had published it and ended too early. */
function announce() {
  const { outcome, snapshotId } = parseReport();
  const file = process.env.GITHUB_OUTPUT;
  if (file && ["published", "unchanged"].includes(outcome)) appendFileSync(file, `snapshot=${snapshotId}\n`);
}

function parseReport() {
  try {
    return JSON.parse(readFileSync(reportFile, "utf8"));
  } catch {
    // A run that crashed may have written no report, or a part of one.
    return {};
  }
}

/** The members of an object as [name, value] rows: nested members get dotted names, and arrays are counted. */
function flatten(value, prefix = "") {
  return Object.entries(value).flatMap(([name, inner]) => {
    if (Array.isArray(inner)) return [[`${prefix}${name}`, `${inner.length} entries`]];
    if (inner && typeof inner === "object") return flatten(inner, `${prefix}${name}.`);
    return [[`${prefix}${name}`, inner]];
  });
}
