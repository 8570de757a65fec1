import { integerOf } from "../schemas/shapes.ts";
import { isKeyName, type Policy } from "../snapshots/format/note.ts";
import { cacheDisk, openStorage, requireStore } from "../snapshots/store/open-storage.ts";
import type { Storage } from "../snapshots/store/storage.ts";
import type { Signing } from "../snapshots/trust/log/believe.ts";
import { openCheckpointFile } from "../snapshots/trust/log/checkpoints.ts";
import { believedPolicy, readPolicy, readSigningKeys } from "../snapshots/trust/notes/note-keys.ts";
import { Witnesses } from "../snapshots/trust/witnesses.ts";
import { type Shell, usageError } from "./cli.ts";
import { flag, jsonOption, number, text } from "./program.ts";

export const storeOption = {
  store: text("STORE", "the store", { required: true }),
} as const;

export const common = { ...storeOption, ...jsonOption };

export async function openStore(
  shell: Shell,
  location: string,
  looks?: Parameters<typeof requireStore>[1],
): Promise<Storage> {
  const storage = await openStoreUnchecked(shell, location);
  await requireStore(storage, looks);
  return storage;
}

/**
 * Opens a store whether or not it exists. Objects of a store in S3 are cached in the folder `cacheDir`, where that is
 * given.
 */
export function openStoreUnchecked(
  shell: Shell,
  location: string,
  cacheDir?: string | undefined,
): Promise<Storage> {
  const { CACHE_DISK_BYTES: bytes } = shell.env;
  const [least, most] = [cacheDisk.leastBytes, Number.MAX_SAFE_INTEGER];
  const cacheDiskBytes = bytes ? integerOf(bytes, least, most) : cacheDisk.defaultBytes;
  if (cacheDiskBytes === undefined)
    throw usageError(`CACHE_DISK_BYTES must be an integer from ${least} to ${most}`);
  const cache = { cacheDir, cacheDiskBytes, warn: (line: string) => shell.warn(line) };
  return openStorage(location, shell.directory, shell.env, undefined, cache);
}

/** The default name of a key, and so the origin of the log. */
export const defaultSigningName = "protocol-risk-score-service";

export const trustOptions = {
  "trusted-key": text(
    "FILE",
    "public keys, one a line (or TRUSTED_KEYS); only commits that one of them signed count",
  ),
  "trust-policy": text(
    "FILE",
    "the same with witnesses (or TRUST_POLICY): a policy of logs, witnesses and quorum as c2sp.org/tlog-policy",
  ),
} as const;

export const unsignedOption = {
  unsigned: flag("lets a run without SIGNING_KEY write into a store whose commits are signed"),
};

interface TrustValues {
  "trusted-key"?: string | undefined;
  "trust-policy"?: string | undefined;
}

export const signOverOption = {
  "sign-over": number(
    "lets a run with SIGNING_KEY build on this commit, the newest, although no trusted key signed it",
    { min: 1 },
  ),
};

export function signingName(shell: Shell, name = shell.env.SIGNING_NAME): string | undefined {
  if (!name || isKeyName(name)) return name || undefined;
  throw usageError(
    `${JSON.stringify(name)} is no name for a key: spaces, plus signs and control characters are not allowed`,
  );
}

/**
 * The policy of --trust-policy or TRUST_POLICY, or of the keys in --trusted-key or TRUSTED_KEYS. Options win over
 * variables. Undefined where none is given.
 */
export async function trustPolicy(shell: Shell, values: TrustValues): Promise<Policy | undefined> {
  const options = [values["trust-policy"], values["trusted-key"]];
  const files = options.some(Boolean) ? options : [shell.env.TRUST_POLICY, shell.env.TRUSTED_KEYS];
  const [policy, keys] = files.map((file) => (file ? shell.path(file) : undefined));
  return believedPolicy({ policy, keys });
}

/**
 * Reads how a run signs (SIGNING_KEY, SIGNING_NAME and the options), and who remembers the log (WITNESS_POLICY and
 * CHECKPOINT_FILE). A run that does not sign needs the latter, too.
 */
export async function readSigning(
  shell: Shell,
  values: TrustValues & { "sign-over"?: number | undefined; unsigned?: boolean | undefined } = {},
): Promise<Signing> {
  const { SIGNING_KEY: file, WITNESS_POLICY: policyFile, CHECKPOINT_FILE: memoryFile } = shell.env;
  const { "sign-over": over, unsigned } = values;
  if (file && unsigned) throw usageError("--unsigned goes without SIGNING_KEY, which is set");
  const trusted = (await trustPolicy(shell, values))?.logs.map((log) => log.key) ?? [];
  const witnesses = policyFile ? new Witnesses(await readPolicy(shell.path(policyFile))) : undefined;
  const memory = memoryFile ? await openCheckpointFile(shell.path(memoryFile)) : undefined;
  if (!file) {
    if (over !== undefined) throw usageError("--sign-over goes with SIGNING_KEY, which is not set");
    return { witnesses, memory, trusted, unsigned };
  }
  const { key, cosigner } = await readSigningKeys(shell.path(file));
  const name = signingName(shell);
  if (name !== undefined && name !== key.name)
    throw usageError(`SIGNING_NAME is ${name}, but the key in SIGNING_KEY is called ${key.name}`);
  return { key, cosigner, witnesses, memory, trusted, over };
}

export const logBeginsOption = {
  "log-begins-at": number(
    "the number of the oldest commit that has to be there, where those before it are gone for good",
    { min: 1 },
    { default: "1" },
  ),
};

/** The warning of a run that makes an unsigned commit after a signed one. */
export const lostSignature =
  "SIGNING_KEY is not set, but this store was signed: proxies that trust keys do not take up what this run makes.";
