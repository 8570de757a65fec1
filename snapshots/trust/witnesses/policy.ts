import { readFile } from "node:fs/promises";
import { type Policy, policyIn, policyOf } from "../../format/policy.ts";
import { keyFileError, parsed, readTrustedKeys, unusable } from "../notes/key-files.ts";
import { parseVerifierKey } from "../notes/note-keys.ts";

const maxBytes = 1024 * 1024;

/** Reads the file of a policy. Throws KEY_FILE, which names file and line. */
export async function readPolicy(path: string): Promise<Policy> {
  const bytes = await readFile(path).catch((error) => {
    throw unusable(path, "read", error);
  });
  return parsePolicy(bytes, path);
}

/**
 * Whose checkpoints a reader believes, by the file of a policy or that of public keys; undefined where neither is
 * named. Throws KEY_FILE, also when both are.
 */
export async function believedPolicy({
  policy: file,
  keys,
}: Partial<Record<"policy" | "keys", string | undefined>>): Promise<Policy | undefined> {
  if (!file) return keys ? policyOf(await readTrustedKeys(keys)) : undefined;
  if (keys)
    throw keyFileError(
      "a policy (TRUST_POLICY) names the keys too, so neither --trusted-key nor TRUSTED_KEYS goes with it",
    );
  const policy = await readPolicy(file);
  if (policy.logs.length > 0) return policy;
  throw keyFileError(`${file} names no log; "log VKEY" does, where VKEY is the content of a .pub file`);
}

/** Reads the text of a policy; `path` is what errors call it. */
export function parsePolicy(bytes: Uint8Array, path: string): Policy {
  if (bytes.length > maxBytes) throw keyFileError(`${path} is no policy: it has more than ${maxBytes} bytes`);
  const policy = policyIn(bytes, {
    keyIn: (text, line) => parsed(path, line, () => parseVerifierKey(text)),
    wrong: (line, reason) => keyFileError(`${path}, line ${line}: ${reason}`),
  });
  if (policy) return policy;
  throw keyFileError(`${path} has no quorum line; "quorum none" asks for no witness`);
}
