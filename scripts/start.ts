import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { pino } from "pino";
import { z } from "zod";
import { $ } from "zx";
import { type Config, readConfig } from "../proxy/config.ts";
import { variablesHelp } from "../proxy/docs/settings.ts";
import { listen, startService } from "../proxy/start.ts";
import { Fault } from "../schemas/errors.ts";
import { KeyPlan } from "../schemas/plans.ts";
import { keyPattern } from "../schemas/store/stored-objects.ts";
import { readExported } from "../snapshots/export/export-records.ts";
import { issueKey, keyRing } from "../snapshots/keys/keys.ts";
import { directoryStorage } from "../snapshots/store/backends/directory.ts";
import { CorruptObjectError, unless } from "../snapshots/store/errors.ts";
import { layout } from "../snapshots/store/layout.ts";
import { readJson } from "../snapshots/store/local-files.ts";
import { newestCommit, readCommit } from "../snapshots/store/log/commits.ts";
import { readManifest } from "../snapshots/store/manifest.ts";
import type { Storage } from "../snapshots/store/storage.ts";
import { exitCodes, type Shell } from "./cli.ts";
import { command, type Program, runAsScript } from "./program.ts";

const root = join(import.meta.dirname, "..");
const local = join(root, ".local");
const sources = join(local, "sources");
const store = join(local, "store");
const keyFile = join(local, "demo-keys.json");

const DemoKeys = z.record(KeyPlan, z.string().regex(keyPattern));
type DemoKeys = z.infer<typeof DemoKeys>;

/** A protocol and the snapshot before the newest one, for the printed examples. */
type Examples = DemoKeys & { slug: string; earlier: string };

const start = command({
  name: "",
  does: "Makes a sample, publishes it and serves it on http://127.0.0.1:8080; a second start uses what is there.",
  options: {},
  async run(_values, _operand, shell) {
    // Checked first, because making the sample takes a while and would be in vain if the port is taken.
    const config = readConfig({ LOG_LEVEL: "warn", ...shell.env, SNAPSHOT_STORE: store });
    await checkAddress(config);
    await mkdir(local, { recursive: true });
    const storage = directoryStorage(store);
    await publishSample(shell, await sampleIn(storage));
    const { slug = "", earlier = "" } = (await sampleIn(storage)) ?? {};
    await serve(shell, config, { ...(await demoKeys(storage)), slug, earlier });
  },
});

export const startProgram: Program = {
  call: "npm start",
  commands: [start],
  notes:
    "PORT=8081 npm start serves on another port; the proxy's other variables apply too, SNAPSHOT_STORE " +
    `is the sample's:\n${variablesHelp()}`,
};

/** The sample in the store; undefined when it has fewer than two snapshots, or this version cannot read it. */
function sampleIn(storage: Storage) {
  return unless(CorruptObjectError, async () => {
    const newest = await newestCommit(storage);
    const before = newest && (await readCommit(storage, newest.entry.commit - 1));
    if (!before) return undefined;
    const [slug = ""] = Object.keys((await readManifest(storage, newest)).scores.records);
    const exported =
      (await readExported(storage, layout.exportRecord, newest.entry.snapshotId)) !== undefined;
    return { slug, earlier: before.entry.snapshotId, exported };
  });
}

/** Publishes the sample as of a day ago and as of now, and exports it. Leaves out the steps that are done. */
async function publishSample(shell: Shell, sample: Awaited<ReturnType<typeof sampleIn>>): Promise<void> {
  if (sample?.exported) return;
  if (!sample && (await readdir(store).catch(() => [])).length > 0) {
    shell.say("The sample was made by another version, or not to its end, and is replaced.");
    await rm(store, { recursive: true });
  }
  shell.say(
    sample
      ? "Exporting the sample; this happens once."
      : "Making a sample of 20,000 markets, publishing and exporting it; this happens once.",
  );
  const run = $({ stdio: ["ignore", "ignore", "inherit"], cwd: root, nothrow: true });
  // Uses the loader of this process.
  const node = [process.execPath, ...process.execArgv];
  const sampling = ["sample.ts", "--out", sources];
  const steps = sample
    ? [["snapshot.ts", "export", "--store", store]]
    : [[...sampling, "--days-back", "1"], publishing, sampling, publishing];
  for (const [script, ...parameters] of steps) {
    const { ok } = await run`${node} scripts/${script} ${parameters}`;
    if (!ok) throw new Fault("FAILED_STEP", "The sample could not be made; the reason stands above.");
  }
}

// With both exports, clients of Delta Sharing can read the changes between the snapshots.
const publishing = ["snapshot.ts", "publish", "--sources", sources, "--store", store, "--export"];

/** The demo keys of an earlier start if they all still open what they are to; otherwise new ones. */
async function demoKeys(storage: Storage): Promise<DemoKeys> {
  const saved = await readJson(keyFile, DemoKeys);
  const ring = keyRing(storage, { now: Date.now, damaged: () => {} });
  await ring.reload();
  const opens = (plan: KeyPlan, key: string) => {
    const verdict = ring.judge(key);
    return verdict.state === "active" && verdict.record.plan === plan;
  };
  if (saved && KeyPlan.options.every((plan) => opens(plan, saved[plan]))) return saved;
  const issued = KeyPlan.options.map(async (plan) => {
    const { key } = await issueKey(storage, { plan, owner: `demo-${plan}` }, new Date());
    return [plan, key] as const;
  });
  const keys = DemoKeys.parse(Object.fromEntries(await Promise.all(issued)));
  await writeFile(keyFile, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
  return keys;
}

async function serve(shell: Shell, config: Config, examples: Examples): Promise<void> {
  const service = await startService(config, { directory: root, log: pino({ level: config.logLevel }) });
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, async () => {
      await service.stop();
      process.exit(exitCodes.done);
    });
  }
  shell.stdout.write(`${greeting(service.url, examples)}\n`);
}

function greeting(url: string, { developer, aegis, slug, earlier }: Examples): string {
  return `
Ready on ${url}/ for browsers, described on ${url}/docs/. Stop with Ctrl-C.

Demo keys, good for this sample only:
  Developer  ${developer}
  Aegis      ${aegis}

Scores need no key, their history a Developer key, the archive an Aegis key:
  curl ${url}/api/v1/scores
  curl -H 'Content-Type: application/json' -d '{"slugs":["${slug}"]}' ${url}/api/v1/scores/batch
  curl -H 'Authorization: Bearer ${developer}' ${url}/api/v1/scores/${slug}/history
  curl -H 'Authorization: Bearer ${aegis}' '${url}/api/v1/markets/historical?tier=MITHRIL&disputed=true&pageSize=2'
  curl -H 'x-api-key: ${aegis}' '${url}/api/v1/markets/historical?outcome=Yes&min_composite=700&max_oracle=40&pageSize=2'
  curl -H 'x-api-key: ${aegis}' '${url}/api/v1/markets/changes?since=${earlier}'
  curl -H 'x-api-key: ${aegis}' ${url}/api/v1/markets/exports
  curl ${url}/api/v1/status

Agents find tools at ${url}/mcp (Model Context Protocol), with the header Authorization: Bearer ${aegis}
`;
}

async function checkAddress(config: Config): Promise<void> {
  await using server = createServer();
  await listen(server, config);
}

await runAsScript(startProgram, import.meta.filename);
