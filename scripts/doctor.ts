import { readFile, stat } from "node:fs/promises";
import { parseEnv } from "node:util";
import { type Config, defaultLimits, readConfig, settings, variableName } from "../proxy/config.ts";
import { isUrl } from "../proxy/quota/redis.ts";
import { openQuota } from "../proxy/start.ts";
import { nearest } from "../schemas/nearest.ts";
import type { Commit } from "../schemas/store/stored-objects.ts";
import { readKeys } from "../snapshots/keys/keys.ts";
import { apiPlaceAt, publishedNames, siteAddressAt } from "../snapshots/publish/public/site.ts";
import { statusOf } from "../snapshots/read/archive/counts.ts";
import { Catalog } from "../snapshots/read/catalog/catalog.ts";
import { inTime } from "../snapshots/store/deadline.ts";
import { ifPresent, messageOf } from "../snapshots/store/errors.ts";
import { layout } from "../snapshots/store/layout.ts";
import { clockTolerance, describeClocks } from "../snapshots/store/log/commits.ts";
import { probeConditionalWrites, requireStore } from "../snapshots/store/open-storage.ts";
import type { Storage } from "../snapshots/store/storage.ts";
import { requireKey, requireTrusted } from "../snapshots/trust/log/believe.ts";
import { openLogReader } from "../snapshots/trust/log/log-reader.ts";
import { counted, exitCodes, type Shell, usageError } from "./cli.ts";
import { command, jsonOption, type Program, runAsScript, text } from "./program.ts";
import { faultAt, siteFaultAt } from "./service.ts";
import { sourcesLocation } from "./sources.ts";
import { openStoreUnchecked, readSigning, storeOption } from "./store.ts";

/** The object of the checks. Each check leaves what it opened to those after it. */
interface Patient {
  shell: Shell;
  /** The variables that the file of --env sets. */
  named: readonly string[];
  place: string;
  config?: Config;
  storage?: Storage;
  newest?: Commit;
}

/** Variables of commands and deployment files that are no settings of the proxy. */
const ofCommands = [
  "SOURCES",
  "STORE",
  "SITE_URL",
  "SIGNING_KEY",
  "SIGNING_NAME",
  "WITNESS_POLICY",
  "AWS_REGION",
  "AWS_ENDPOINT_URL_S3",
  "AWS_ACCESS_KEY_ID",
  "AWS_SECRET_ACCESS_KEY",
];

/** Says that a check cannot take place because one before it failed. */
class SkippedError extends Error {}

function needed<T>(part: T | undefined, name: string): T {
  if (part === undefined) throw new SkippedError(`not looked at, because ${name} failed`);
  return part;
}

const isProxy = ({ shell }: Patient) => Boolean(shell.env.SNAPSHOT_STORE);
const isPublisher = ({ shell }: Patient) => Boolean(shell.env.SOURCES);

/**
 * The checks by name. Each returns what is well, or throws what is not; undefined when it does not concern the
 * environment.
 */
const checks: Readonly<Record<string, (patient: Patient) => Promise<string | undefined>>> = {
  async settings(patient) {
    const names = [...settings.map(variableName), ...ofCommands];
    const faults = patient.named.flatMap((name) => {
      const suggestion = names.includes(name) ? undefined : nearest(name, names);
      return suggestion ? [`${name} is no setting. Did you mean ${suggestion}?`] : [];
    });
    if (faults.length > 0) throw new Error(faults.join("\n"));
    if (isProxy(patient)) patient.config = readConfig(patient.shell.env);
    return names.filter((name) => patient.shell.env[name]).join(", ");
  },

  async sources(patient) {
    if (!isPublisher(patient)) return;
    const location = sourcesLocation(patient.shell, patient.shell.env.SOURCES!);
    if (typeof location === "string" && !(await ifPresent(stat(location))))
      throw new Error(`there is nothing at ${location} (SOURCES)`);
    return `named; \`npm run snapshot -- check --sources ${patient.shell.env.SOURCES}\` reads them`;
  },

  async store(patient) {
    const { shell, place } = patient;
    const storage = await openStoreUnchecked(shell, place);
    await requireStore(storage, { wayOut: "; a publish makes one, where the address is right" });
    patient.storage = storage;
    const at = (file: string | undefined) => (file ? shell.path(file) : undefined);
    const { TRUST_POLICY, TRUSTED_KEYS, CHECKPOINT_FILE } = shell.env;
    const files = { TRUST_POLICY: at(TRUST_POLICY), TRUSTED_KEYS: at(TRUSTED_KEYS) };
    const trusted = TRUST_POLICY || TRUSTED_KEYS;
    const reader = await openLogReader(
      storage,
      { ...files, CHECKPOINT_FILE: trusted && at(CHECKPOINT_FILE) },
      { warn: () => {}, refused: () => {} },
    );
    // It remembers nothing: a file written here would belong to whoever runs this, and the proxy's user could no longer
    // read it.
    const catalog = new Catalog(storage, {
      cacheBytes: 2 ** 24,
      reader: { ...reader, remember: async () => {} },
    });
    await catalog.refresh();
    const refusal = catalog.heldBack() ?? reader.refusal();
    if (refusal) throw new Error(`what is newest is not taken up: ${refusal}`);
    const newest = await reader.newest(undefined);
    if (!newest) throw new Error(`there is no snapshot at ${storage.location} yet; publish one`);
    patient.newest = newest;
    const { staleAfterSeconds } = patient.config ?? readConfig({ SNAPSHOT_STORE: place });
    const { commit, counts, checkedAt, stale } = statusOf(catalog, { staleAfterSeconds });
    if (stale)
      throw new Error(
        `the last publish was at ${checkedAt}, longer ago than STALE_AFTER_SECONDS (${staleAfterSeconds}): ` +
          "look at what the last runs of publish said",
      );
    return `commit ${commit} with ${counted(counts.markets, "market")}, publish run at ${checkedAt}`;
  },

  async rights(patient) {
    if (!isPublisher(patient)) return;
    await probeConditionalWrites(await openStoreUnchecked(patient.shell, patient.place));
    return "reads, lists and writes, and never over another's object";
  },

  async clock(patient) {
    const storage = needed(patient.storage, "store");
    const clocks = await describeClocks(storage, new Date());
    const { publishedAt = "" } = patient.newest?.entry ?? {};
    const isEarly = Date.parse(publishedAt) - Date.now() > clockTolerance;
    if (Math.abs(storage.clockAhead?.() ?? 0) <= clockTolerance && !isEarly) return clocks;
    throw new Error(
      `${clocks}${isEarly ? `, and the newest commit's time is ${publishedAt}` : ""}: ` +
        "set the wrong one right, as by NTP",
    );
  },

  async keys(patient) {
    if (!isProxy(patient)) return;
    const storage = needed(patient.storage, "store");
    const { records, revocations, damaged } = await readKeys(storage);
    if (damaged[0]) throw damaged[0];
    const now = new Date().toISOString();
    const active = records.filter(
      ({ id, expiresAt = "9999" }) => expiresAt > now && (revocations.get(id)?.revokedAt ?? "9999") > now,
    );
    return active.length > 0
      ? `${counted(active.length, "key")} in force`
      : `none; \`npm run keys -- issue --plan aegis --owner NAME --store ${patient.place}\` makes one`;
  },

  async signing(patient) {
    const { shell } = patient;
    const signing = isPublisher(patient) ? await readSigning(shell) : undefined;
    const storage = needed(patient.storage, "store");
    const newest = needed(patient.newest, "store");
    if (signing) {
      requireKey(storage, newest, signing);
      requireTrusted(storage.location, newest, signing);
    }
    const believes = shell.env.TRUST_POLICY || shell.env.TRUSTED_KEYS;
    if (newest.note !== undefined && isProxy(patient) && !believes)
      throw new Error(
        "commits are signed, and nobody checks it: set TRUSTED_KEYS to a file with the publisher's public key",
      );
    if (signing?.key && newest.note === undefined) return `the next run signs as ${signing.key.name}`;
    return newest.note === undefined ? "nobody signs" : "the newest commit is signed";
  },

  async addresses(patient) {
    const { SITE_URL, PUBLIC_ORIGIN, API_URL } = patient.shell.env;
    const named = patient.storage && (await publishedNames(patient.storage));
    const site = SITE_URL && SITE_URL !== "none" ? siteAddressAt(SITE_URL) : named?.site;
    const origin = PUBLIC_ORIGIN && siteAddressAt(PUBLIC_ORIGIN);
    const api = API_URL && API_URL !== "none" && `${apiPlaceAt(API_URL)}/status`;
    const checked: string[] = [];
    const faults: string[] = [];
    const look = async (name: string, address: string, fault: () => Promise<string | undefined>) => {
      // `localhost` is another machine for everyone who asks, such as a container.
      if (new URL(address).hostname === "localhost") return;
      checked.push(address);
      const problem = await fault();
      if (problem) faults.push(`${name}: ${problem}`);
    };
    if (site) await look("SITE_URL", site, () => siteFaultAt(site));
    if (origin) await look("PUBLIC_ORIGIN", origin, () => siteFaultAt(`${origin}${layout.publicTree}`));
    if (api)
      await look("API_URL", api, async () => {
        const fault = await faultAt(api, /"snapshotId"/);
        return fault && `${api} ${fault}`;
      });
    if (faults.length > 0) throw new Error(faults.join("\n"));
    return checked.length > 0 ? `found ${checked.join(", ")}` : undefined;
  },

  async quota(patient) {
    if (!isProxy(patient)) return;
    const { quotaStore } = needed(patient.config, "settings");
    const file = isUrl(quotaStore) ? undefined : patient.shell.path(quotaStore);
    // If it were made here, it would belong to whoever runs this, and the proxy's user could not write to it.
    if (file && !(await ifPresent(stat(file)))) return `${file} is made at the first start`;
    const reasons: Error[] = [];
    const log = { warn: ({ err }: { err: Error }) => void reasons.push(err) };
    const { directory } = patient.shell;
    const store = await openQuota({ quotaStore }, { directory, log }, defaultLimits);
    try {
      await store.used("doctor", new Date().toISOString().slice(0, 10));
      const { store: kind, replica } = await store.keeping();
      return `${kind} counts${replica === null ? "" : `, a replica is ${replica}`}`;
    } catch (error) {
      throw new Error(`QUOTA_STORE does not answer: ${messageOf(reasons[0] ?? error)}`);
    } finally {
      await store.close();
    }
  },
};

/** Advice for messages of stores and servers that leave the remedy to whoever runs them. */
const waysOut: readonly [RegExp, string][] = [
  [
    /\bSignatureDoesNotMatch|\bInvalidAccessKeyId|[Cc]redentials/,
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's role, say who asks",
  ],
  [/\bNoSuchBucket/, "make the bucket first (.github/deploy/README.md), or correct its name"],
  [
    /: 403\b|\bAccessDenied/,
    "the role lacks this right; the role-*.json of .github/deploy have what each needs",
  ],
  [
    /\bE(?:CONNREFUSED|NOTFOUND|TIMEDOUT|HOSTUNREACH)\b|no answer within/,
    "is the address right, and does it answer this machine?",
  ],
  [/\bEACCES\b/, "run this as the user of the unit, or give that user the right"],
];

function withWayOut(message: string): string {
  const [, wayOut] = waysOut.find(([pattern]) => pattern.test(message)) ?? [];
  return [message.replaceAll("\n", " "), ...(wayOut ? [wayOut] : [])].join("; ");
}

/** Longer than any deadline within a check. */
const checkSeconds = 120;

const doctor = command({
  name: "",
  does: "says what is wrong with a deployment, by what its environment names, and the way out",
  options: {
    env: text("FILE", "a file of variables, as /etc/prs/prs-proxy.env"),
    store: { ...storeOption.store, required: false, otherwise: "SNAPSHOT_STORE or STORE" },
    ...jsonOption,
  },
  async run({ env: file, store, json }, _operand, shell) {
    const variables = file ? parseEnv(await readFile(shell.path(file), "utf8")) : {};
    // The client of S3 looks for credentials in the environment itself.
    Object.assign(shell.env, variables);
    const place = store ?? (shell.env.SNAPSHOT_STORE || shell.env.STORE);
    if (!place) throw usageError("--store is missing, and neither SNAPSHOT_STORE nor STORE names the store");
    const patient: Patient = { shell, named: Object.keys(variables), place };
    const findings: { check: string; state: "ok" | "wrong" | "skipped"; says: string }[] = [];
    for (const [check, look] of Object.entries(checks)) {
      try {
        const says = await inTime(checkSeconds, look(patient));
        if (says !== undefined) findings.push({ check, state: "ok", says });
      } catch (error) {
        const state = error instanceof SkippedError ? "skipped" : "wrong";
        findings.push({ check, state, says: withWayOut(messageOf(error)) });
      }
    }
    const wrong = findings.filter(({ state }) => state === "wrong").length;
    shell.report(json, { findings }, [
      ...findings.map(({ check, state, says }) => `${state.padEnd(8)}${check}: ${says}`),
      wrong === 0 ? "Nothing is wrong" : `${counted(wrong, "check")} failed`,
    ]);
    return wrong === 0 ? exitCodes.done : exitCodes.unexpected;
  },
});

export const doctorProgram: Program = { call: "npm run doctor --", commands: [doctor] };

await runAsScript(doctorProgram, import.meta.filename);
