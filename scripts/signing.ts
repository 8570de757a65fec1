import { readSigningKey, readTrustedKeys } from "../snapshots/trust/key-files.ts";
import { isKeyName, type VerifierKey } from "../snapshots/trust/note-keys.ts";
import { type Signing, trustOf } from "../snapshots/trust/signing.ts";
import type { Trust } from "../snapshots/trust/trust.ts";
import { integerOption, UsageError } from "./cli.ts";
import type { Shell } from "./shell.ts";

/** The name of a key, and so the origin of the log, where nobody gives another. */
export const defaultSigningName = "protocol-risk-score-service";

export const trustedKeyOption = {
  "trusted-key": {
    type: "string",
    value: "FILE",
    does: "public keys, one a line (or TRUSTED_KEYS); only commits that one of them signed count",
  },
} as const;

export const signOverOption = {
  "sign-over": {
    type: "string",
    value: "N",
    does: "lets a run with SIGNING_KEY build on this commit, the newest, although no trusted key signed it",
  },
} as const;

/** SIGNING_NAME, or undefined where it is not set. Throws UsageError when no key can be called so. */
export function signingName(shell: Shell, given = shell.env.SIGNING_NAME): string | undefined {
  if (!given || isKeyName(given)) return given || undefined;
  throw new UsageError(
    `${JSON.stringify(given)} is no name for a key: spaces, plus signs and control characters are not allowed`,
  );
}

/** The keys of --trusted-key or TRUSTED_KEYS; none where neither is given. Throws KeyFileError. */
export async function trustedKeys(shell: Shell, file = shell.env.TRUSTED_KEYS): Promise<VerifierKey[]> {
  return file ? readTrustedKeys(shell.path(file)) : [];
}

/** How SIGNING_KEY, SIGNING_NAME and the options say that a run signs. Throws UsageError or KeyFileError. */
export async function readSigning(
  shell: Shell,
  values: { "trusted-key"?: string | undefined; "sign-over"?: string | undefined } = {},
): Promise<Signing> {
  const { SIGNING_KEY: file } = shell.env;
  const over = values["sign-over"];
  const trusted = await trustedKeys(shell, values["trusted-key"]);
  if (!file) {
    if (over !== undefined) throw new UsageError("--sign-over goes with SIGNING_KEY, which is not set");
    return { trusted };
  }
  const key = await readSigningKey(shell.path(file));
  const name = signingName(shell);
  if (name !== undefined && name !== key.name)
    throw new UsageError(`SIGNING_NAME is ${name}, but the key in SIGNING_KEY is called ${key.name}`);
  return { key, trusted, over: integerOption("sign-over", over, { min: 1, otherwise: 0 }) };
}

/**
 * Whose records a command believes: the holders' of the keys in --trusted-key, TRUSTED_KEYS and SIGNING_KEY; undefined,
 * and so everybody, where none is given. Throws as `readSigning`.
 */
export async function readTrust(
  shell: Shell,
  values: { "trusted-key"?: string | undefined },
): Promise<Trust | undefined> {
  return trustOf(await readSigning(shell, { "trusted-key": values["trusted-key"] }));
}

/** The warning of a run that makes an unsigned commit after a signed one. */
export const lostSignature =
  "SIGNING_KEY is not set, but this store was signed: proxies that trust keys do not take up what this run makes.";
